"""
A log is begun anew a second time, while what was kept beside the first still is there.

Its removal is refused, or the housekeeper has not come to it yet. Wherever the power fails or the
process is killed, the next start finds the log as it was, or can take all of it back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.journal.filling import Target
from holdfast.journal.kept_log import KEPT_DIRECTORY, take_back
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

NODE = Path("/node")
FIRST = 100
ENTRIES = 5
HELPS = ("at once", "between the steps", "never")


class Killed(BaseException):
    """The process is gone; the disk goes on."""


def begin(log: LocalJournal, base: int, length: int) -> None:
    target = Target(index=base + length - 1, record=9_000, timestamp=1)
    chain = bytes([base % 256]) * 16
    job = log.journal.stage_reset(base, 1, chain, base * 2, target, is_of_voter=True)
    log.stored.clear()
    log.perform(job)
    assert job.is_done


def fill(log: LocalJournal, count: int) -> None:
    for number in range(count):
        log.append(bytes([97 + number]) * 5500)


def full_log(seed: int, *, is_refused: bool, help_comes: str) -> tuple[LocalJournal, SimulatedDisk]:
    """A log that was begun anew and is full; of what was kept beside it all is there still."""
    disk = SimulatedDisk(seed)
    log = LocalJournal(disk)
    log.journal.housekeeper.is_driven = help_comes != "at once"
    fill(log, ENTRIES)
    begin(log, FIRST, ENTRIES)
    fill(log, ENTRIES)
    if is_refused:
        kept = [it for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY]
        disk.refuse_unlink.update(it for it in kept if it.suffix == ".segment")
    return log, disk


def content(log: LocalJournal) -> dict[int, bytes]:
    journal = log.journal
    assert not journal.damage
    indexes = range(journal.first_index, journal.last_index + 1)
    return {index: journal.entry(index).raw for index in indexes}


def help_between_steps(log: LocalJournal) -> None:
    """Take a turn of the housekeeper, as its thread may, where it would wait for nobody."""
    journal = log.journal
    housekeeper = journal.housekeeper
    locks = (housekeeper.directory_lock, housekeeper.log_lock)
    if not (any(it.locked() for it in locks) or journal.ballot_file.is_busy):
        housekeeper.turn()


def arrange(log: LocalJournal, disk: SimulatedDisk, help_comes: str, kill_at: int) -> None:
    """Let the housekeeper help, and kill the process at one step, if that is not 0."""
    steps = iter(range(1, kill_at + 1))
    is_at_work = False

    def step() -> None:
        nonlocal is_at_work
        if kill_at and next(steps, kill_at) == kill_at:
            disk.before_step = lambda: None
            raise Killed
        if help_comes == "between the steps" and not is_at_work:
            is_at_work = True
            help_between_steps(log)
            is_at_work = False

    disk.before_step = step


def check(log: LocalJournal, disk: SimulatedDisk, base: int, before: dict[int, bytes]) -> None:
    """The log of before is there or can be had back; and all ends well once files may go."""
    if content(log) != before:
        assert not content(log)
        assert log.journal.filling is not None
        disk.refuse_unlink.clear()
        log.close()
        take_back(NODE, disk)
        log._open()
        assert before == content(log)
    begin(log, base + 1000, 2)
    fill(log, 2)
    disk.refuse_unlink.clear()
    log.reopen_after_power_cut()
    log.journal.forget_filling()
    log.reopen_after_power_cut()
    assert (base + 1000, base + 1001) == (log.journal.first_index, log.journal.last_index)
    assert not [it for it in disk.durable_paths() if it.name.endswith((".filling", ".taking-back"))]


def broken_off(
    base: int, *, is_refused: bool, help_comes: str, end: Callable[[SimulatedDisk, int], int]
) -> None:
    step = 0
    is_broken_off = True
    while is_broken_off:
        step += 1
        log, disk = full_log(step, is_refused=is_refused, help_comes=help_comes)
        before = content(log)
        arrange(log, disk, help_comes, end(disk, step))
        try:
            begin(log, base, ENTRIES)
            is_broken_off, disk.cut_at = False, 0
        except PowerCut:
            disk.before_step = lambda: None
            disk.power_cut()
        except Killed:
            disk.kill_process()
        disk.before_step = lambda: None
        if is_broken_off:
            log._open()
        else:
            log.reopen_after_power_cut()
        check(log, disk, base, before)
    assert step > 5


@pytest.mark.promise("F2", "F28", "F37")
@pytest.mark.parametrize("help_comes", HELPS)
@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("base", [2 * FIRST, FIRST, FIRST // 2])
def test_the_power_may_fail_at_every_step(base: int, is_refused: bool, help_comes: str) -> None:
    """Another leader's log may begin where this one does, or before."""

    def cut(disk: SimulatedDisk, step: int) -> int:
        disk.cut_at = disk.operations + step
        return 0

    broken_off(base, is_refused=is_refused, help_comes=help_comes, end=cut)


@pytest.mark.promise("F2", "F28")
@pytest.mark.parametrize("help_comes", HELPS)
@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("base", [2 * FIRST, FIRST, FIRST // 2])
def test_the_process_may_be_killed_at_every_step(
    base: int, is_refused: bool, help_comes: str
) -> None:
    """What it had not synced, the cache still has."""
    broken_off(base, is_refused=is_refused, help_comes=help_comes, end=lambda _disk, step: step)
