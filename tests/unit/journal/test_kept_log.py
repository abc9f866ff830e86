"""The files of a log that is being replaced: at every step one of the two is whole."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.journal.filling import Filling, Target
from holdfast.journal.jobs import WriteJob
from holdfast.journal.kept_log import (
    KEPT_DIRECTORY,
    give_up_older,
    load_filling,
    require_kept,
    take_back,
)
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

NODE = Path("/node")
TARGET = Target(index=103, record=1_003, timestamp=7_000_000)


def old_log(disk: SimulatedDisk) -> LocalJournal:
    """Three segments."""
    log = LocalJournal(disk)
    for number in range(5):
        log.append(bytes([65 + number]) * 5500)
    return log


def begin_anew(log: LocalJournal, base: int = 100, target: Target = TARGET) -> WriteJob:
    return log.journal.stage_reset(base, 1, b"c" * 16, 1_000, target)


def is_old(log: LocalJournal) -> bool:
    """Whether this is the old log, to its last entry."""
    journal = log.journal
    return journal.last_index == 5 and bytes(journal.entry(5).body)[-1:] == b"E"


def kept_names(disk: SimulatedDisk) -> list[str]:
    return [it.name for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY]


def fill(log: LocalJournal, count: int) -> None:
    for _ in range(count):
        log.append(b"new" * 1000)


def test_the_old_log_is_kept_until_the_new_one_is_full() -> None:
    """Then it is given up, and nothing of it stays."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 3)

    assert 4 == len(kept_names(disk))
    log.reopen_after_power_cut()
    filling = log.journal.filling
    assert filling is not None
    assert filling.kept is not None
    assert (5, TARGET, False) == (filling.kept.index, filling.target, filling.is_reached(102))
    fill(log, 1)
    assert filling.is_reached(log.journal.stored_index)
    log.journal.forget_filling()

    assert ([], None) == (kept_names(disk), log.journal.filling)
    assert log.reopen().filling is None
    assert (100, 103) == (log.journal.first_index, log.journal.last_index)


@pytest.mark.promise("F2", "F37")
@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_fail_at_any_step_of_the_change(seed: int) -> None:
    """
    After it the node has the old log, or the new one with the old one kept beside it.
    """
    step = 0
    while True:
        step += 1
        disk = SimulatedDisk(seed)
        log = old_log(disk)
        job = begin_anew(log)
        disk.cut_at = disk.operations + step
        try:
            log.perform(job)
            fill(log, 2)
        except PowerCut:
            log.reopen_after_power_cut()
        else:
            break
        if log.journal.filling is None:
            assert is_old(log), step
            # Else nobody would notice that files of its beginning are lost.
            ballot = log.journal.ballot_file.current
            assert ballot is not None
            assert 1 == ballot.first_index, step
            log.append(b"goes on")
            continue
        assert log.journal.last_index in {0, 99, 100, 101}, step
        assert log.journal.filling == require_kept(NODE, disk)
    assert step > 10


@pytest.mark.promise("F37")
@pytest.mark.parametrize("seed", range(3))
def test_the_old_log_can_be_taken_back(seed: int) -> None:
    """The leader is lost and the new log not full: the power may fail at any step of this, too."""
    step = 0
    is_cut = True
    while is_cut:
        step += 1
        disk = SimulatedDisk(seed)
        log = old_log(disk)
        log.perform(begin_anew(log))
        fill(log, 2)
        log.writer.save_floor()
        log.close()
        disk.cut_at = disk.operations + step
        try:
            take_back(NODE, disk)
            is_cut, disk.cut_at = False, 0
            log._open()
        except PowerCut:
            is_cut = True
            log.reopen_after_power_cut()
        if log.journal.filling is not None:
            assert is_cut
            log.close()
            take_back(NODE, disk)
            log._open()
        assert is_old(log), step
        assert not log.journal.damage
        assert [] == kept_names(disk)
        log.append(b"goes on")
        assert log.reopen_after_power_cut().last_index == 6
    assert step > 8


def test_begun_anew_twice_the_first_log_stays_kept() -> None:
    """What was not full when it was given up is worth less."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 2)
    log.perform(begin_anew(log, 200, Target(index=250, record=2_000, timestamp=8_000_000)))
    fill(log, 1)

    log.reopen_after_power_cut()

    filling = log.journal.filling
    assert filling is not None
    assert (200, 250) == (filling.base_index, filling.target.index)
    log.close()
    take_back(NODE, disk)
    log._open()
    assert is_old(log)


def test_begun_anew_when_full_it_keeps_the_newer_log() -> None:
    """The older one had been replaced; only its removal was still to come."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 4)
    log.perform(begin_anew(log, 200, Target(index=250, record=2_000, timestamp=8_000_000)))

    log.reopen_after_power_cut()

    filling = log.journal.filling
    assert filling is not None
    assert filling.kept is not None
    assert 103 == filling.kept.index


def test_what_is_only_staged_gives_up_nothing() -> None:
    """
    A node that slept finds resets and entries of a long time in its sockets, for one turn.

    The writer has not moved the old files when the log is full in memory and begun anew again.
    """
    disk = SimulatedDisk()
    log = old_log(disk)
    jobs = [begin_anew(log), *(log.stage(b"new" * 1000) for _ in range(4))]
    assert log.journal.last_index == TARGET.index
    jobs.append(begin_anew(log, 200, Target(index=199, record=2_000, timestamp=8_000_000)))
    log.journal.forget_filling()

    assert log.journal.housekeeper.failure is None
    log.perform(*jobs)
    fill(log, 1)
    assert log.writer.failure is None
    assert (200, 200) == (log.journal.first_index, log.journal.stored_index)
    filling = log.journal.filling
    assert filling is not None
    assert filling.kept is not None
    assert filling.kept.index == 5
    assert filling == require_kept(NODE, disk)
    log.journal.forget_filling()
    assert ([], None) == (kept_names(disk), log.journal.filling)


def without_room(*bodies: bytes) -> LocalJournal:
    """The old log, with more staged behind it that found no room."""
    disk = SimulatedDisk()
    log = old_log(disk)
    disk.fail_next["write"] = errno.ENOSPC
    log.perform(*(log.stage(body) for body in bodies))
    assert log.writer.is_waiting
    return log


@pytest.mark.promise("F17", "F37")
@pytest.mark.parametrize("is_waiting_itself", [False, True])
def test_begun_anew_twice_without_room_the_old_log_stays_kept(is_waiting_itself: bool) -> None:
    """
    Whatever the second reset gives up: the first one has the old files to set aside.

    Left beside the new log they would be taken for files to be removed, or keep the node from
    starting.
    """
    log = without_room(b"late")
    first = begin_anew(log)
    second = begin_anew(log, 200, Target(index=250, record=2_000, timestamp=8_000_000))
    if is_waiting_itself:
        assert isinstance(log.disk, SimulatedDisk)
        log.disk.fail_next["write"] = errno.ENOSPC
        log.perform(first)
        log.writer._retry_at = 0.0
        log.perform(second)
    else:
        log.perform(first, second)
    assert all((first.is_done, second.is_done))
    fill(log, 1)
    log.writer.save_floor()

    log.reopen_after_power_cut()

    assert (200, 200) == (log.journal.first_index, log.journal.last_index)
    log.close()
    take_back(NODE, log.disk)
    log._open()
    assert is_old(log)


@pytest.mark.promise("F17", "F37")
@pytest.mark.parametrize("is_repeated", [False, True])
def test_what_found_no_room_is_no_part_of_the_kept_log(is_repeated: bool) -> None:
    """Its files were never made: that they are missing must not keep the rest from being used."""
    log = without_room(*[b"late" * 1500] * 4)
    log.perform(begin_anew(log))
    if is_repeated:
        log.perform(begin_anew(log, 200, TARGET))
    fill(log, 1)

    log.reopen_after_power_cut()

    filling = require_kept(NODE, log.disk)
    assert filling.kept is not None
    assert (5, 6) == (filling.kept.index, filling.kept.record)
    log.close()
    take_back(NODE, log.disk)
    log._open()
    assert is_old(log)


def test_where_nothing_was_ever_a_file_nothing_is_kept() -> None:
    """A new node that found no room from the start."""
    disk = SimulatedDisk()
    log = LocalJournal(disk)
    disk.limit(5_000)
    log.perform(log.stage(b"x" * 9_000))
    disk.limit(None)
    log.perform(begin_anew(log))
    fill(log, 1)

    log.reopen_after_power_cut()

    assert log.journal.filling is not None
    assert log.journal.filling.kept is None


def with_an_empty_file() -> LocalJournal:
    """A log whose first file was made, and the power failed before its first entry was there."""
    for step in range(1, 100):
        disk = SimulatedDisk(step)
        log = LocalJournal(disk)
        disk.cut_at = disk.operations + step
        with pytest.raises(PowerCut):
            log.append(b"x")
        log.reopen_after_power_cut()
        if disk.list_directory(NODE / "journal") and not log.journal.last_index:
            return log
    raise AssertionError("the file is made before the entry is written")


def test_a_file_without_an_entry_is_no_part_of_the_new_log() -> None:
    """Left beside it, until the first floor is noted it would look like a log with a gap."""
    step = 0
    is_cut = True
    while is_cut:
        step += 1
        log = with_an_empty_file()
        disk = log.disk
        assert isinstance(disk, SimulatedDisk)
        job = begin_anew(log)
        disk.cut_at = disk.operations + step
        try:
            log.perform(job)
            log.append(b"new")
            is_cut, disk.cut_at = False, 0
        except PowerCut:
            log.reopen_after_power_cut()
        assert len(disk.list_directory(NODE / "journal")) <= 1, step
        assert not log.journal.damage
    assert step > 8


def test_a_cut_without_room_leaves_no_file_in_the_new_log() -> None:
    """What it would have removed is neither of the old log nor of the new one."""
    log = without_room(b"late")
    cut = log.journal.stage_truncate(2)
    log.perform(cut, begin_anew(log))
    assert cut.is_done
    assert [] == log.disk.list_directory(NODE / "journal")

    log.reopen_after_power_cut()

    assert 0 == log.journal.last_index
    assert ("00000000000000000001.segment",) == require_kept(NODE, log.disk).kept_files


def test_what_is_partly_gone_is_not_taken_back() -> None:
    """Its removal had begun because the new log was full, or the disk."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    log.close()
    segment = next(it for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY)
    disk.unlink(segment)

    with pytest.raises(StoreError, match="its removal had begun"):
        take_back(NODE, disk)


def test_a_take_back_that_was_refused_is_finished_by_the_next_command() -> None:
    """A file that cannot be moved is named; once it can be, repeating the command ends well."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 1)
    log.close()
    kept = [it for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY]
    disk.refuse_rename = {it for it in kept if it.suffix == ".segment"}

    with pytest.raises(PermissionError, match="segment"):
        take_back(NODE, disk)

    disk.refuse_rename.clear()
    with pytest.raises(StoreError, match="is finished now"):
        take_back(NODE, disk)
    log._open()
    assert is_old(log)


def test_where_there_is_no_room_the_old_log_goes_and_the_note_stays() -> None:
    """What the new log lacks is told as before, and once it is full nothing is left."""
    disk = SimulatedDisk()
    log = old_log(disk)
    job = begin_anew(log)
    log.journal.forget_filling(is_full=False)
    assert log.journal.filling is not None
    assert log.journal.filling.kept is not None  # its files are not even moved
    log.perform(job)
    fill(log, 1)

    log.journal.forget_filling(is_full=False)

    filling = log.journal.filling
    assert filling is not None
    assert (None, False) == (filling.kept, filling.is_reached(102))
    log.reopen_after_power_cut()
    assert 1 == len(kept_names(disk))
    fill(log, 3)
    log.journal.forget_filling()
    log.reopen_after_power_cut()
    assert (103, None, []) == (log.journal.last_index, log.journal.filling, kept_names(disk))


def test_where_nothing_is_kept_nothing_is_taken_back() -> None:
    """An ordinary node, and a new one that is being filled for the first time."""
    disk = SimulatedDisk()
    log = LocalJournal(disk)
    log.close()
    with pytest.raises(StoreError, match="keeps no older log"):
        take_back(NODE, disk)
    log._open()
    log.perform(begin_anew(log))
    log.close()
    with pytest.raises(StoreError, match="keeps no older log"):
        take_back(NODE, disk)
    found, full = load_filling(NODE, disk)
    assert not full
    assert found is not None
    assert found.kept is None


def test_a_damaged_note_is_told() -> None:
    """Without it nobody knows which log is whole."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    log.close()
    note = next(it for it in disk.durable_paths() if it.name.endswith(".filling"))
    disk.flip_bit(note, 200)

    with pytest.raises(StoreError, match="is damaged"):
        log._open()


@pytest.mark.parametrize("failing", range(4))
def test_a_kept_file_that_cannot_be_removed_is_tried_again(failing: int) -> None:
    """
    The note stays until all it speaks of is gone, so the next start does not take a leftover back.

    A leftover without a note looks like a move that was cut short: mixed into the new log it would
    keep the node from starting for good.
    """
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 4)
    disk.refuse_unlink = {it for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY}
    disk.refuse_unlink = set(sorted(disk.refuse_unlink)[failing : failing + 1])
    log.journal.forget_filling()

    housekeeper = log.journal.housekeeper
    assert 1 <= len(housekeeper.unremovable) <= 2
    log.reopen_after_power_cut()
    assert (100, 103) == (log.journal.first_index, log.journal.last_index)
    assert not log.journal.damage
    assert log.journal.filling is None
    disk.refuse_unlink = set()
    log.journal.housekeeper.drop([], 0)
    assert [] == kept_names(disk)
    assert not log.journal.housekeeper.unremovable
    assert 103 == log.reopen().last_index


def test_what_an_earlier_reset_left_keeps_nobody_from_starting() -> None:
    """Its removal was cut short, and is refused at the start: it is tried again and told."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 4)
    earlier = {it for it in disk.durable_paths() if it.parent == NODE / KEPT_DIRECTORY}
    disk.refuse_unlink = earlier
    log.perform(begin_anew(log, 200, Target(index=250, record=2_000, timestamp=8_000_000)))

    log.reopen_after_power_cut()

    filling = log.journal.filling
    assert filling is not None
    assert filling.kept is not None
    assert 103 == filling.kept.index
    assert log.journal.housekeeper.unremovable
    disk.refuse_unlink = set()
    log.journal.housekeeper.drop([], 0)
    assert not earlier & set(disk.durable_paths())


def test_the_older_log_is_given_up_at_an_operators_word() -> None:
    """The power may fail at any step: the new log stays what it is, and it can be said again."""
    step = 0
    is_cut = True
    while is_cut:
        step += 1
        disk = SimulatedDisk(step)
        log = old_log(disk)
        log.perform(begin_anew(log))
        fill(log, 2)
        log.writer.save_floor()
        log.close()
        disk.cut_at = disk.operations + step
        try:
            give_up_older(NODE, disk)
            is_cut, disk.cut_at = False, 0
        except PowerCut:
            is_cut = True
            disk.power_cut()
            if require_filling(disk).kept is not None:
                give_up_older(NODE, disk)
        log._open()
        assert (100, 101) == (log.journal.first_index, log.journal.last_index), step
        filling = log.journal.filling
        assert filling is not None
        assert (None, TARGET) == (filling.kept, filling.target)
        assert 1 == len(kept_names(disk))
        log.close()
        with pytest.raises(StoreError, match="keeps no older log"):
            give_up_older(NODE, disk)
    assert step > 5


def require_filling(disk: SimulatedDisk) -> Filling:
    filling, _ = load_filling(NODE, disk)
    assert filling is not None
    return filling


def test_the_note_says_whose_log_it_was() -> None:
    """A voter restarted with half a log knows by it that others have all of the older one."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(log.journal.stage_reset(100, 1, b"c" * 16, 1_000, TARGET, is_of_voter=True))
    log.append(b"new")
    log.reopen()
    assert log.journal.filling is not None
    assert log.journal.filling.is_of_voter
    log.perform(log.journal.stage_reset(200, 1, b"c" * 16, 2_000, TARGET))
    log.append(b"new")
    assert require_filling(disk).is_of_voter


def test_which_of_two_beginnings_is_the_later_one_shows() -> None:
    """
    After a forced promotion a log may begin before the one it replaces.

    What was kept beside the first is refused to go. Taken for the later one, it would have cost the
    second its older log.
    """
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 4)
    disk.refuse_unlink = {it for it in disk.durable_paths() if it.suffix == ".segment"}
    log.perform(begin_anew(log, 50, Target(index=90, record=2_000, timestamp=8_000_000)))
    fill(log, 1)
    for _ in range(2):
        log.reopen_after_power_cut()
        filling = log.journal.filling
        assert filling is not None
        assert (50, 90, 103) == (
            filling.base_index,
            filling.target.index,
            filling.kept.index if filling.kept else 0,
        )
    log.close()
    assert 103 == (take_back(NODE, disk).kept or TARGET).index
    log._open()
    assert (100, 103, None) == (
        log.journal.first_index,
        log.journal.last_index,
        log.journal.filling,
    )
    disk.refuse_unlink = set()
    log.reopen_after_power_cut()
    assert [] == kept_names(disk)


def test_no_two_beginnings_bear_one_name() -> None:
    """Also where the second begins where the first did, and after a start."""
    disk = SimulatedDisk()
    log = old_log(disk)
    origins = []
    for _ in range(3):
        log.perform(begin_anew(log))
        fill(log, 4)
        disk.refuse_unlink = {it for it in disk.durable_paths() if it.parent.name == KEPT_DIRECTORY}
        if len(origins) == 1:
            log.reopen()
        assert log.journal.filling is not None
        origins.append(log.journal.filling.origin)
    assert [100, 101, 102] == origins


def test_a_damaged_note_of_a_full_log_keeps_nobody_from_starting() -> None:
    """All that is to be known of what was kept beside it is that it may go."""
    disk = SimulatedDisk()
    log = old_log(disk)
    log.perform(begin_anew(log))
    fill(log, 4)
    disk.refuse_unlink = {it for it in disk.durable_paths() if it.suffix == ".segment"}
    log.journal.forget_filling()
    note = next(it for it in disk.durable_paths() if it.name.endswith(".filling"))
    disk.flip_bit(note, 200)
    log.reopen_after_power_cut()
    assert (103, None) == (log.journal.last_index, log.journal.filling)
    disk.refuse_unlink = set()
    log.journal.housekeeper.drop([], 0)
    assert [] == kept_names(disk)
