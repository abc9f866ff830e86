"""Group commit: order, sharing of syncs, and what happens when the disk refuses."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import JournalFailedError
from holdfast.journal import writer
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.writer import ROOM_RETRY_SECONDS, JournalWriter
from trials.simulation.local_journal import NODE_ID, LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_jobs_of_one_turn_share_a_sync(begun: LocalJournal) -> None:
    """What gathered during the last sync is written and synced at once, and told once."""
    jobs = [begun.stage(bytes([n]) * 100) for n in range(1, 6)]
    before = begun.writer.sync_count
    begun.perform(*jobs)
    assert begun.writer.sync_count == before + 1
    assert [(it.stored_index, it.jobs, it.failure) for it in begun.results] == [(6, jobs, None)]
    assert all(job.is_done for job in jobs)
    assert begun.results[0].seconds >= 0


def test_an_entry_with_a_row_of_zeros_is_synced_before_the_next(begun: LocalJournal) -> None:
    """Recovery could not tell whether it was torn if a good entry followed it unsynced."""
    jobs = [begun.stage(bytes(600)), begun.stage(b"x")]
    begun.perform(*jobs)
    assert [(it.stored_index, it.jobs) for it in begun.results] == [(2, jobs[:1]), (3, jobs[1:])]


def test_a_roll_syncs_the_old_segment_first(begun: LocalJournal) -> None:
    """A segment's existence proves that everything before it is durable."""
    jobs = [begun.stage(b"x" * 40_000), begun.stage(b"y" * 40_000)]
    begun.perform(*jobs)
    assert [it.stored_index for it in begun.results] == [2, 3]
    ballot = begun.journal.ballot_file.current
    assert ballot is not None
    assert ballot.durable_floor == 2


def test_one_job_over_several_runs_is_done_with_the_last(begun: LocalJournal) -> None:
    """Entries staged together may need several syncs; the job is done after all of them."""
    entries: list[Entry] = []
    journal = begun.journal
    chain = journal.last_chain
    for index in range(2, 5):
        entry = seal_entry(
            index=index,
            term=1,
            kind=KIND_RECORDS,
            timestamp=index,
            first_record=index,
            record_count=1,
            parts=[bytes(600)],
            previous_chain=chain,
        )
        chain = entry.chain
        entries.append(entry)
    job = journal.stage(entries)
    begun.perform(job)
    assert [(it.stored_index, it.jobs) for it in begun.results] == [(2, []), (3, []), (4, [job])]


def test_a_ballot_is_durable_when_told(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """A vote may leave only once its job is done: then a power cut does not undo it."""
    job = BallotJob(Ballot(node_id=NODE_ID, term=9, voted_for="b"))
    append = begun.stage(b"x")
    begun.perform(append, job)
    assert [it.jobs for it in begun.results] == [[append], [job]]
    disk.power_cut()
    ballot = BallotFile(Path("/node/ballot"), disk).load()
    assert ballot is not None
    assert (ballot.term, ballot.voted_for) == (9, "b")


@pytest.mark.parametrize(
    ("operation", "number"),
    [("write", errno.EIO), ("sync", errno.EIO), ("sync", errno.ENOSPC)],
)
@pytest.mark.promise("F15")
def test_the_first_failure_is_final(
    begun: LocalJournal, disk: SimulatedDisk, operation: str, number: int
) -> None:
    """F15: one failed write or sync, and nothing is written or claimed ever after."""
    jobs: list[WriteJob] = [begun.stage(b"x"), begun.stage(b"y")]
    disk.fail_next[operation] = number
    begun.perform(*jobs)
    result = begun.results[-1]
    assert isinstance(result.failure, JournalFailedError)
    assert isinstance(result.failure.__cause__, OSError)
    assert (result.stored_index, result.jobs) == (1, jobs)
    before = disk.operations
    begun.perform(BallotJob(Ballot(node_id=NODE_ID, term=2)))
    begun.writer.save_floor()
    begun.writer.close()
    assert disk.operations == before
    assert begun.results[-1].failure is result.failure
    assert begun.journal.failure is begun.writer.failure is result.failure


def test_a_failed_floor_is_a_failure_too(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """A sync that failed anywhere says that the disk cannot be trusted."""
    disk.fail_next["sync"] = errno.EIO
    begun.writer.save_floor()
    assert begun.results[-1].failure is not None


def test_a_mistake_of_ours_stops_the_writer_too(begun: LocalJournal) -> None:
    """A bug in the writer must not look like a disk that is merely slow."""
    begun.perform(WriteJob())
    assert begun.results[-1].failure is not None


class Room:
    """A journal whose disk is full, with a clock for the writer's next try."""

    def __init__(self, disk: SimulatedDisk, **settings: int) -> None:
        self.disk = disk
        self.log = LocalJournal(disk, settings=JournalSettings(segment_bytes=64 * KiB, **settings))
        self.log.append(b"first")
        self.now = 100.0
        self.log.writer._monotonic = lambda: self.now
        self.log.results.clear()

    def fill(self, free: int = 10_000) -> None:
        self.disk.limit(free)

    def empty(self) -> None:
        self.disk.limit(None)

    def try_again(self) -> None:
        self.now += ROOM_RETRY_SECONDS
        self.log.perform()


@pytest.fixture
def room(disk: SimulatedDisk) -> Room:
    return Room(disk)


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.promise("F15", "F29")
def test_without_room_for_a_segment_the_writer_waits(
    room: Room, disk: SimulatedDisk, is_hidden: bool
) -> None:
    """
    Nothing is claimed, nothing is left of the attempt, and with room all of it is written in order.

    The free bytes may say so beforehand, or not, as under a quota.
    """
    begun = room.log
    room.fill()
    disk.is_limit_hidden = is_hidden
    jobs = [begun.stage(b"x" * 62_000), begun.stage(b"y"), begun.stage(b"z")]
    before = disk.list_directory(Path("/node/journal"))
    begun.perform(*jobs)
    assert ([], True, None) == (begun.results, begun.writer.is_waiting, begun.writer.failure)
    assert (1, True) == (begun.journal.stored_index, begun.journal.is_out_of_room)
    assert "low" == begun.journal.space_state(0.0)
    assert before == disk.list_directory(Path("/node/journal"))

    jobs.append(begun.stage(b"later"))
    operations = disk.operations
    begun.perform(jobs[-1])
    assert operations == disk.operations  # It is not tried with every job that comes.
    room.empty()
    room.try_again()

    assert (5, False) == (begun.journal.stored_index, begun.journal.is_out_of_room)
    assert all(job.is_done for job in jobs)
    assert jobs == [job for it in begun.results for job in it.jobs]
    begun.reopen_after_power_cut()
    bodies = [bytes(begun.journal.entry(index).body)[-1:] for index in range(1, 6)]
    assert [b"t", b"x", b"y", b"z", b"r"] == bodies


@pytest.mark.promise("F15", "F29")
def test_a_write_without_room_is_written_again_from_its_beginning(
    room: Room, disk: SimulatedDisk
) -> None:
    """Each run once, however many jobs it joins; a crash meanwhile leaves what was stored."""
    begun = room.log
    jobs = [begun.stage(bytes([65 + number]) * 300) for number in range(4)]
    disk.fail_next["write"] = errno.ENOSPC
    begun.perform(*jobs)
    assert (1, True) == (begun.journal.stored_index, begun.writer.is_waiting)
    later = begun.stage(b"later")
    begun.perform(later)
    room.try_again()
    assert (6, False) == (begun.journal.stored_index, begun.writer.is_waiting)
    assert [*jobs, later] == [job for it in begun.results for job in it.jobs]
    assert 6 == begun.reopen_after_power_cut().last_index


def test_a_sync_that_finds_no_room_is_a_failed_sync(room: Room, disk: SimulatedDisk) -> None:
    """While room is short write and sync are two calls, so that it is known which one failed."""
    begun = room.log
    disk.fail_next["write"] = errno.ENOSPC
    begun.perform(begun.stage(b"x"))
    disk.fail_next["sync"] = errno.ENOSPC
    room.try_again()
    assert begun.writer.failure is not None
    assert 1 == len(begun.results[-1].jobs)
    begun.perform(BallotJob(Ballot(node_id=NODE_ID, term=3)))
    assert 1 == begun.journal.stored_index


def test_a_vote_is_kept_while_entries_wait(room: Room) -> None:
    """Ballots are written in place; others may need this node's vote."""
    begun = room.log
    room.fill()
    begun.perform(
        begun.stage(b"x" * 62_000), BallotJob(Ballot(node_id=NODE_ID, term=7)), begun.stage(b"y")
    )
    ballot = begun.journal.ballot_file.current
    assert ballot is not None
    assert (7, True) == (ballot.term, begun.writer.is_waiting)
    begun.perform(BallotJob(Ballot(node_id=NODE_ID, term=8)))
    ballot = begun.journal.ballot_file.current
    assert ballot is not None
    assert 8 == ballot.term
    room.empty()
    room.try_again()
    assert 3 == begun.journal.stored_index


def test_a_ballot_alone_that_finds_no_room_once_leaves_nothing_behind(
    room: Room, disk: SimulatedDisk
) -> None:
    """It is tried again at once; publishing is not to be refused for ever for its sake."""
    disk.fail_next["write"] = errno.ENOSPC
    room.log.perform(BallotJob(Ballot(node_id=NODE_ID, term=7)))
    ballot = room.log.journal.ballot_file.current
    assert ballot is not None
    assert (7, False) == (ballot.term, room.log.writer.is_waiting)
    assert not room.log.journal.is_out_of_room


def test_a_ballot_of_a_new_cluster_waits_for_its_members(room: Room) -> None:
    """With a ballot of the cluster and no entry that names the members it would never lead."""
    begun = room.log
    room.fill()
    ballot = Ballot(node_id=NODE_ID, term=1, cluster_id=b"c" * 16)
    begun.perform(begun.stage(b"x" * 62_000), BallotJob(ballot))
    kept = begun.journal.ballot_file.current
    assert kept is not None
    assert b"" == kept.cluster_id
    room.empty()
    room.try_again()
    kept = begun.journal.ballot_file.current
    assert kept is not None
    assert b"c" * 16 == kept.cluster_id


def test_a_log_that_is_given_up_needs_no_room_before(room: Room, disk: SimulatedDisk) -> None:
    """What waits is left out, so that a replica can be filled anew in the room of its old log."""
    begun = room.log
    room.fill()
    large = begun.stage(b"x" * 62_000)
    begun.perform(large)
    cut = begun.journal.stage_truncate(1)
    begun.perform(cut)
    reset = begun.journal.stage_reset(100, 1, b"c" * 16, 1_000)
    begun.perform(reset)

    assert all(job.is_done for job in (large, cut, reset))
    assert 99 == begun.journal.stored_index
    begun.append(b"new")
    assert (100, False) == (begun.journal.stored_index, begun.writer.is_waiting)
    begun.reopen_after_power_cut()
    assert (100, 100) == (begun.journal.first_index, begun.journal.last_index)


def test_a_writer_that_may_not_wait_fails(disk: SimulatedDisk) -> None:
    """A tool says so and ends."""
    room = Room(disk)
    room.fill()
    room.log.writer._waits_for_room = False
    room.log.perform(room.log.stage(b"x" * 62_000))
    assert room.log.results[-1].failure is not None


class Threaded:
    """A journal on a real disk with its threads running."""

    def __init__(self, directory: Path) -> None:
        settings = JournalSettings(segment_bytes=64 * KiB, floor_idle_seconds=0.001)
        self.journal = Journal.open(directory, RealDisk(), settings)
        self.journal.ballot_file.save(Ballot(node_id=NODE_ID))
        self.results: SimpleQueue[WriteResult] = SimpleQueue()
        self.writer = JournalWriter(self.journal, self.results.put)
        self.writer.start()

    def append(self, body: bytes) -> None:
        journal = self.journal
        entry = seal_entry(
            index=journal.last_index + 1,
            term=1,
            kind=KIND_RECORDS,
            timestamp=journal.last_timestamp + 1,
            first_record=journal.next_record_number,
            record_count=1,
            parts=[body],
            previous_chain=journal.last_chain,
        )
        self.writer.submit(journal.stage([entry]))

    def wait_stored(self, index: int) -> None:
        while self.results.get(timeout=30).stored_index < index:
            pass

    def close(self) -> None:
        self.writer.close()
        self.journal.close()


def test_the_thread_stores_everything_submitted(tmp_path: Path) -> None:
    """Hundreds of entries over several segments arrive in order; a clean stop loses none."""
    node = Threaded(tmp_path)
    for number in range(300):
        node.append(number.to_bytes(2, "little") * 500)
    node.wait_stored(300)
    node.append(b"last")
    node.close()
    again = Journal.open(tmp_path, RealDisk(), JournalSettings(segment_bytes=64 * KiB))
    assert again.last_index == 301
    assert again.damage == []
    assert again.ballot_file.current is not None
    assert again.ballot_file.current.durable_floor == 301
    again.close()


def test_the_floor_follows_when_the_writer_is_idle(tmp_path: Path) -> None:
    """Soon after the last write the ballot says how far the log is durable."""
    node = Threaded(tmp_path)
    node.append(b"x")
    node.wait_stored(1)
    file = BallotFile(tmp_path / "ballot", RealDisk())
    for _ in range(10_000):
        ballot = file.load()
        assert ballot is not None
        if ballot.durable_floor == 1:
            break
    assert replace(ballot, sequence=0).durable_floor == 1
    file.close()
    node.close()


def test_the_thread_waits_for_room_and_ends_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again by itself; at the end it tries once more and leaves what a crash would."""
    looked: SimpleQueue[None] = SimpleQueue()
    free = [0, 0, 1 << 40, 0, 0]

    def free_bytes(_disk: RealDisk, _path: Path) -> int:
        if threading.current_thread().name != "journal-writer":
            return 0
        looked.put(None)
        return free.pop(0) if free else 0

    monkeypatch.setattr(RealDisk, "free_bytes", free_bytes)
    monkeypatch.setattr(writer, "ROOM_RETRY_SECONDS", 0.001)
    node = Threaded(tmp_path)
    node.append(b"x")
    node.wait_stored(1)
    assert 3 == looked.qsize()
    node.append(b"y" * 65_000)
    for _ in range(4):
        looked.get(timeout=30)
    monkeypatch.setattr(writer, "ROOM_RETRY_SECONDS", 1e9)
    node.close()
    assert node.writer.is_waiting
    assert 1 == node.journal.durable_index
