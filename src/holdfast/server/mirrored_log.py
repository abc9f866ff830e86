"""
Make the logs of several mirrors alike at start: the newest ballot, the longest log, no damage.

Mirrors know files, the journal knows entries; here both meet. What one mirror has damaged another
one may have whole, and only what is bad on all of them stays so.

Invariants:
    The longest log is gone by; each other one must be a beginning of it, or nothing is changed.
    What is damaged there is written again by another mirror's copy, entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from holdfast.environment.disk import Disk
from holdfast.errors import BallotLostError, CorruptEntryError, MirrorHistoriesError, StoreError
from holdfast.journal.ballot import NO_CLAIM, SLOT_BYTES, BallotFile, LogClaim, decode_ballot
from holdfast.journal.entry import HEADER_BYTES, parse_header
from holdfast.journal.found_log import LogScan
from holdfast.journal.reading import is_entry
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import Segment

log = structlog.get_logger("holdfast.server")

Place = tuple[Path, Disk]


@dataclass(slots=True)
class _Judged:
    """One mirror's log."""

    directory: Path
    disk: Disk
    scan: LogScan
    problem: StoreError | None = None

    @property
    def worth(self) -> tuple[int, int]:
        """The longest, and of those the one with the least damage."""
        return (-1, 0) if self.problem else (self.scan.last_index, -len(self.scan.damage))


def equalize(places: Sequence[Place]) -> int:
    """
    Judge the logs of these directories, and mend them; give which of them has the longest.

    Raises:
        MirrorHistoriesError: One is no beginning of the longest.
        StoreError: None of them can be read.
    """
    claim = _same_ballot(places)
    judged = [_judge(place, claim) for place in places]
    source = max(range(len(judged)), key=lambda it: judged[it].worth)
    best = judged[source]
    if best.problem is not None:
        raise best.problem
    for other in judged:
        if other is not best and other.problem is None:
            _require_same_history(best, other)
    for damage in best.scan.damage:
        _mend(best, [it for it in judged if it is not best], damage.index)
    for it in judged:
        if it.problem is not None:
            log.error("a mirror is made anew", mirror=str(it.directory), reason=str(it.problem))
    return source


def _same_ballot(places: Sequence[Place]) -> LogClaim:
    """Give every directory the newest ballot of all, and say what it claims of the log."""
    newest: tuple[int, bytes] | None = None
    for directory, disk in places:
        for slot in _slots(directory / "ballot", disk):
            ballot = decode_ballot(slot)
            if ballot is not None and (newest is None or ballot.sequence > newest[0]):
                newest = ballot.sequence, slot
    if newest is None:
        return NO_CLAIM
    for directory, disk in places:
        path = directory / "ballot"
        if _slots(path, disk) != [newest[1]] * 2:
            is_new = not disk.exists(path)
            file = disk.open(path, create=True)
            try:
                # That of the other slot first: one good slot is there at any time.
                for place in (1, 0):
                    file.write(newest[1], place * SLOT_BYTES)
                    file.sync()
            finally:
                file.close()
            if is_new:
                disk.sync_directory(directory)
    directory, disk = places[0]
    ballot_file = BallotFile(directory / "ballot", disk)
    try:
        ballot = ballot_file.load()
    except BallotLostError:
        return NO_CLAIM
    finally:
        ballot_file.close()
    return NO_CLAIM if ballot is None else ballot.claim


def _slots(path: Path, disk: Disk) -> list[bytes]:
    try:
        file = disk.open(path, writable=False)
    except OSError:
        return []
    try:
        return [file.read(SLOT_BYTES, place * SLOT_BYTES) for place in (0, 1)]
    except OSError:
        return []
    finally:
        file.close()


def _judge(place: Place, claim: LogClaim) -> _Judged:
    directory, disk = place
    try:
        return _Judged(directory, disk, scan_log(directory / "journal", disk, claim=claim))
    except StoreError as error:
        return _Judged(directory, disk, LogScan(), error)
    except OSError as error:
        return _Judged(directory, disk, LogScan(), StoreError(f"{directory}: {error}"))


def _require_same_history(best: _Judged, other: _Judged) -> None:
    """
    Make sure that one log is a beginning of the other.

    Raises:
        MirrorHistoriesError: It is not; the error names the first entry that differs.
    """
    first = max(_first_index(best.scan), _first_index(other.scan))
    last = min(best.scan.last_index, other.scan.last_index)
    if not _differs_at(best, other, last):
        return
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if _differs_at(best, other, middle):
            high = middle
        else:
            low = middle + 1
    raise MirrorHistoriesError(
        str(best.directory), str(other.directory), f"their logs differ from entry {low:,} on"
    )


def _first_index(scan: LogScan) -> int:
    return scan.segments[0].base_index if scan.segments else 1


def _differs_at(best: _Judged, other: _Judged, index: int) -> bool:
    """Whether the chains of two logs differ there; not where one of them cannot be read."""
    chains = {_chain(it, index) for it in (best, other)}
    return len(chains) == 2 and None not in chains


def _chain(judged: _Judged, index: int) -> bytes | None:
    segment = _segment_of(judged.scan, index)
    if segment is None:
        return None
    start, _ = segment.place(index)
    try:
        file = judged.disk.open(segment.path, writable=False)
        try:
            fields = parse_header(file.read(HEADER_BYTES, start))
        finally:
            file.close()
    except (OSError, CorruptEntryError):
        return None
    return fields.chain if fields.entry_index == index else None


def _segment_of(scan: LogScan, index: int) -> Segment | None:
    for segment in reversed(scan.segments):
        if segment.base_index <= index:
            return segment if index <= segment.last_index else None
    return None


def _mend(best: _Judged, others: list[_Judged], index: int) -> None:
    """Write an entry again that another mirror has whole."""
    segment = _segment_of(best.scan, index) if index else None
    if segment is None:
        return
    start, size = segment.place(index)
    for other in others:
        there = _segment_of(other.scan, index)
        if there is None or there.place(index) != (start, size):
            continue
        raw = _read(other, there.path, start, size)
        if raw is None or not is_entry(index)(raw):
            continue
        file = best.disk.open(segment.path)
        try:
            file.write(raw, start)
            file.sync()
        finally:
            file.close()
        log.error(
            "an entry is mended by another mirror's copy", entry=index, segment=there.path.name
        )
        return


def _read(judged: _Judged, path: Path, start: int, size: int) -> bytes | None:
    try:
        file = judged.disk.open(path, writable=False)
        try:
            return file.read(size, start)
        finally:
            file.close()
    except OSError:
        return None
