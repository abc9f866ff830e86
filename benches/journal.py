"""
What the journal adds to the disk: entries made durable per second, at several sizes of batch.

Three columns. The raw disk: pwrite + fdatasync of as many bytes into preallocated space. The
journal: seal an entry, stage it and let the writer do its turn, in one thread. The writer's thread:
the same as a node does it, the entry handed to the thread and its word waited for; the difference
is what two changes of thread cost. One entry at a time, so that nothing is gained by grouping.

Run: .venv/bin/python benches/journal.py [--seconds S] [--directory DIR]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from machine import KIB, disk_rate, print_heading

from holdfast.environment.disk import RealDisk
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.record import RECORD_HEADER
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter

MESSAGES = (1, 10, 100, 500, 2000)
BODY = os.urandom(KIB)
ROUNDS = 3


class Appender:
    """An open journal in a directory, with entries of a fixed number of 1 KiB records."""

    def __init__(self, directory: Path) -> None:
        self.told: SimpleQueue[WriteResult] = SimpleQueue()
        self.journal = Journal.open(directory, RealDisk(), JournalSettings())
        self.writer = JournalWriter(self.journal, self.told.put)
        self.writer.turn([BallotJob(Ballot(node_id=bytes(16)))])
        self.told.get()

    def seal(self, count: int) -> Entry:
        """Seal the entry that comes next, of so many records."""
        journal = self.journal
        return seal_entry(
            index=journal.last_index + 1,
            term=1,
            kind=KIND_RECORDS,
            timestamp=journal.last_timestamp + 1,
            first_record=journal.next_record_number,
            record_count=count,
            parts=[RECORD_HEADER.pack(1, 0, 0, KIB), BODY] * count,
            previous_chain=journal.last_chain,
        )

    def append(self, count: int) -> None:
        """Make one entry durable, all in this thread."""
        self.writer.turn([self.journal.stage([self.seal(count)])])
        self._check(self.told.get())

    def append_by_thread(self, count: int) -> None:
        """Make one entry durable, written by the writer's thread."""
        self.writer.submit(self.journal.stage([self.seal(count)]))
        self._check(self.told.get())

    def close(self) -> None:
        """Stop the threads, close the files."""
        self.writer.close()
        self.journal.close()

    def _check(self, result: WriteResult) -> None:
        assert result.failure is None, result.failure
        assert result.stored_index == self.journal.last_index


def per_second(work: Callable[[], None], seconds: float) -> float:
    """How often a second something can be done."""
    count = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        work()
        count += 1
    return count / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.7, help="for each measurement")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=given.directory) as name:
        directory = Path(name)
        print_heading(
            directory,
            settings=f"1 KiB records, default journal settings, medians of {ROUNDS} rounds"
            f" of {given.seconds:g} s",
        )
        heads = ("records/entry", "disk /s", "journal /s", "of disk", "thread /s", "of disk")
        print("".join(f"{head:>14}" for head in (*heads, "records/s", "MiB/s")))
        for count in MESSAGES:
            print(_line(directory, count, given.seconds))


def _line(directory: Path, count: int, seconds: float) -> str:
    size = count * (KIB + RECORD_HEADER.size) + 72
    disk, inline, threaded = [], [], []
    for turn in range(ROUNDS):
        disk.append(disk_rate(directory, seconds, size))
        appender = Appender(directory / f"{count}-{turn}")
        inline.append(per_second(lambda it=appender: it.append(count), seconds))
        appender.writer.start()
        threaded.append(per_second(lambda it=appender: it.append_by_thread(count), seconds))
        appender.close()
    raw, own, hand = (statistics.median(rates) for rates in (disk, inline, threaded))
    numbers = (f"{raw:.0f}", f"{own:.0f}", f"{own / raw:.2f}", f"{hand:.0f}", f"{hand / raw:.2f}")
    rates = (f"{hand * count:,.0f}", f"{hand * size / KIB**2:.0f}")
    return "".join(f"{word:>14}" for word in (str(count), *numbers, *rates))


if __name__ == "__main__":
    main()
