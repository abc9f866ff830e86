"""
Does this node's own disk still answer? Judged by the writer's jobs, never by asking the disk.

A sync that fails ends the process. One that does not return tells nobody anything: the node goes on
to talk, and stores nothing. So somebody has to look at the clock.

Invariants:
    What is measured is the time without any progress: a long queue that moves is no hanging disk.
    Time in which this process itself stood still does not count.

The time is an argument; only the log lines leave.
"""

from __future__ import annotations

import logging
from collections import deque

from holdfast.errors import MembershipError
from holdfast.journal.jobs import WriteJob
from holdfast.replication import transfer
from holdfast.replication.state import NEVER, Role, State

logger = logging.getLogger("holdfast.replication")


class DiskWatch:
    """How long the writer has been without progress, and what follows from it."""

    __slots__ = (
        "_hand_over_at",
        "_jobs",
        "_pause_seconds",
        "_seen_at",
        "_since",
        "is_at_work",
        "seconds",
    )

    def __init__(self, pause_seconds: float) -> None:
        """Take a longer time than `pause_seconds` between two looks for a pause of the process."""
        self._pause_seconds = pause_seconds
        self._jobs: deque[WriteJob] = deque()
        """Those that were not done at the last look, in the order in which they will be."""
        self._since = 0.0
        self._seen_at = 0.0
        self._hand_over_at = NEVER
        self.is_at_work = False
        """Whether the writer had anything to do at the last look, or was given it since."""
        self.seconds = 0.0
        """Since the writer last got anything done, at the last look; 0 if it had nothing to do."""

    def submitted(self, job: WriteJob, now: float) -> None:
        """Note that the writer was given a job."""
        if not self._jobs:
            self._since = self._seen_at = now
            self.is_at_work = True
        self._jobs.append(job)

    def waited(self, now: float) -> float:
        """Look now, and give `seconds`."""
        pause = now - self._seen_at
        self._seen_at = now
        jobs = self._jobs
        if not jobs:
            return self.seconds
        if jobs[0].is_done:
            jobs.popleft()
            while jobs and jobs[0].is_done:
                jobs.popleft()
            self._since = now
            self.is_at_work = bool(jobs)
            self.seconds = 0.0
            return 0.0
        if pause > self._pause_seconds:
            self._since = min(self._since + pause, now)
        self.seconds = now - self._since
        return self.seconds

    def judge(self, state: State, *, is_backlog_full: bool, is_full: bool = False) -> bool:
        """
        Decide from `seconds` whether the disk hangs; tell whether that is news.

        One that is full gets nothing done either: what follows is the same, but not what is said.
        """
        settings = state.settings
        least = settings.election_seconds_min if is_backlog_full else settings.disk_hang_seconds
        is_hanging = self.seconds >= least or (state.is_disk_hanging and self.seconds > 0)
        if is_hanging is state.is_disk_hanging:
            return False
        state.is_disk_hanging = is_hanging
        self._hand_over_at = NEVER
        if is_hanging:
            logger.error(
                "the disk %s: it has got nothing done for %.1f s; until it does, this node"
                " stores nothing, does not vote and does not lead",
                "is full" if is_full else "hangs",
                self.seconds,
            )
        else:
            logger.warning("the disk answers again")
        return True

    def hand_over(self, state: State) -> None:
        """Let another lead whose disk answers; where nobody can, go on and try again later."""
        if state.role is not Role.LEADER or state.transfer is not None:
            return
        if state.now < self._hand_over_at:
            return
        is_first = self._hand_over_at == NEVER
        self._hand_over_at = state.now + state.settings.disk_hang_seconds
        try:
            target = transfer.transfer(state, None)
        except MembershipError as error:
            logger.log(logging.ERROR if is_first else logging.DEBUG, "no hand-over: %s", error)
        else:
            logger.warning("handing over to %s, because the disk here gets nothing done", target)
