"""
The columns that only some chunks have, as bytes and back.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.chunk import Chunk
from holdfast.broker.lasting.columns import (
    DUE,
    EXPIRES,
    GROUPS,
    RETURNED,
    columns_bytes,
    decode_columns,
)
from holdfast.broker.lasting.columns import encode_columns as encode
from holdfast.broker.lasting.returns import NEVER, Returned


def chunk(**slots: Returned) -> Chunk:
    made = Chunk(0)
    for name, returned in slots.items():
        made.put_returned(int(name.removeprefix("slot")), returned)
    return made


@pytest.mark.parametrize("slots", [range(2, 9), [2, 5, 8]], ids=["whole", "listed"])
@pytest.mark.parametrize(
    ("returned", "mask"),
    [
        (NEVER, 0),
        (Returned(1), RETURNED),
        (Returned(3, 2), RETURNED),
        (Returned(1, 0, 9), RETURNED | DUE),
        (Returned(0, 0, 9), DUE),
    ],
)
def test_they_come_back(slots, returned, mask) -> None:
    """Only those of which something is to be said, and as long as is told."""
    found, columns = encode(chunk(slot5=returned), slots)
    assert (found, len(columns)) == (mask, columns_bytes(mask, len(slots)))
    back = Chunk(0)
    parts = iter(columns)
    decode_columns(mask, back, slots, lambda count: bytes(next(parts) for _ in range(count)))
    assert (NEVER if back.returns is None else back.returns.of(5)) == returned


@pytest.mark.parametrize("slots", [range(2, 9), [2, 5, 8]], ids=["whole", "listed"])
def test_when_a_message_expires_comes_back(slots) -> None:
    """Of those that do; where none does any more there is no such column."""
    made = chunk(slot2=Returned(1))
    made.put_expires(5, 1 << 40)
    found, columns = encode(made, slots)
    assert (found, len(columns)) == (RETURNED | EXPIRES, columns_bytes(found, len(slots)))
    back = Chunk(0)
    parts = iter(columns)
    decode_columns(found, back, slots, lambda count: bytes(next(parts) for _ in range(count)))
    assert back.expires is not None
    assert list(back.expires) == [0, 0, 0, 0, 0, 1 << 40]
    made.put_expires(5, 0)
    assert encode(made, slots)[0] == RETURNED


def test_what_was_only_is_not_said() -> None:
    """Equal states have equal bytes, whatever they were before."""
    made = chunk(slot5=Returned(1, 0, 9), slot6=Returned(1))
    made.put_returned(5, NEVER)
    assert encode(made, range(10))[0] == RETURNED


def test_what_is_not_known_is_refused() -> None:
    """By whoever skips it, too: its length is not known either."""
    with pytest.raises(ValueError, match="columns 0x0081"):
        decode_columns(129, Chunk(0), [], bytes)
    with pytest.raises(ValueError, match="columns 0x0080"):
        columns_bytes(128, 3)


@pytest.mark.parametrize("slots", [range(2, 9), [2, 5, 8]], ids=["whole", "listed"])
def test_groups_come_back_beside_what_else_there_is(slots) -> None:
    """Of four bytes each, behind all others."""
    made = chunk(slot2=Returned(1, 0, 9))
    made.put_group_hash(5, 0xCAFE)
    mask, columns = encode(made, slots)
    assert (mask, len(columns)) == (RETURNED | DUE | GROUPS, columns_bytes(mask, len(slots)))
    back = Chunk(0)
    parts = iter(columns)
    decode_columns(mask, back, slots, lambda count: bytes(next(parts) for _ in range(count)))
    assert back.group_hashes is not None
    assert list(back.group_hashes) == [0, 0, 0, 0, 0, 0xCAFE]


def test_a_group_that_is_gone_is_not_said() -> None:
    """Equal states have equal bytes: the column is there only where something lives in a group."""
    made = chunk()
    made.put_group_hash(5, 7)
    made.put_group_hash(5, 0)
    assert encode(made, range(10)) == (0, b"")
