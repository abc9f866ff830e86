"""
A log written directly to a store, without a broker: what its readers are tried with.

The entries are those of a log on disk, sealed in the first epoch; behind an anchor they are stored
as a copy is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.copying.places import parse_place
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, LeasedLog, Outcome, Place
from holdfast.leases.copies import CopyPlan
from holdfast.model.records import QueueRecord, Record
from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.settings import RaidbSettings
from trials.pipeline.written_log import WrittenLog

SECONDS: Final = 30.0
_AT_ONCE: Final = 64
IDENTITY: Final = "c0ffee00" * 4


def written(directory: Path, *records: Record) -> list[Entry]:
    """Give the entries of a log with a queue and these records, one each."""
    with WrittenLog(directory) as log:
        return [log.put(QueueRecord(1, "orders")), *(log.put(it) for it in records)]


def fill(words: Sequence[str], entries: Sequence[Entry], *, is_given_back: bool = True) -> None:
    """Let a broker have stored these entries at an address, or in several databases."""
    log: LeasedLog
    if len(words) > 1:
        log = open_raidb_log(words, RaidbSettings(), own_directory=Path("/own"))
    else:
        medium = parse_place(words[0]).open_medium
        assert medium is not None, "a store is no directory of a node"
        log = medium()
    log.open()
    _append(log, entries)
    if is_given_back:
        log.release(SECONDS)
    log.close()


def fill_behind(word: str, anchor: Entry, entries: Sequence[Entry]) -> None:
    """Let there be a log whose beginning was dropped, as it is copied."""
    medium = parse_place(word).open_medium
    assert medium is not None, "a store is no directory of a node"
    log = medium()
    end = Place(entries[-1].index, entries[-1].chain)
    log.begin_copy(CopyPlan(identity=IDENTITY, anchor=anchor, end=end, epoch=9))
    _append(log, entries)
    assert log.finish_copy(SECONDS) is Outcome.STORED
    log.close()


def _append(log: LeasedLog, entries: Sequence[Entry]) -> None:
    who = Claimant(holder="e" * 32, name="writer", admin="", stomp="")
    assert log.take(log.observe(SECONDS), who, SECONDS) is not None, "nobody else is there"
    for start in range(0, len(entries), _AT_ONCE):
        assert log.append(list(entries[start : start + _AT_ONCE]), SECONDS) is Outcome.STORED
