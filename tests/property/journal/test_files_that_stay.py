"""
Files that cannot be removed or renamed, and the power failing, at every step of each change.

Each change takes files of the log away: cleaning, a cut, a reset, taking the older log back, giving
it up. It is made on a log beside which a file stands that should be gone. Whatever happens, the
next start finds one log without a gap, with everything in it that was reported stored since.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import JournalFailedError, StoreError
from holdfast.journal.filling import Target
from holdfast.journal.kept_log import give_up_older, take_back
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

NODE = Path("/node")
LOG = NODE / "journal"
COUNT = 10
REFUSALS = ("unlink", "rename", "both")


class Node:
    """A log, and what must be in it."""

    def __init__(self, disk: SimulatedDisk, refusal: str) -> None:
        self.disk = disk
        self.refusal = refusal
        self.log = LocalJournal(disk)
        self.is_old_allowed = False
        """A change is under way after which the old log may be there, in whole."""
        self.old: dict[int, bytes] = {}

    def fill(self, count: int) -> None:
        """Append some entries, two in a file."""
        for number in range(count):
            self.log.append(bytes([97 + number]) * 5500)

    def protect(self, paths: list[Path]) -> None:
        """Let these files stay, and stay where they are, as the refusal has it."""
        if self.refusal in {"unlink", "both"}:
            self.disk.refuse_unlink.update(paths)
        if self.refusal in {"rename", "both"}:
            self.disk.refuse_rename.update(paths)

    def forget(self) -> None:
        """The log is begun anew: what it had is nobody's claim from here on."""
        self.may_be_old()
        self.log.stored.clear()

    def may_be_old(self) -> None:
        """Whatever is cut short from here on, the log may be what it was."""
        self.old = {index: entry.raw for index, entry in self.log.stored.items()}
        self.is_old_allowed = True

    def go_on(self) -> None:
        """Try again what found no room."""
        log = self.log
        while log.writer.is_waiting:
            log.writer._retry_at = 0.0
            log.perform()
        if log.writer.failure is not None:
            raise log.writer.failure

    def check(self) -> None:
        """One log without a gap, and everything that was reported stored."""
        journal = self.log.journal
        assert not journal.damage
        known = {index: entry.raw for index, entry in self.log.stored.items()}
        assert journal.last_index >= max(known, default=0)
        # What was written and not reported may be there, and the old log in whole.
        known = {index: entry.raw for index, entry in self.log._staged.items()} | known
        if self.is_old_allowed:
            known = self.old | known
        for index in range(journal.first_index, journal.last_index + 1):
            assert known[index] == journal.entry(index).raw


def clean(node: Node) -> None:
    journal = node.log.journal
    journal.drop_before(journal.segments()[2].base_index)


def cut(node: Node) -> None:
    node.may_be_old()
    node.log.truncate(node.log.journal.segments()[1].base_index)
    node.go_on()
    node.fill(3)


def begin(node: Node, base: int, *, is_kept: bool) -> None:
    node.forget()
    target = Target(index=base + 50, record=9_000, timestamp=1) if is_kept else None
    node.log.perform(node.log.journal.stage_reset(base, 1, b"c" * 16, base * 2, target))
    node.go_on()


def reset(node: Node) -> None:
    begin(node, 100, is_kept=True)
    node.fill(3)


def reset_without_keeping(node: Node) -> None:
    begin(node, 100, is_kept=False)
    node.fill(3)


def reset_twice(node: Node) -> None:
    begin(node, 100, is_kept=True)
    node.fill(3)
    begin(node, 200, is_kept=True)
    node.fill(3)


def reset_and_back_to_the_beginning(node: Node) -> None:
    """Another leader may keep more: the new log gives the names of files that should be gone."""
    begin(node, 100, is_kept=False)
    begin(node, 1, is_kept=False)
    node.fill(9)


def take_the_old_back(node: Node) -> None:
    reset(node)
    node.log.close()
    node.old |= {index: entry.raw for index, entry in node.log.stored.items()}
    node.log.stored.clear()
    take_back(NODE, node.disk)
    node.log._open()
    assert COUNT == node.log.journal.last_index
    node.fill(2)


def give_the_old_up(node: Node) -> None:
    reset(node)
    node.log.close()
    give_up_older(NODE, node.disk)
    node.log._open()
    node.fill(2)


Change = Callable[[Node], None]
CHANGES: list[Change] = [
    clean,
    cut,
    reset,
    reset_without_keeping,
    reset_twice,
    reset_and_back_to_the_beginning,
    take_the_old_back,
    give_the_old_up,
]


def begun(seed: int, refusal: str) -> Node:
    """A log that was cleaned, beside a file that should be gone and stays."""
    node = Node(SimulatedDisk(seed), refusal)
    node.disk.limit(1 << 30)  # Nothing is taken for granted on a disk that could be full.
    node.fill(COUNT)
    paths = [it.path for it in node.log.journal.segments()]
    node.protect(paths[:1])
    node.log.journal.drop_before(node.log.journal.segments()[1].base_index)
    node.log.writer.save_floor()
    assert node.log.journal.first_index > 1
    return node


def restart(node: Node) -> None:
    """Start on what is there, again and again if need be: an operator would."""
    node.disk.locks.clear()
    for _ in range(3):
        try:
            node.log._open()
        except JournalFailedError:
            continue
        return
    node.log._open()


def live_on(node: Node) -> None:
    """Nothing that the change left is in the way of what comes after it."""
    node.check()
    if node.log.journal.last_index or node.refusal != "both":
        node.fill(2)  # An empty log begins where a leader says: not at a file that is in the way.
    node.log.writer.save_floor()
    node.log.reopen_after_power_cut()
    node.check()
    begin(node, 300, is_kept=True)
    node.fill(3)
    node.log.reopen_after_power_cut()
    node.is_old_allowed = False
    node.check()
    assert (300, 302) == (node.log.journal.first_index, node.log.journal.last_index)
    node.disk.refuse_unlink.clear()
    node.disk.refuse_rename.clear()
    node.log.reopen()
    node.log.journal.forget_filling()
    segments = [it.path for it in node.log.journal.segments()]
    assert segments == [it for it in node.disk.durable_paths() if it.parent == LOG]


def allowed(change: Change) -> Iterator[str]:
    """What may be refused where the change can be made at all."""
    for refusal in REFUSALS:
        if change is not reset_and_back_to_the_beginning or refusal != "both":
            yield refusal


CASES = [(change, refusal) for change in CHANGES for refusal in allowed(change)]


@pytest.mark.promise("F2", "F17", "F37")
@pytest.mark.parametrize(("change", "refusal"), CASES)
def test_a_file_that_stays_is_in_nobodys_way(change: Change, refusal: str) -> None:
    """The node ends at none of it, and once the file may go, nothing of it is left."""
    node = begun(0, refusal)
    change(node)
    assert node.log.writer.failure is None
    live_on(node)


@pytest.mark.promise("F2", "F37")
@pytest.mark.parametrize(("change", "refusal"), CASES)
def test_the_power_may_fail_at_every_step(change: Change, refusal: str) -> None:
    """
    Whichever names were durable by then, the next start finds one log.

    At every step where files cannot be removed, at every other one where they cannot be renamed.
    """
    step = 0
    is_cut = True
    while is_cut:
        step += 1 if refusal == "unlink" else 2
        node = begun(step, refusal)
        node.disk.cut_at = node.disk.operations + step
        try:
            change(node)
            is_cut, node.disk.cut_at = False, 0
        except PowerCut:
            node.disk.power_cut()
            restart(node)
        live_on(node)
    assert step > 3


class Killed(BaseException):
    """The process is gone; the disk goes on."""


@pytest.mark.promise("F2", "F37")
@pytest.mark.parametrize("change", CHANGES)
def test_the_process_may_be_killed_at_every_step(change: Change) -> None:
    """What it had not synced yet, a later power cut may undo."""
    step = 0
    is_killed = True
    while is_killed:
        step += 1
        node = begun(step, "unlink")
        kill_at(node.disk, step)
        try:
            change(node)
            is_killed = False
        except Killed:
            restart(node)
        node.disk.before_step = lambda: None
        live_on(node)
    assert step > 3


def kill_at(disk: SimulatedDisk, step: int) -> None:
    """Let the process end at one step, once."""
    left = iter(range(step))

    def count() -> None:
        if next(left, None) is None:
            disk.before_step = lambda: None
            raise Killed

    disk.before_step = count


KINDS = {
    errno.ENOSPC: ("write", "create", "rename", "unlink", "truncate"),
    errno.EMFILE: ("open", "sync_directory"),
    errno.EIO: ("write", "sync", "sync_directory"),
    errno.EPERM: ("rename", "unlink"),
}


class FailOnce:
    """Lets one step of a disk fail, or what comes right after it."""

    def __init__(self, disk: SimulatedDisk, step: int, number: int) -> None:
        self.disk = disk
        self.step = step
        self.number = number
        self.count = 0
        disk.before_step = self.before

    def before(self) -> None:
        """Count."""
        self.count += 1
        kinds = KINDS[self.number] if self.count == self.step else ()
        self.disk.fail_next = dict.fromkeys(kinds, self.number)

    def stop(self) -> bool:
        """Fail no more; tell whether the step came."""
        self.disk.before_step = lambda: None
        self.disk.fail_next = {}
        return self.count >= self.step


@pytest.mark.promise("F17", "F37")
@pytest.mark.parametrize("number", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_step_may_fail_once(change: Change, number: int) -> None:
    """Want of room is waited out; after anything else the next start finds one log."""
    step = 0
    is_failed = True
    while is_failed:
        step += 1
        node = begun(step, "unlink")
        failing = FailOnce(node.disk, step, number)
        try:
            change(node)
            node.go_on()
        except (OSError, JournalFailedError, StoreError):
            is_failed = failing.stop()
            assert is_failed
            if number == errno.EIO:
                node.disk.power_cut()
            restart(node)
        else:
            is_failed = failing.stop()
        live_on(node)
    assert step > 3


def test_what_waits_to_be_removed_takes_nothing_of_the_next_log_along() -> None:
    """The housekeeper is behind, and the next log gives names again of what it has to remove."""
    node = begun(0, "unlink")
    housekeeper = node.log.journal.housekeeper
    housekeeper.is_driven = True
    clean(node)
    begin(node, 1, is_kept=False)
    node.fill(9)
    while housekeeper.turn():
        pass
    node.check()
    node.log.reopen_after_power_cut()
    node.check()
    assert (1, 9) == (node.log.journal.first_index, node.log.journal.last_index)


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_log_that_an_earlier_version_was_about_to_begin_anew_is_the_log(is_noted: bool) -> None:
    """It noted the new beginning first, and nothing as durable: a crash then left all the files."""
    node = begun(0, "unlink")
    log = node.log
    ballot_file = log.journal.ballot_file
    ballot = ballot_file.current
    assert ballot is not None
    first = log.journal.first_index if is_noted else 100
    ballot_file._save_twice(replace(ballot, durable_floor=0, floor_chain=b"", first_index=first))
    log.reopen_after_power_cut()
    node.check()
    assert COUNT == log.journal.last_index
    live_on(node)
