"""Pages of small files: whole, or nothing at all."""

from __future__ import annotations

import pytest
from google_crc32c import value as crc32c

from holdfast.errors import StoreError
from holdfast.shared.page import BEAT, CLAIM, PAGE_BYTES, is_blank


def test_a_page_says_what_was_written() -> None:
    """What was encoded is decoded, and takes one page."""
    page = BEAT.encode({"counter": 7, "segment": None})

    assert len(page) == PAGE_BYTES
    assert BEAT.decode(page) == {"counter": 7, "segment": None}


@pytest.mark.parametrize("place", [0, 6, 9, 17, 100, PAGE_BYTES - 1])
def test_a_page_with_a_wrong_byte_says_nothing(place: int) -> None:
    """One flipped bit anywhere, also behind the text, and the page is not believed."""
    page = bytearray(BEAT.encode({"counter": 7}))
    page[place] ^= 1

    assert BEAT.decode(bytes(page)) is None


def test_a_torn_or_foreign_page_says_nothing() -> None:
    """Half a page, zeros and a page of another kind are not taken for one."""
    page = BEAT.encode({"counter": 7})

    assert BEAT.decode(page[:512]) is None
    long = BEAT.encode({"counter": 7, "segment": "x" * 1000})
    assert BEAT.decode(long[:512] + bytes(PAGE_BYTES - 512)) is None
    assert BEAT.decode(bytes(PAGE_BYTES)) is None
    assert CLAIM.decode(page) is None


def test_a_page_of_another_version_is_refused_by_name() -> None:
    """It is whole, so it is not called damaged: another program wrote it."""
    page = bytearray(CLAIM.encode({"epoch": 1}))
    page[4] = 9
    page[8:12] = bytes(4)
    page[8:12] = crc32c(bytes(page)).to_bytes(4, "little")

    with pytest.raises(StoreError, match="claim has version 9, and this program knows 1"):
        CLAIM.decode(bytes(page))


def test_blank_is_what_nobody_wrote() -> None:
    """Zeros and nothing are blank, a single other byte is not."""
    assert is_blank(b"") and is_blank(bytes(10))
    assert not is_blank(bytes(10) + b"x")
