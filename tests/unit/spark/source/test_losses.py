"""
Going on behind what was cleaned away: on a log in memory that is cleaned under its reader.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError, RecordNotFoundError
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.spark.log.source import DamagedRange, LogPosition
from holdfast.spark.source.losses import LenientLog, first_kept, passed_over
from trials.pipeline.written_log import message, sealed

LAST = 20
ENTRIES = sealed(*([message(1, n, b"body")] for n in range(1, LAST + 1)))


@dataclass(eq=False)
class CleanedLog:
    """Blocks of two entries; with each block given the cleaner takes the next step."""

    firsts: list[int] = field(default_factory=lambda: [1])
    told: int = 0
    """What the node that answers holds, if that is less than others have."""

    @property
    def first(self) -> int:
        return self.firsts[0]

    def position(self) -> LogPosition:
        return LogPosition(first_index=self.told or self.first, last_index=LAST)

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        for index in range(first_index, last_index + 1, 2):
            if not self.first <= index <= LAST:
                raise RecordNotFoundError(f"entry {index} is no longer in the log")
            through = min(index + 1, last_index)
            raws = [entry.raw for entry in ENTRIES[index - 1 : through]]
            yield cut_entries(b"".join(raws), index)
            if len(self.firsts) > 1:
                del self.firsts[0]

    def queue_names(self) -> dict[int, str]:
        return {1: "a"}

    def reach(self, from_index: int, bytes_max: int) -> int:
        return from_index + bytes_max


def read(log: CleanedLog, first: int = 1, last: int = LAST) -> list[int]:
    blocks = LenientLog(log).blocks(first, last)
    return [n for it in blocks for n in range(it.first_index, it.last_index + 1)]


def test_what_is_gone_is_passed_over_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also what is cleaned in the middle; all else comes once and in order."""
    with caplog.at_level(logging.WARNING):
        assert [*range(5, 7), *range(13, LAST + 1)] == read(CleanedLog([5, 13]))
    said = "failOnDataLoss=false: entries skipped, as they were cleaned away before they were read"
    assert [f"{said}: 4, from 1 to 4", f"{said}: 6, from 7 to 12"] == [
        record.getMessage() for record in caplog.records
    ]


def test_a_range_that_is_gone_whole_has_no_entries() -> None:
    """It ends behind the range, wherever the log begins."""
    assert [] == read(CleanedLog([15]), 3, 9)


def test_an_entry_that_never_was_is_an_error_still() -> None:
    """Only what was cleaned away is passed over."""
    with pytest.raises(RecordNotFoundError):
        read(CleanedLog(), 1, LAST + 4)


def test_what_an_archive_lacks_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """It was cleaned away, too: before it was archived."""
    log = CleanedLog()
    gap = DamagedRange(3, 4, MissingEntriesError(3, 4, "here"))
    there = [next(log.blocks(index, index + 1)) for index in (1, 5)]
    found = [there[0], gap, there[1]]
    log.blocks = lambda *_: iter(found)  # type: ignore[method-assign] # one test's own log
    assert [1, 2, 5, 6] == read(log)
    assert "2, from 3 to 4" in caplog.text


def test_damage_is_handed_on() -> None:
    """It is no loss by cleaning."""
    log = CleanedLog()
    damage = DamagedRange(1, LAST, CorruptEntryError("bad", byte=0, index=1))
    log.blocks = lambda *_: iter([damage])  # type: ignore[method-assign] # one test's own log
    assert [damage] == list(LenientLog(log).blocks(1, LAST))


def test_the_first_entry_kept_is_asked_of_all() -> None:
    """One node's beginning is not the cluster's; an entry that is there costs no question."""
    log = CleanedLog([5])
    assert 7 == first_kept(log, log.position(), 7)
    assert 5 == first_kept(log, log.position(), 2)
    log.told = 9
    assert 6 == first_kept(log, log.position(), 6)


def test_the_rest_is_the_log_itself() -> None:
    """Names, position, and how far bytes reach from what is there."""
    log = CleanedLog([5])
    assert {1: "a"} == LenientLog(log).queue_names()
    assert log.position() == LenientLog(log).position()
    assert 8 == LenientLog(log).reach(2, 3)
    assert LenientLog(log) == LenientLog(log)


@pytest.mark.parametrize(
    ("first", "kept", "last", "count"), [(3, 3, 9, 0), (3, 7, 9, 4), (3, 20, 9, 7), (10, 20, 9, 0)]
)
def test_only_what_was_asked_for_is_counted(first: int, kept: int, last: int, count: int) -> None:
    """Not what lies behind the range."""
    assert count == passed_over(first, kept, last)
