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

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from holdfast.environment.clock import Clock, SystemClock
from holdfast.environment.disk import DiskFile, NoRoomError
from holdfast.errors import JournalFailedError
from holdfast.journal.claim import StandingClaim
from holdfast.journal.cutting import repair, reset, truncate
from holdfast.journal.end_file import EndFile
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
from holdfast.journal.write_steps import Step, leave_out_given_up, plan

ROOM_RETRY_SECONDS: Final = 0.5
"""How often it is tried again whether there is room."""

logger = logging.getLogger("holdfast.journal")


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
        """
        Write for this journal; without `waits_for_room` a full disk is a failure.

        Of a failure without it nothing is logged: whoever writes that way says what failed.
        """
        self._journal = journal
        self._disk = journal.disk
        self._settings = journal.settings
        self._ballot_file = journal.ballot_file
        self._notify = notify
        self._monotonic = (clock or SystemClock()).monotonic
        self._queue: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._claim = StandingClaim(journal.ballot_file)
        self._end = EndFile(journal, self._claim)
        self._waits_for_room = waits_for_room
        self._steps: deque[Step] = deque()
        """What is to be done; empty between turns, unless it waits for room."""
        self._retry_at = 0.0
        self._floor_time = 0.0
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
        self._end.close()

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
        plan(jobs, steps)
        if was_waiting and not leave_out_given_up(steps) and self._monotonic() < self._retry_at:
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
            truncate(self._journal, self._end, self._claim, job.cut)
            return
        self._perform_other(job)
        job.is_done = True
        self._notify(WriteResult(self._journal.durable_index, [job]))

    def _wait_for_room(self, error: NoRoomError) -> None:
        journal = self._journal
        self._retry_at = self._monotonic() + ROOM_RETRY_SECONDS
        if not journal.is_out_of_room:
            journal.is_out_of_room = True
            text = "the disk is full, nothing is stored until there is room in %s: %s"
            logger.error(text, journal.directory, error)

    def _note_room(self) -> None:
        """Say that there is room again, once nothing waits for it any more."""
        if self._journal.is_out_of_room and not self._steps:
            self._journal.is_out_of_room = False
            logger.warning("the disk has room again: writing goes on")

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
            self._end.begin(segment)
        file = self._end.of(segment)
        if run.bytes > RUN_BYTES_MAX:
            self._write_large(file, run)
        else:
            self._put(file, run)
        self.sync_count += 1
        self.bytes_written += run.bytes
        self._journal.tail.durable_index = run.last_index
        self._journal.tail.durable_chain = run.last_chain
        if self._claim.value is not None:
            self._claim.settle(run)
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

    def _perform_other(self, job: WriteJob) -> None:
        if isinstance(job, BallotJob):
            self._ballot_file.save(job.ballot)
        elif isinstance(job, TruncateJob):
            truncate(self._journal, self._end, self._claim, job)
        elif isinstance(job, RepairJob):
            repair(self._journal.disk, job)
        elif isinstance(job, ResetJob):
            reset(self._journal, self._end, self._claim, job)
        else:
            raise AssertionError(job)

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
        if self._waits_for_room:
            logger.critical("writing the journal failed, nothing more is stored: %s", error)
