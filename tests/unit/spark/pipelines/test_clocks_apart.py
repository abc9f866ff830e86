"""
Driver, workers and archivers whose clocks are minutes apart: nothing goes early, no hold is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.spark.archive.cleaning import KEEP_SECONDS, UNNAMED_SECONDS, retire, sweep
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.holds import READ_EXPIRY_SECONDS, RENEWALS_PER_EXPIRY, HeldRead
from holdfast.spark.pipelines.written_ranges import joined, merge_range
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import CLUSTER_ID, orders_log

MINUTE: Final = 60.0
APART_SECONDS: Final = 7 * MINUTE
"""So far any two of them may be apart."""
BEGIN: Final = 1_800_000_000.0
PLANNED: Final = 1_000_000.0


@pytest.mark.parametrize("apart", [-APART_SECONDS, -3 * MINUTE, 0.0, 3 * MINUTE, APART_SECONDS])
def test_a_task_renews_the_hold_of_its_read_before_it_expires(apart: float) -> None:
    """However young it takes the plan for: what it is to read would be cleaned away else."""
    held = HeldRead("read-1", PLANNED)
    period = READ_EXPIRY_SECONDS / RENEWALS_PER_EXPIRY
    for waited in range(0, READ_EXPIRY_SECONDS, 5):
        pause = 0.0 if held.is_due(PLANNED + waited + apart) else period
        assert waited + pause < READ_EXPIRY_SECONDS


class Machines:
    """Archivers on two machines, each with a clock of its own, and a store with a third."""

    def __init__(self, folder: Path, apart: tuple[float, float, float]) -> None:
        self.now = BEGIN
        self.clocks = apart[:2]
        self._of_store = apart[2]
        self.root = folder / "archive"
        self.log = orders_log(folder / "log", *(b"%d" % number for number in range(11)))
        self.archive = archived_log(self.log, self.root, per_range=2)
        self._stamped: set[Path] = set()
        self.stamp()

    def stamp(self) -> None:
        """What was written since then was written now, as the store sees it."""
        for path in self.root.rglob("*"):
            if path.is_file() and path not in self._stamped:
                moment = self.now + self._of_store
                os.utime(path, (moment, moment))
                self._stamped.add(path)

    def microseconds(self, machine: int) -> int:
        return int((self.now + self.clocks[machine]) * 1_000_000)

    def merge(self, machine: int, count: int) -> list[Manifest]:
        """Merge the first ranges, as one of them does; gives what was replaced."""
        ranges = list(self.archive.catalogue().ranges[:count])
        merged = merge_range(ranges, archive=self.archive, compression="snappy")
        self.archive.publish(joined([merged], CLUSTER_ID.hex()))
        self.stamp()
        retire(self.archive, now_microseconds=self.microseconds(machine))
        return ranges

    def sweep(self, machine: int) -> int:
        found = sweep(self.archive, now_microseconds=self.microseconds(machine))
        self.stamp()
        return found


def clocks() -> Iterator[tuple[float, float, float]]:
    """Each of the three early or late, and some between."""
    edge = APART_SECONDS / 2
    yield from product((-edge, edge), repeat=3)
    draw = Random(4)
    for _ in range(4):
        yield (draw.uniform(-edge, edge), draw.uniform(-edge, edge), draw.uniform(-edge, edge))


def indexes(source: ArchivedSource) -> list[int]:
    blocks = source.blocks(1, source.position().last_index)
    return [int(n) for block in blocks if isinstance(block, EntryBlock) for n in block.indexes]


@pytest.mark.parametrize("apart", list(clocks()))
def test_nothing_goes_early(apart: tuple[float, float, float], tmp_path: Path) -> None:
    """
    Readers have their day, and what is being written has its own; a week later all of it is gone.
    """
    machines = Machines(tmp_path, apart)
    all_entries = indexes(ArchivedSource.open(str(machines.root)))
    for turn in range(2):
        reader = ArchivedSource.open(str(machines.root))
        replaced = [file for it in machines.merge(turn % 2, 3) for file in it.files]
        written = merge_range(
            list(machines.archive.catalogue().ranges[:2]),
            archive=machines.archive,
            compression="snappy",
        )
        machines.stamp()
        began = machines.now
        for passed in (0.0, MINUTE, KEEP_SECONDS - APART_SECONDS - MINUTE):
            machines.now = began + passed
            for machine in (0, 1):
                assert 0 == machines.sweep(machine)
            assert indexes(reader) == all_entries
            assert all(machines.archive.has(file) for file in written.files)
        machines.now = began + max(KEEP_SECONDS, UNNAMED_SECONDS) + APART_SECONDS + MINUTE
        assert len(replaced) + len(written.files) == machines.sweep(0) + machines.sweep(1)
        assert indexes(ArchivedSource.open(str(machines.root))) == all_entries
    machines.now += 8 * KEEP_SECONDS
    machines.sweep(0)
    assert not list((machines.root / "_set_aside").rglob("*.parquet"))
    assert indexes(ArchivedSource.open(str(machines.root))) == all_entries
    assert Archive.open(str(machines.root)).catalogue().breaks == ()
    assert machines.log.position().last_index == all_entries[-1]
