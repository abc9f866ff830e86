"""
Tests of journal/write_steps.py: which jobs share a sync, and what is left out.
"""

from __future__ import annotations

from collections import deque

import pytest

from holdfast.journal.ballot import Ballot
from holdfast.journal.jobs import AppendJob, BallotJob, ResetJob, TruncateJob
from holdfast.journal.write_steps import Step, leave_out_given_up, plan
from trials.simulation.local_journal import NODE_ID, LocalJournal


@pytest.fixture
def log() -> LocalJournal:
    return LocalJournal()


def ballot_job() -> BallotJob:
    return BallotJob(Ballot(node_id=NODE_ID))


def steps_of(*jobs: object) -> deque[Step]:
    steps: deque[Step] = deque()
    plan(list(jobs), steps)  # type: ignore[arg-type]
    return steps


def test_what_follows_on_each_other_shares_a_run(log: LocalJournal) -> None:
    """One sync for all, and all are done with it."""
    jobs = [log.stage(b"x") for _ in range(3)]

    (step,) = steps_of(*jobs)

    assert step.run is not None
    assert (3, jobs, None) == (step.run.last_index, step.jobs, step.other)


def test_a_ballot_between_appends_parts_their_runs(log: LocalJournal) -> None:
    """Jobs keep their order: a vote is kept before what came after it."""
    first, vote, second = log.stage(b"x"), ballot_job(), log.stage(b"y")

    steps = steps_of(first, vote, second)

    assert [[first], [vote], [second]] == [step.jobs for step in steps]
    assert [None, vote, None] == [step.other for step in steps]


def test_entries_of_two_segments_share_no_run(log: LocalJournal) -> None:
    """A job is done with the segment that its own entry stands in."""
    first, second = log.stage(b"x" * 9_000), log.stage(b"y" * 9_000)

    steps = steps_of(first, second)

    assert [[first], [second]] == [step.jobs for step in steps]


def test_what_was_left_by_recovery_is_cut_before_the_first_entry(log: LocalJournal) -> None:
    """The cut is a step of its own, of the same job."""
    job = log.stage(b"x")
    assert isinstance(job, AppendJob)
    job.cut = TruncateJob(0, b"", log.journal.tail.segments.last, 0, 0, [])

    cut, write = steps_of(job)

    assert (job, None) == (cut.other, write.other)
    assert [job] == write.jobs


def test_before_a_log_that_is_begun_anew_only_votes_are_kept(log: LocalJournal) -> None:
    """What was to be written there goes anyway; whoever waits for it is told that it is done."""
    append, vote = log.stage(b"x"), ballot_job()
    reset, after = ResetJob(9, b"", []), ballot_job()
    steps = steps_of(append, vote, reset, after)

    assert leave_out_given_up(steps)

    assert [vote, reset, after] == [step.other for step in steps]
    assert [True, False, False] == [append.is_done, vote.is_done, reset.is_done]
    assert not leave_out_given_up(steps)


def test_a_cut_that_removes_files_is_kept_before_a_new_beginning(log: LocalJournal) -> None:
    """Files must not stay in the directory in which the new log is begun; bytes may."""
    log.append(b"x")
    segment = log.journal.tail.segments.last
    bytes_only = TruncateJob(0, b"", segment, 100, 200, [])
    files = TruncateJob(0, b"", segment, 100, 200, [segment])
    steps = steps_of(bytes_only, files, ResetJob(9, b"", []))

    assert leave_out_given_up(steps)

    assert files is steps[0].other
    assert (100, True, False) == (files.end, bytes_only.is_done, files.is_done)
