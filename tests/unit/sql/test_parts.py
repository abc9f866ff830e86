"""Entries as rows, and rows as entries: what is missing or rotten is named."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, entry_bytes, seal_entry
from holdfast.sql.parts import PART_BYTES, join, last_within, split

Row = tuple[int, int, bytes]


def entry(index: int, body: bytes) -> Entry:
    return seal_entry(
        index=index,
        term=2,
        kind=KIND_RECORDS,
        timestamp=index,
        first_record=index,
        record_count=1,
        parts=[body],
        previous_chain=FIRST_CHAIN,
    )


def rows(*entries: Entry) -> list[Row]:
    return [(it.idx, it.part, it.raw) for it in split(entries, 7)]


def test_each_part_is_a_mib_and_each_row_tells_of_its_entry() -> None:
    """The last part is what is left; none is empty."""
    head = entry_bytes(0)
    whole = entry(5, b"x" * (2 * PART_BYTES - head))
    more = entry(6, b"x" * (2 * PART_BYTES - head + 1))

    assert [len(it.raw) for it in split([whole], 7)] == [PART_BYTES, PART_BYTES]
    parts = split([more], 7)
    assert [len(it.raw) for it in parts] == [PART_BYTES, PART_BYTES, 8]
    assert {it[:1] + it[2:7] for it in parts} == {(6, 2, 6, 1, len(more.raw), 7)}
    assert [it.part for it in parts] == [0, 1, 2]


def test_what_was_split_is_joined() -> None:
    """Small ones and large ones, as they were."""
    entries = [entry(4, b"a"), entry(5, b"b" * 3 * PART_BYTES), entry(6, b"")]

    assert join(rows(*entries), 3, 6) == entries


def test_a_missing_entry_is_named() -> None:
    """The first, one in the middle, and the last ones."""
    all_rows = rows(entry(4, b"a"), entry(5, b"b"), entry(6, b"c"))
    for left, first, last in (
        (all_rows[1:], "entry 4 is", 4),
        (all_rows[:1] + all_rows[2:], "entry 5 is", 5),
        (all_rows[:1], "entries 5 to 6 are", 5),
        ([], "entries 4 to 6 are", 4),
    ):
        with pytest.raises(MissingEntriesError, match=f"{first} missing from table") as raised:
            join(left, 3, 6)
        assert raised.value.index == last


@pytest.mark.parametrize("lost", [0, 1])
def test_a_missing_part_is_named(lost: int) -> None:
    """The first and one in between; the entry's number is in the error."""
    left = rows(entry(4, b"b" * 3 * PART_BYTES))
    del left[lost]

    with pytest.raises(CorruptEntryError, match=f"part {lost} is missing") as raised:
        join(left, 3, 4)
    assert raised.value.index == 4


def test_a_missing_last_part_is_a_body_cut_short() -> None:
    """Nothing else tells how many parts there were but the entry itself."""
    with pytest.raises(CorruptEntryError, match="cut short"):
        join(rows(entry(4, b"b" * 3 * PART_BYTES))[:-1], 3, 4)


def test_a_flipped_bit_is_found() -> None:
    """By the entry's own checksums; the database's are not relied on."""
    ((_, _, raw),) = rows(entry(4, b"b" * 100))

    with pytest.raises(CorruptEntryError, match="body checksum is wrong") as raised:
        join([(4, 0, raw[:90] + bytes([raw[90] ^ 1]) + raw[91:])], 3, 4)
    assert raised.value.index == 4


def test_another_entry_in_the_row_is_found() -> None:
    """A row that was copied from another one is no entry of this number, nor are two in one."""
    ((_, _, raw),) = rows(entry(4, b"b"))
    for wrong in ((5, 0, raw), (4, 0, raw * 2)):
        with pytest.raises(CorruptEntryError, match="the row holds"):
            join([wrong], wrong[0] - 1, wrong[0])


def test_as_many_are_read_at_once_as_there_is_room_for() -> None:
    """One at least; up to a gap."""
    sizes = [(4, 10), (5, 10), (6, 10), (8, 1)]

    assert last_within(sizes, 3, 1) == 4
    assert last_within(sizes, 3, 20) == 5
    assert last_within(sizes, 3, 29) == 5
    assert last_within(sizes, 3, 1000) == 6
    assert last_within(sizes, 2, 1000) == 2
    assert last_within([], 3, 1000) == 3
