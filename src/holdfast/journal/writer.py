"""
Group commit: one thread writes what was staged, syncs once, and says so.

A sync costs about the same for one entry as for a thousand, so whatever was submitted while the
last one ran is written together next. There is no timer.

Invariants:
    Nothing of run k+1 is written before the sync of run k returned (see `jobs` for why).
    `journal.durable_index` never passes what is durable; it is set before `notify` is called.
    After the first failed write or sync nothing more is written or claimed, for ever: what the
    disk holds is unknown then, and a later sync that succeeds proves nothing.
    Want of room is no failure: nothing that was durable is touched by it, nothing is claimed, and
    what found no room is written again from its beginning once there is some. Jobs keep their
    order meanwhile, but for votes, which need no room, and for a log that is given up.

`turn` is a plain function, so tests and simulations run it without a thread.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from holdfast.environment.clock import Clock, SystemClock
from holdfast.environment.disk import DiskFile, NoRoomError, fill_zeros, is_no_room
from holdfast.errors import JournalFailedError
from holdfast.journal.entry import parse_header
from holdfast.journal.jobs import (
    RUN_BYTES_MAX,
    AppendJob,
    BallotJob,
    Piece,
    RepairJob,
    ResetJob,
    TruncateJob,
    WriteJob,
    WriteResult,
)
from holdfast.journal.journal import Journal
from holdfast.journal.kept_log import renew_note, set_aside
from holdfast.journal.recovery import keep_bytes, zero_backwards
from holdfast.journal.segment import Segment

ROOM_RETRY_SECONDS: Final = 0.5
"""How often it is tried again whether there is room."""

logger = logging.getLogger("holdfast.journal")


class _Step(NamedTuple):
    """A run to be written, with the jobs that are done then, or one other job."""

    run: Piece | None
    jobs: list[WriteJob]

    @property
    def other(self) -> WriteJob | None:
        """The job, if it is no run."""
        return None if self.run is not None else self.jobs[0]


class JournalWriter:
    """
    The one writer of a journal.

    `notify` is called on the writer's thread after every sync and must only pass the result on.
    """

    def __init__(
        self,
        journal: Journal,
        notify: Callable[[WriteResult], None],
        *,
        clock: Clock | None = None,
        waits_for_room: bool = True,
    ) -> None:
        """Write for this journal; without `waits_for_room` a full disk is a failure."""
        self._journal = journal
        self._disk = journal.disk
        self._settings = journal.settings
        self._ballot_file = journal.ballot_file
        self._notify = notify
        self._monotonic = (clock or SystemClock()).monotonic
        self._queue: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file: DiskFile | None = None
        self._file_segment: Segment | None = None
        self._waits_for_room = waits_for_room
        self._steps: deque[_Step] = deque()
        """What is to be done; empty between turns, unless it waits for room."""
        self._retry_at = 0.0
        self._floor_time = 0.0
        self._claim: tuple[int, int] | None = None
        """(term, index) of what was cut unknown, until the log is durable beyond it."""
        self._is_empty = journal.was_empty
        """No file of the log exists yet."""
        self.failure: JournalFailedError | None = None
        """Set by the first failed write or sync; final."""
        self.sync_count = 0
        """Runs written and synced so far."""
        self.bytes_written = 0
        """Bytes of entries made durable so far."""
        journal.housekeeper.on_failure = self._fail_alone

    def start(self) -> None:
        """Start the writer's and the housekeeper's threads."""
        self._journal.housekeeper.start()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def submit(self, job: WriteJob) -> None:
        """Queue a job. Jobs must come in the order the journal staged them."""
        self._queue.put(job)

    def close(self) -> None:
        """Finish what was submitted, note how far the log is durable, stop the threads."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            self._journal.housekeeper.close()
        self.save_floor()
        self._close_file()

    def turn(self, jobs: list[WriteJob]) -> None:
        """
        Do these jobs: every run written and synced, then told through `notify`.

        Where there is no room they wait, and later turns go on with them, without jobs of their
        own too. Never raises for the disk's sake: a failure is told, and every later turn repeats
        it.
        """
        if self.failure is None:
            try:
                self._perform(jobs)
                return
            except OSError as error:
                self._fail(error)
            except Exception as error:  # a bug must not end the thread in silence
                logger.exception("the journal writer broke")
                self._fail(error)
        waiting = [job for step in self._steps for job in step.jobs]
        self._steps.clear()
        undone = [job for job in dict.fromkeys([*waiting, *jobs]) if not job.is_done]
        self._notify(WriteResult(self._journal.durable_index, undone, 0.0, self.failure))

    @property
    def is_waiting(self) -> bool:
        """Whether there is no room for what is to be written."""
        return bool(self._steps)

    def save_floor(self) -> None:
        """Note in the ballot how far the log is durable. A failure is told, not raised."""
        if self.failure is None:
            self._floor_time = self._monotonic()
            try:
                journal = self._journal
                self._ballot_file.save_floor(journal.durable_index, journal.durable_chain)
            except NoRoomError:
                pass  # An older floor is only less sharp.
            except OSError as error:
                self._fail_alone(error)

    def _run(self) -> None:
        get, get_nowait = self._queue.get, self._queue.get_nowait
        idle, busy = self._settings.floor_idle_seconds, self._settings.floor_busy_seconds
        is_floor_old = False
        while True:
            pause = idle if is_floor_old else None
            try:
                job = get(timeout=ROOM_RETRY_SECONDS if self._steps else pause)
            except Empty:
                if self._steps:
                    self.turn([])
                else:
                    self.save_floor()
                    is_floor_old = False
                continue
            jobs = []
            try:
                while job is not None:
                    jobs.append(job)
                    job = get_nowait()
            except Empty:
                pass
            if jobs:
                self.turn(jobs)
                is_floor_old = True
                if self._monotonic() - self._floor_time > busy:
                    self.save_floor()
            if job is None:
                if self._steps:
                    self._retry_at = 0.0
                    self.turn([])
                return

    def _perform(self, jobs: list[WriteJob]) -> None:
        """Do the steps to these jobs behind those that wait."""
        steps = self._steps
        was_waiting = bool(steps)
        _plan(jobs, steps)
        if was_waiting and not self._is_given_up() and self._monotonic() < self._retry_at:
            self._vote()
            self._note_room()
            return
        try:
            while steps:
                run, step_jobs = steps[0]
                if run is not None:
                    self._write(run, step_jobs)
                else:
                    self._do(step_jobs[0])
                steps.popleft()
        except NoRoomError as error:
            if not self._waits_for_room:
                raise
            self._wait_for_room(error)
            self._vote()
        self._note_room()

    def _do(self, job: WriteJob) -> None:
        if isinstance(job, AppendJob):  # One that has yet to be written.
            assert job.cut is not None
            self._truncate(job.cut)
            return
        self._perform_other(job)
        job.is_done = True
        self._notify(WriteResult(self._journal.durable_index, [job]))

    def _wait_for_room(self, error: NoRoomError) -> None:
        journal = self._journal
        self._retry_at = self._monotonic() + ROOM_RETRY_SECONDS
        if not journal.is_out_of_room:
            journal.is_out_of_room = True
            logger.error("the disk is full, nothing is stored until there is room: %s", error)

    def _note_room(self) -> None:
        """Say that there is room again, once nothing waits for it any more."""
        if self._journal.is_out_of_room and not self._steps:
            self._journal.is_out_of_room = False
            logger.warning("the disk has room again: writing goes on")

    def _is_given_up(self) -> bool:
        """
        Leave out what waits before the log is begun anew, but for votes; tell if that is so.

        Files go their way all the same: what an earlier beginning sets aside, and what a cut
        removes, must not stay in the directory in which the new log is begun.
        """
        steps = list(self._steps)
        resets = [place for place, it in enumerate(steps) if isinstance(it.other, ResetJob)]
        count = resets[-1] if resets else 0
        self._steps.clear()
        for place, step in enumerate(steps):
            job = step.other
            is_kept = place >= count or isinstance(job, BallotJob | ResetJob)
            if not is_kept and isinstance(job, TruncateJob) and job.removed:
                # Where it begins there may be no file: what was to be written there is left out.
                job.end = job.start
                is_kept = True
            if is_kept:
                self._steps.append(step)
            for left_out in () if is_kept else step.jobs:
                left_out.is_done = True
        return len(self._steps) < len(steps)

    def _vote(self) -> None:
        """
        Keep the ballots that wait among the rest: they need no room, and others may need the vote.

        A ballot may be of a later term than the log. Only one that names a new cluster waits: its
        node must not know a cluster without the members.
        """
        known = self._ballot_file.current
        for step in list(self._steps):
            job = step.other
            if not isinstance(job, BallotJob):
                continue
            if known is None or known.cluster_id != job.ballot.cluster_id:
                return
            try:
                self._do(job)
            except NoRoomError:
                return
            self._steps.remove(step)

    def _write(self, run: Piece, complete: list[WriteJob]) -> None:
        started = self._monotonic()
        segment = run.segment
        if run.opens:
            self._begin_segment(segment)
        file = self._file
        if file is None or segment is not self._file_segment:
            file = self._reopen(segment)
        if run.bytes > RUN_BYTES_MAX:
            self._write_large(file, run)
        else:
            self._put(file, run)
        self.sync_count += 1
        self.bytes_written += run.bytes
        self._journal.tail.durable_index = run.last_index
        self._journal.tail.durable_chain = run.last_chain
        if self._claim is not None:
            self._settle_claim(run, self._claim)
        for job in complete:
            job.is_done = True
        seconds = self._monotonic() - started
        self._notify(WriteResult(run.last_index, complete, seconds))

    def _write_large(self, file: DiskFile, run: Piece) -> None:
        """
        Write one entry that is larger than a run.

        It is announced first, and noted as durable before anything is written behind it: so
        whatever stands behind its beginning after a crash is known to be its own body, where a
        sender may have put what looks like entries.
        """
        journal, ballot_file = self._journal, self._ballot_file
        ballot_file.announce_large(run.last_index, journal.durable_index, journal.durable_chain)
        self._put(file, run)
        ballot_file.save_floor(run.last_index, run.last_chain)

    def _put(self, file: DiskFile, run: Piece) -> None:
        if self._journal.is_out_of_room:
            # In two calls, so that a sync that finds no room is known for what it is: failed.
            file.write(b"".join(run.buffers), run.offset)
            file.sync()
        else:
            file.write_durable(run.buffers, run.offset)

    def _begin_segment(self, segment: Segment) -> None:
        """Make the file of a segment, unless it is made: zeros and header first, its name last."""
        if segment is not self._file_segment:
            self._close_file()
            if self._is_empty:
                self._begin_log(segment)
            self._make_file(segment)
            self._journal.housekeeper.sync_directory()
            self._file_segment = segment
            self._is_empty = False
        # What stands in sealed segments is durable; recovery need not guess there.
        journal = self._journal
        self._ballot_file.save_floor(journal.durable_index, journal.durable_chain)

    def _begin_log(self, segment: Segment) -> None:
        """Note that the log begins here, unless a reset did: it may have been noted further on."""
        ballot = self._ballot_file.current
        header = segment.header
        if ballot is not None and ballot.first_index != header.base_index:
            self._journal.housekeeper.clear_away(set(), header.base_index)
            self._note_begin(header.base_index, header.previous_chain)

    def _note_begin(self, index: int, chain: bytes) -> None:
        claimed = 0 if self._claim is None else self._claim[1]
        self._ballot_file.begin_log(index, chain, claimed)

    def _make_file(self, segment: Segment) -> None:
        """Make a file with the name of a segment; where there is no room, leave nothing behind."""
        housekeeper = self._journal.housekeeper
        capacity = segment.header.capacity
        filled = self._settings.segment_bytes
        path = housekeeper.take_spare()
        if path is None:
            path, filled = housekeeper.new_path(), 0
        try:
            if self._disk.free_bytes(path.parent) < capacity - filled:
                # Else each try would take the last room from everybody else.
                raise NoRoomError(errno.ENOSPC, f"a segment of {capacity:,} bytes has no room")
            self._file = file = self._disk.open(path, create=True)
            fill_zeros(file, filled, capacity)
            file.write(segment.header.encode(), 0)
            file.sync()
            self._disk.rename(path, segment.path)
        except OSError as error:
            if not is_no_room(error):
                raise
            # Nothing rests on this file yet, so it does not matter which of its syncs failed.
            self._close_file()
            housekeeper.discard(path)
            raise NoRoomError(error.errno, error.strerror) from error

    def _reopen(self, segment: Segment) -> DiskFile:
        self._close_file()
        self._file = self._disk.open(segment.path)
        self._file_segment = segment
        return self._file

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._file_segment = None

    def _perform_other(self, job: WriteJob) -> None:
        if isinstance(job, BallotJob):
            self._ballot_file.save(job.ballot)
        elif isinstance(job, TruncateJob):
            self._truncate(job)
        elif isinstance(job, RepairJob):
            self._repair(job)
        elif isinstance(job, ResetJob):
            self._claim = job.claim
            self._begin_anew(job)
            self._note_begin(job.base_index, job.previous_chain)
            self._journal.tail.durable_index = job.base_index - 1
            self._journal.tail.durable_chain = job.previous_chain
            self._is_empty = True
        else:
            raise AssertionError(job)

    def _repair(self, job: RepairJob) -> None:
        if job.is_void:
            return
        try:
            file = self._disk.open(job.segment.path)
        except FileNotFoundError:
            if job.is_void:
                return  # dropped since it was looked at; its removal is another thread's
            raise
        raw = job.entry.raw
        try:
            file.write_durable([raw], job.start)
            if file.read(len(raw), job.start) != raw:
                raise OSError(errno.EIO, f"repaired entry {job.entry.index:,} reads back wrong")
        finally:
            file.close()

    def _truncate(self, job: TruncateJob) -> None:
        self._claim = job.claim
        if job.claim is None:
            # The claim goes first: after a crash in between, a shorter log must not look damaged.
            self._ballot_file.lower_floor(job.after_index, job.chain)
        else:
            # It stays: after a crash in between, a shorter log must not look whole, and vote so.
            self._ballot_file.claim_through(job.claim[1])
        self._remove(job.removed)
        if job.start < job.end:
            file = self._file
            if file is None or job.segment is not self._file_segment:
                file = self._reopen(job.segment)
            if job.keep_in is not None:
                keep_bytes(self._disk, job.keep_in, job.segment, file, job.start, job.end)
            zero_backwards(file, job.start, job.end)
        if job.after_index < self._journal.durable_index:
            self._journal.tail.durable_index = job.after_index
            self._journal.tail.durable_chain = job.chain
        if job.claim is not None:
            self._ballot_file.forget_large()

    def _settle_claim(self, run: Piece, claim: tuple[int, int]) -> None:
        """Give the claim up that a cut left, if what a leader sent instead is of a later term."""
        term, index = claim
        if run.last_index >= index:
            self._claim = None
        elif parse_header(run.buffers[-1]).term > term:
            self._claim = None
            self._ballot_file.lower_floor(run.last_index, run.last_chain)

    def _begin_anew(self, job: ResetJob) -> None:
        """
        Take every file of the log away, so that it can begin at another entry.

        Where the log begins is noted before, so that nothing older counts and nothing of it is
        missed, and again after the last file went: whatever is left of it before that is a log.
        """
        journal, filling = self._journal, job.filling
        is_set_aside = filling is not None and job.is_set_aside
        self._close_file()
        removed = [] if self._is_empty else job.removed
        if removed:
            header = removed[0].header
            self._note_begin(header.base_index, header.previous_chain)
        names = {it.path.name for it in removed}
        # A file that was made and has no entry is no part of what is kept.
        kept = names.intersection(filling.kept_files) if filling and is_set_aside else names
        journal.housekeeper.clear_away(kept, job.base_index)
        directory, sync = journal.directory, journal.housekeeper.sync_directory
        if filling is not None and is_set_aside:
            paths = [it.path for it in removed if it.path.name in kept]
            set_aside(directory, self._disk, filling, paths, sync)
            return
        if filling is not None:
            renew_note(directory, self._disk, filling)
        self._remove(removed)

    def _remove(self, segments: list[Segment]) -> None:
        # Newest first, each durably gone before the next, so that a crash leaves no hole.
        for segment in reversed(segments):
            if segment is self._file_segment:
                self._close_file()
            self._journal.housekeeper.take_out(segment.path)

    def _fail_alone(self, error: Exception) -> None:
        """Fail although no job is to blame."""
        self._fail(error)
        self._notify(WriteResult(self._journal.durable_index, [], 0.0, self.failure))

    def _fail(self, error: Exception) -> None:
        self.failure = JournalFailedError(
            f"writing the journal failed: {error}; nothing more is stored by this process"
        )
        self.failure.__cause__ = error
        self._journal.failure = self.failure
        logger.critical("writing the journal failed, nothing more is stored: %s", error)


def _plan(jobs: list[WriteJob], steps: deque[_Step]) -> None:
    """Put the steps to these jobs behind those that are there: what may share a run does."""
    if len(jobs) == 1:
        job = jobs[0]
        if isinstance(job, AppendJob) and job.cut is None and len(job.pieces) == 1:
            steps.append(_Step(job.pieces[0], [job]))  # Nothing to be joined.
            return
    run: Piece | None = None
    complete: list[WriteJob] = []
    for job in jobs:
        if isinstance(job, AppendJob):
            if job.cut is not None:  # only ever the first job
                steps.append(_Step(None, [job]))
            for piece in job.pieces:
                if run is None:
                    run = piece
                elif not run.join(piece):
                    steps.append(_Step(run, complete))
                    run, complete = piece, []
            complete.append(job)
            continue
        if run is not None:
            steps.append(_Step(run, complete))
            run, complete = None, []
        steps.append(_Step(None, [job]))
    if run is not None:
        steps.append(_Step(run, complete))
