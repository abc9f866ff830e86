"""Tests of replication/disk_watch.py: when a disk hangs, and what its node does then."""

from __future__ import annotations

import pytest

from holdfast.journal.jobs import WriteJob
from holdfast.replication import candidate, transfer
from holdfast.replication.disk_watch import DiskWatch


@pytest.fixture
def watch() -> DiskWatch:
    made = DiskWatch(0.5)
    made.waited(10.0)
    return made


def looks(watch: DiskWatch, start: float, end: float) -> float:
    """Look every 0.25 s; the last answer."""
    while start < end:
        start += 0.25
        seconds = watch.waited(start)
    return seconds


def test_time_is_counted_from_the_last_progress(watch) -> None:
    """A long queue that moves is no hanging disk; an idle disk is none either."""
    first, second = WriteJob(), WriteJob()
    assert 0.0 == looks(watch, 10.0, 13.0)
    watch.submitted(first, 13.0)
    watch.submitted(second, 14.0)
    assert 2.0 == looks(watch, 13.0, 15.0)

    first.is_done = True
    assert 0.0 == watch.waited(15.25)
    assert 1.0 == looks(watch, 15.25, 16.25)

    second.is_done = True
    assert 0.0 == looks(watch, 16.25, 18.0)


def test_a_queue_that_moves_is_no_hanging_disk(watch) -> None:
    """However long it is, and however far off the newest job's turn."""
    jobs = [WriteJob() for _ in range(40)]
    for job in jobs:
        watch.submitted(job, 10.0)
    waited = []
    for place, job in enumerate(jobs):
        job.is_done = True
        waited.append(watch.waited(10.25 + place / 4))

    assert {0.0} == set(waited)


def test_a_pause_of_the_process_is_not_the_disks(watch) -> None:
    """After SIGCONT the writer has had no chance yet to say that it was done long ago."""
    watch.submitted(WriteJob(), 10.0)
    watch.waited(10.25)

    assert 0.25 == watch.waited(20.0)
    assert 0.5 == watch.waited(20.25)


def test_it_hangs_after_some_election_timeouts(watch, leading) -> None:
    """And sooner where as much as may waits for it; it stays so until something is stored."""
    state = leading().state
    watch.seconds = 2.9
    assert not watch.judge(state, is_backlog_full=False)
    assert watch.judge(state, is_backlog_full=True)
    assert state.is_disk_hanging

    watch.seconds = 2.95
    assert not watch.judge(state, is_backlog_full=False)

    watch.seconds = 0.0
    assert watch.judge(state, is_backlog_full=False)
    assert not state.is_disk_hanging


def test_a_leader_hands_over_to_who_can_store(watch, leading, answered) -> None:
    """To the furthest whose own disk does not hang; if that fails, again after a while."""
    bench = leading()
    state = bench.state
    bench.link("b", disk_hangs=True)
    state.is_disk_hanging = True

    watch.hand_over(state)
    assert "c" == state.transfer.target

    state.transfer = None
    watch.hand_over(state)
    assert None is state.transfer

    state.now += state.settings.disk_hang_seconds
    watch.hand_over(state)
    assert None is not state.transfer


def test_where_nobody_can_take_over_the_leader_stays(watch, leading, caplog) -> None:
    """And says so once."""
    bench = leading()
    state = bench.state
    for name in "bc":
        bench.link(name, disk_hangs=True)
    state.is_disk_hanging = True

    for _ in range(3):
        watch.hand_over(state)
        state.now += state.settings.disk_hang_seconds

    assert None is state.transfer
    assert 1 == len([it for it in caplog.records if "no hand-over" in it.message])


def test_who_cannot_store_neither_stands_nor_takes_over(member) -> None:
    """It could not keep its own vote."""
    state = member().state
    state.is_disk_hanging = True

    assert not candidate.may_stand(state)
    candidate.stand(state)
    assert [] == state.outbox


def test_an_operator_is_told_that_the_target_cannot(leading) -> None:
    """A hand-over to a disk that hangs would only cost time."""
    bench = leading()
    bench.link("b", disk_hangs=True)

    assert "c" == transfer.transfer(bench.state, None)
