"""
What it costs per append to see that the directory is still the one that was opened.

A node's own directory is looked at after each durable write (`environment.standing_disk`), a shared
one before and after each append (`shared.directory_log`). Each is measured with that look and
without it, in turns of one run, by entries of 1 and of 100 records of 1 KiB: the median time of an
append, and the time of the processor for one. Synced; on tmpfs a sync costs nothing, so there all
of the difference is the look.

Run: .venv/bin/python benches/standing.py [--seconds S] [--directory DIR]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from machine import KIB, print_heading

from holdfast.environment.disk import Disk, RealDisk
from holdfast.environment.standing_disk import StandingDisk
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.record import RECORD_HEADER
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.leases.contract import Claimant, Outcome
from holdfast.shared.held_epoch import HeldEpoch
from holdfast.shared.shared_log import SharedLog

RECORDS = (1, 100)
BODY = os.urandom(KIB)
TURNS = 4
SECONDS_MAX = 60.0


def sealed(index: int, first_record: int, chain: bytes, count: int) -> Entry:
    """Seal the entry that follows, of so many records."""
    return seal_entry(
        index=index,
        term=1,
        kind=KIND_RECORDS,
        timestamp=index,
        first_record=first_record,
        record_count=count,
        parts=[RECORD_HEADER.pack(1, 0, 0, KIB), BODY] * count,
        previous_chain=chain,
    )


class OwnDirectory:
    """A journal in a directory of its own."""

    def __init__(self, directory: Path, *, is_looked_at: bool) -> None:
        disk: Disk = StandingDisk(RealDisk(), waits=True) if is_looked_at else RealDisk()
        self._told: SimpleQueue[WriteResult] = SimpleQueue()
        self._journal = Journal.open(directory, disk, JournalSettings())
        self._writer = JournalWriter(self._journal, self._told.put)
        self._writer.turn([BallotJob(Ballot(node_id=bytes(16)))])
        self._told.get()

    def append(self, count: int) -> None:
        """Make one entry durable."""
        journal = self._journal
        entry = sealed(
            journal.last_index + 1, journal.next_record_number, journal.last_chain, count
        )
        self._writer.turn([journal.stage([entry])])
        assert self._told.get().failure is None

    def close(self) -> None:
        """Close its files."""
        self._writer.close()
        self._journal.close()


class SharedDirectory:
    """A log that is shared in a directory."""

    def __init__(self, directory: Path, *, is_looked_at: bool) -> None:
        self._look = HeldEpoch.require_standing
        self._is_looked_at = is_looked_at
        directory.mkdir()
        self._log = SharedLog(directory)
        who = Claimant(holder="a" * 32, name="a", admin="", stomp="", lease_seconds=10)
        taken = self._log.take(self._log.open(), who, SECONDS_MAX)
        assert taken is not None
        self._end, self._record = taken.end, 1

    def append(self, count: int) -> None:
        """Store one entry, and judge whether it counts."""
        if not self._is_looked_at:
            HeldEpoch.require_standing = lambda _self: None  # type: ignore[method-assign]
        try:
            entry = sealed(self._end.index + 1, self._record, self._end.chain, count)
            # Without the thread that bounds it: how long a change of threads takes is chance.
            outcome = self._log._way.make(partial(self._log._log.append, [entry]))
            assert outcome is Outcome.STORED
        finally:
            HeldEpoch.require_standing = self._look  # type: ignore[method-assign]
        self._end = type(self._end)(entry.index, entry.chain)
        self._record += count

    def close(self) -> None:
        """Let the lease go."""
        self._log.release(SECONDS_MAX)
        self._log.close()


Made = Callable[..., OwnDirectory | SharedDirectory]


def measure(directory: Path, made: Made, count: int, seconds: float) -> list[tuple[float, float]]:
    """Microseconds of an append, and of the processor for it: without the look, and with it."""
    forms = [made(directory / f"{it}", is_looked_at=it) for it in (False, True)]
    times: list[list[float]] = [[], []]
    worked = [0.0, 0.0]
    for _ in range(TURNS):
        for place, form in enumerate(forms):
            until = time.perf_counter() + seconds
            cpu = time.process_time()
            while (begin := time.perf_counter()) < until:
                form.append(count)
                times[place].append(time.perf_counter() - begin)
            worked[place] += time.process_time() - cpu
    for form in forms:
        form.close()
    return [
        (statistics.median(each) * 1e6, total / len(each) * 1e6)
        for each, total in zip(times, worked, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each turn of each form")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=given.directory) as name:
        print_heading(
            Path(name), settings=f"1 KiB records, {TURNS} turns of {given.seconds:g} s of each form"
        )
        heads = ("directory", "records", "without us", "with us", "cpu us", "with us", "look us")
        print("".join(f"{head:>12}" for head in heads))
        for made in (OwnDirectory, SharedDirectory):
            for count in RECORDS:
                place = Path(name) / f"{made.__name__}-{count}"
                place.mkdir()
                (plain, cpu), (looked, cpu_looked) = measure(place, made, count, given.seconds)
                numbers = (plain, looked, cpu, cpu_looked, cpu_looked - cpu)
                row = (made.__name__[:6], count, *(f"{it:.1f}" for it in numbers))
                print("".join(f"{word:>12}" for word in row))


if __name__ == "__main__":
    main()
