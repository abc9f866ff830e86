"""
Entries as rows: each in parts of one MiB, and put together again.

A row of every entry is part 0, and `bytes` in it is the length of the whole entry, so that what is
read at once can be bounded before it is read. What is put together has its checksums verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from holdfast.errors import CorruptEntryError, MissingEntriesError
from holdfast.journal.entry import Entry, parse_entry
from holdfast.model.limits import MiB

PART_BYTES: Final = 1 * MiB
TABLE: Final = "table holdfast_entries"


class Part(NamedTuple):
    """One row of the table, its columns in order."""

    idx: int
    part: int
    term: int
    first_record: int
    record_count: int
    size: int
    stored_at: int
    raw: bytes


def split(entries: Sequence[Entry], stored_at: int) -> list[Part]:
    """Give the rows of these entries."""
    parts: list[Part] = []
    for it in entries:
        size = len(it.raw)
        fields = (it.term, it.first_record, it.record_count, size, stored_at)
        if size <= PART_BYTES:
            parts.append(Part(it.index, 0, *fields, it.raw))
            continue
        for part, start in enumerate(range(0, size, PART_BYTES)):
            parts.append(Part(it.index, part, *fields, it.raw[start : start + PART_BYTES]))
    return parts


def last_within(sizes: Iterable[tuple[int, int]], after: int, bytes_max: int) -> int:
    """
    Give the last entry to be read at once: as many as `bytes_max` holds, and one at least.

    Args:
        sizes: (index, bytes) of those that are there, in order.
    """
    last, total = after, 0
    for index, size in sizes:
        if index != last + 1 or (total and total + size > bytes_max):
            break
        last, total = index, total + size
    return last


def join(rows: Iterable[tuple[int, int, bytes]], after: int, last: int) -> list[Entry]:
    """
    Give the entries that these rows are, from the one after `after` through `last`.

    Raises:
        MissingEntriesError: A row of one is not there.
        CorruptEntryError: One is not as it was written.
    """
    entries: list[Entry] = []
    index = after
    for found, group in groupby(rows, key=itemgetter(0)):
        index += 1
        if found != index:
            raise MissingEntriesError(index, found - 1, TABLE)
        entries.append(_join_one(index, list(group)))
    if index < last:
        raise MissingEntriesError(index + 1, last, TABLE)
    return entries


def _join_one(index: int, rows: list[tuple[int, int, bytes]]) -> Entry:
    for part, row in enumerate(rows):
        if row[1] != part:
            raise CorruptEntryError(f"part {part} is missing", segment=TABLE, index=index)
    raw = bytes(rows[0][2]) if len(rows) == 1 else b"".join(row[2] for row in rows)
    try:
        entry = parse_entry(raw)
    except CorruptEntryError as error:
        raise CorruptEntryError(error.reason, segment=TABLE, index=index) from None
    if entry.index != index or len(entry.raw) != len(raw):
        reason = f"the row holds entry {entry.index:,}, or more than one"
        raise CorruptEntryError(reason, segment=TABLE, index=index)
    return entry
