"""
In which steps the writer does its jobs: what may share a sync does, all else stands alone.

Pure lists, so that what is written together is decided without a disk. What waits for room is a
line of the same steps.

Invariants:
    Jobs keep their order.
    A job is done with the last step that holds a part of it.
    What is left out, because the log is given up behind it, counts as done.

Owned by the writer's thread.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from holdfast.journal.jobs import (
    AppendJob,
    BallotJob,
    Piece,
    ResetJob,
    TruncateJob,
    WriteJob,
)


class Step(NamedTuple):
    """A run to be written, with the jobs that are done then, or one other job."""

    run: Piece | None
    jobs: list[WriteJob]

    @property
    def other(self) -> WriteJob | None:
        """The job, if it is no run."""
        return None if self.run is not None else self.jobs[0]


def plan(jobs: list[WriteJob], steps: deque[Step]) -> None:
    """Put the steps to these jobs behind those that are there: what may share a run does."""
    if len(jobs) == 1:
        job = jobs[0]
        if isinstance(job, AppendJob) and job.cut is None and len(job.pieces) == 1:
            steps.append(Step(job.pieces[0], [job]))  # Nothing to be joined.
            return
    run: Piece | None = None
    complete: list[WriteJob] = []
    for job in jobs:
        if isinstance(job, AppendJob):
            if job.cut is not None:  # only ever the first job
                steps.append(Step(None, [job]))
            for piece in job.pieces:
                if run is None:
                    run = piece
                elif not run.join(piece):
                    steps.append(Step(run, complete))
                    run, complete = piece, []
            complete.append(job)
            continue
        if run is not None:
            steps.append(Step(run, complete))
            run, complete = None, []
        steps.append(Step(None, [job]))
    if run is not None:
        steps.append(Step(run, complete))


def leave_out_given_up(steps: deque[Step]) -> bool:
    """
    Leave out what waits before the log is begun anew, but for votes; tell if that is so.

    Files go their way all the same: what an earlier beginning sets aside, and what a cut
    removes, must not stay in the directory in which the new log is begun.
    """
    planned = list(steps)
    resets = [place for place, it in enumerate(planned) if isinstance(it.other, ResetJob)]
    count = resets[-1] if resets else 0
    steps.clear()
    for place, step in enumerate(planned):
        job = step.other
        is_kept = place >= count or isinstance(job, BallotJob | ResetJob)
        if not is_kept and isinstance(job, TruncateJob) and job.removed:
            # Where it begins there may be no file: what was to be written there is left out.
            job.end = job.start
            is_kept = True
        if is_kept:
            steps.append(step)
        for left_out in () if is_kept else step.jobs:
            left_out.is_done = True
    return len(steps) < len(planned)
