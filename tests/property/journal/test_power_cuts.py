"""The power fails at every single operation; what was reported stored is still there."""

from __future__ import annotations

import os
import random

import pytest

from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.ballot import Ballot
from holdfast.journal.housekeeper import Housekeeper, put_aside
from holdfast.journal.jobs import BallotJob, Piece, WriteResult
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.writer import JournalWriter
from trials.simulation.local_journal import NODE_ID, LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

SETTINGS = JournalSettings(segment_bytes=8 * KiB)
SEEDS = int(os.environ.get("HOLDFAST_SEEDS", "4"))

pytestmark = pytest.mark.slow


class Workload:
    """Appends in groups, rolls, truncations, votes and drops, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = SimulatedDisk(seed)
        self.log = LocalJournal(self.disk, settings=SETTINGS)
        self.term_kept = 0
        self.floor = 0
        """Truncation never goes below here: what the cluster has committed."""
        self.dropped_before = 0

    def part(self) -> bytes:
        size = self.random.choice([0, 7, 40, 200, 600, 1100, 3000, 9000])
        return self.random.choice([b"", bytes(700)]) + self.random.randbytes(size)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        log = self.log
        kind = self.random.choice(["append"] * 6 + ["truncate", "vote", "drop", "floor", "spare"])
        if kind == "append":
            count = self.random.choice([1, 1, 2, 5])
            jobs = [log.stage(self.part(), self.part()) for _ in range(count)]
            log.perform(*jobs)
        elif kind == "truncate":
            log.truncate(max(self.floor, log.journal.last_index - self.random.randrange(8)))
            log.append(b"new leader", term=log.journal.last_term + 1)
        elif kind == "vote":
            term = self.term_kept + 1
            log.perform(BallotJob(Ballot(node_id=NODE_ID, term=term, voted_for="a")))
            self.term_kept = term
        elif kind == "drop":
            self.floor = max(self.floor, log.journal.stored_index - 10)
            self.dropped_before = max(self.dropped_before, self.floor)
            log.journal.drop_before(self.dropped_before)
        elif kind == "spare":
            while log.journal.housekeeper.turn():
                pass
        else:
            log.writer.save_floor()


def check(work: Workload, context: str) -> None:
    """After recovery the log is a whole prefix with everything that was reported stored."""
    journal = work.log.journal
    assert journal.damage == [], context
    assert journal.tail_state != "unknown", context
    assert journal.first_index <= max(work.dropped_before, 1), context
    for index, entry in work.log.stored.items():
        if index >= journal.first_index:
            assert index <= journal.last_index, f"{context}: entry {index} is lost"
            assert journal.entry(index) == entry, context
    ballot = journal.ballot_file.current
    if work.term_kept:
        assert ballot is not None and ballot.term >= work.term_kept, context
    work.log.append(b"life goes on")
    reopened = work.log.reopen()
    assert reopened.damage == [] and reopened.tail_state == "clean", context


def operations_of(seed: int, steps: int) -> int:
    work = Workload(seed)
    before = work.disk.operations
    work.run(steps)
    return work.disk.operations - before


def crash_at(seed: int, steps: int, operation: int) -> Workload:
    work = Workload(seed)
    work.disk.cut_at = work.disk.operations + operation
    with pytest.raises(PowerCut):
        work.run(steps)
    return work


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.promise("F4", "F5")
def test_nothing_stored_is_lost_whenever_the_power_fails(seed: int) -> None:
    """Whichever operation the power fails in, recovery keeps a prefix with all that was stored."""
    steps = 30
    for operation in range(1, operations_of(seed, steps) + 1):
        work = crash_at(seed, steps, operation)
        work.log.reopen_after_power_cut()
        check(work, f"seed {seed}, operation {operation}")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.promise("F29")
def test_a_second_power_cut_during_recovery_does_no_harm(seed: int) -> None:
    """Recovery itself may be interrupted anywhere and begun again."""
    steps = 15
    total = operations_of(seed, steps)
    for operation in range(1, total + 1, 3):
        for later in range(1, 12):
            work = crash_at(seed, steps, operation)
            work.disk.power_cut()
            work.disk.cut_at = work.disk.operations + later
            try:
                work.log._open()
            except PowerCut:
                work.log.reopen_after_power_cut()
            work.disk.cut_at = 0
            check(work, f"seed {seed}, operation {operation}, then {later}")


def holes_after_cuts(seeds: range) -> list[str]:
    """Cut a log of some files to its first entries, with the power failing in every operation."""
    found = []
    for seed in seeds:
        step, is_cut = 0, True
        while is_cut:
            step += 1
            disk = SimulatedDisk(seed)
            log = LocalJournal(disk, settings=SETTINGS)
            log.journal.housekeeper.is_driven = True  # its turns do not come in between
            while len(log.journal.segments()) < 4:
                log.append(random.Random(log.journal.last_index).randbytes(700))
            disk.cut_at = disk.operations + step
            try:
                log.truncate(2)
                is_cut = False
            except PowerCut:
                pass
            try:
                opened = log.reopen_after_power_cut()
            except StoreError as error:
                found.append(f"seed {seed}, operation {step}: {error}")
                continue
            if opened.damage or opened.tail_state == "unknown" or opened.last_index < 2:
                found.append(f"seed {seed}, operation {step}: {opened.damage}")
    return found


@pytest.mark.promise("F5")
def test_a_cut_through_some_files_leaves_no_hole_whenever_the_power_fails() -> None:
    """What a file holds is made zero once the names of those behind it are durably gone."""
    assert holes_after_cuts(range(30)) == []


def test_a_cut_that_does_not_wait_for_the_names_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: a file that comes back leaves a hole before it."""
    monkeypatch.setattr(Housekeeper, "take_out", lambda it, path: put_aside(it._disk, path))
    assert holes_after_cuts(range(30))


class HastyWriter(JournalWriter):
    """Reports before the sync: what the tests above must be able to catch."""

    def _write(self, run: Piece, complete: list) -> None:
        self._journal.tail.durable_index = run.last_index
        self._notify(WriteResult(run.last_index, list(complete)))
        super()._write(run, complete)


def test_a_writer_that_reports_before_the_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: the same test fails for a writer that tells first and syncs afterwards."""
    monkeypatch.setattr("trials.simulation.local_journal.JournalWriter", HastyWriter)
    losses = 0
    for operation in range(1, operations_of(0, 10) + 1):
        work = crash_at(0, 10, operation)
        try:
            work.log.reopen_after_power_cut()
            check(work, "hasty")
        except (AssertionError, CorruptEntryError):
            losses += 1
    assert losses > 0
