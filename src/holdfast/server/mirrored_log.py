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
from pathlib import Path

import structlog

from holdfast.environment.disk import Disk
from holdfast.errors import BallotLostError, CorruptEntryError, MirrorHistoriesError
from holdfast.journal.ballot import NO_CLAIM, SLOT_BYTES, BallotFile, LogClaim, decode_ballot
from holdfast.journal.entry import HEADER_BYTES, parse_header
from holdfast.journal.found_log import LogScan
from holdfast.journal.segment import Segment
from holdfast.server.mirror_mending import (
    JudgedLog,
    judge,
    mend_checkpoints,
    mend_log,
    restore_files,
)

log = structlog.get_logger("holdfast.server")

Place = tuple[Path, Disk]


def equalize(places: Sequence[Place]) -> int:
    """
    Judge the logs of these directories, and mend them; give which of them has the longest.

    Raises:
        MirrorHistoriesError: One is no beginning of the longest.
        StoreError: None of them can be read.
    """
    claim = _same_ballot(places)
    judged = _judge_all(places, claim)
    source = max(range(len(judged)), key=lambda it: judged[it].worth)
    best = judged[source]
    if best.problem is not None:
        raise best.problem
    others = [it for it in judged if it is not best]
    for other in others:
        if other.problem is None:
            _require_same_history(best, other)
    mend_log(best, others)
    mend_checkpoints(best, others)
    for it in judged:
        if it.problem is not None:
            log.error("a mirror is made anew", mirror=str(it.directory), reason=str(it.problem))
    return source


def _judge_all(places: Sequence[Place], claim: LogClaim) -> list[JudgedLog]:
    """Read all logs; one that may lack files in its midst gets those that others have."""
    judged = [judge(it, claim) for it in places]
    for place, it in enumerate(judged):
        if it.problem is not None or it.scan.damage:
            others = [other for other in judged if other is not it]
            if restore_files(it, others, claim.first_index):
                judged[place] = judge(places[place], claim)
    return judged


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


def _require_same_history(best: JudgedLog, other: JudgedLog) -> None:
    """
    Make sure that one log is a beginning of the other.

    Raises:
        MirrorHistoriesError: It is not; the error names the first entry that differs.
    """
    first = max(_first_index(best.scan), _first_index(other.scan))
    last = min(best.scan.last_index, other.scan.last_index)
    while last > first and None in (_chain(best, last), _chain(other, last)):
        last -= 1  # Rot must not hide that they differ before it.
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


def _differs_at(best: JudgedLog, other: JudgedLog, index: int) -> bool:
    """Whether the chains of two logs differ there; not where one of them cannot be read."""
    chains = {_chain(it, index) for it in (best, other)}
    return len(chains) == 2 and None not in chains


def _chain(judged: JudgedLog, index: int) -> bytes | None:
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
