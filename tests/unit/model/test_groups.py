"""
Of which group a message is, as the broker goes by it.
"""

from __future__ import annotations

from holdfast.model import groups
from holdfast.model.groups import group_hash


def test_it_is_the_checksum_of_the_name_for_ever() -> None:
    """
    It stands in the log: CRC32C of the name in UTF-8, as RFC 3720 has it for these digits.
    """
    assert group_hash("123456789") == 0xE3069283
    assert group_hash("größe") != group_hash("grosse")


def test_no_name_is_no_group_and_every_name_is_one(monkeypatch) -> None:
    """
    0 says that there is none, so a name whose checksum that is has another number.
    """
    assert group_hash("") == 0
    monkeypatch.setattr(groups, "crc32c", lambda _: 0)
    assert group_hash("one in four billion") == 1
