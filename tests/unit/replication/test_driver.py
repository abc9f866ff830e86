"""
Tests of replication/driver.py: the order of persisting and sending, and what is given out.

One driver over a journal on a simulated disk, a writer that waits until it is told to write, and
links that only note what was sent.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from desk import Desk, alone

from holdfast.errors import (
    CorruptEntryError,
    JournalFailedError,
)
from holdfast.journal.damage import Damage
from holdfast.journal.jobs import BallotJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.replication.formation import Refusal
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import (
    AppendRequest,
    Hello,
    RepairRequest,
    RepairResponse,
    VoteRequest,
    VoteResponse,
)


def test_a_single_node_leads_at_once() -> None:
    """Formed, elected and serving, by the same code and with every word on disk."""
    desk = alone()

    assert "leader" == desk.driver.role
    while desk.driver.take_committed(1 << 20):
        pass
    assert desk.driver.is_serving
    assert desk.driver.may_dispatch(desk.now + 1e6)


def test_a_vote_waits_for_the_ballot() -> None:
    """Nothing leaves while the ballot is on its way to the disk; then all of it, in order."""
    desk = Desk().form()
    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.turn()
    assert [] == desk.sent
    assert isinstance(desk.jobs[-1], BallotJob)

    desk.store()

    assert [VoteResponse(9, granted=True)] == desk.take_sent(VoteResponse)
    assert (9, "b") == (
        desk.journal.ballot_file.current.term,
        desk.journal.ballot_file.current.voted_for,
    )


def test_requests_leave_before_the_leaders_own_write() -> None:
    """What was proposed is submitted, then sent in the same turn, and not yet committed."""
    desk = Desk().lead()

    entry = desk.driver.propose([b"x"], 1, now=desk.now, wall_microseconds=0)
    desk.turn()

    assert [[entry], [entry]] == [it.entries for it in desk.take_sent(AppendRequest)]
    assert desk.jobs and entry.index > desk.driver.commit_index
    assert len(entry.raw) == desk.driver.uncommitted_bytes


def test_committed_entries_are_given_out_once_and_in_order() -> None:
    """Each as soon as it is committed, not before."""
    desk = Desk().lead()
    made = [
        desk.driver.propose([b"%d" % n], 1, now=desk.now, wall_microseconds=0) for n in range(3)
    ]
    desk.turn()
    assert [] == desk.driver.take_committed(1 << 20)

    desk.answer("b")
    desk.store()
    desk.turn()

    assert made[:1] == desk.driver.take_committed(1)
    assert made[1:] == desk.driver.take_committed(1 << 20)
    assert [] == desk.driver.take_committed(1 << 20)
    assert made[-1].index == desk.driver.taken_index == desk.driver.commit_index


def test_what_is_still_to_be_sent_or_given_out_stays_in_memory() -> None:
    """To read a large entry back from the disk would keep the loop from everybody else."""
    settings = JournalSettings(segment_bytes=16384, tail_cache_bytes=1000)
    desk = Desk(settings=settings).lead()
    held = desk.journal.memory.tail

    made = [
        desk.driver.propose([b"x" * 2000], 1, now=desk.now, wall_microseconds=0).index
        for _ in range(3)
    ]
    desk.turn()
    desk.answer("b")
    desk.store()
    desk.turn()
    assert made[-1] == desk.driver.commit_index == desk.journal.stored_index
    assert set(made) <= set(held)

    assert made[0] == desk.driver.take_committed(1)[0].index
    desk.turn()
    assert set(made[1:]) <= set(held)
    assert made[0] not in held

    desk.driver.take_committed(1 << 20)
    desk.turn()
    assert not held


def test_a_leader_serves_when_its_term_is_given_out() -> None:
    """And dispatches while a quorum answered lately, by a clock that is read just before."""
    desk = Desk().lead()

    assert desk.driver.is_serving and desk.driver.is_leader
    assert desk.driver.may_dispatch(desk.now)
    assert not desk.driver.may_dispatch(desk.now + 0.9)
    assert desk.now < desk.driver.next_deadline() <= desk.now + 0.1


def test_after_a_failed_write_nothing_is_sent() -> None:
    """The failure is final: proposing and every later turn raise it."""
    desk = Desk().lead()
    failure = JournalFailedError("EIO")
    desk.driver.receive("b", VoteRequest(99, 99, 99, is_transfer=True))

    desk.driver.stored(WriteResult(0, [], 0.0, failure))

    with pytest.raises(JournalFailedError):
        desk.turn()
    with pytest.raises(JournalFailedError):
        desk.driver.propose([b"x"], 1, now=desk.now, wall_microseconds=0)
    assert [] == desk.sent


def test_only_a_fencing_refusal_fences() -> None:
    """A refusal that may pass is only logged."""
    desk = Desk().form()

    desk.driver.refused("b", Refusal("not yet known"))
    assert [] == desk.fenced
    desk.driver.refused("b", Refusal("removed", is_fenced=True))
    assert 1 == len(desk.fenced)


def test_members_tell_each_other_of_the_levels_of_the_format() -> None:
    """What all know is known once all have told it; what our log has reached they hear at once."""
    desk = Desk().form()
    desk.driver._outgoing.hello = replace(desk.driver.hello, metadata={"format": "2", "stomp": "x"})
    assert desk.driver.format_level_of_all == 1
    for name in "bc":
        desk.link(name, cluster_id=desk.driver.status().cluster_id, metadata={"format": "2"})
    desk.turn()
    assert desk.driver.format_level_of_all == 2
    desk.driver.tell_format_level(2)
    said = [hello.metadata for hello in desk.take_sent(Hello)]
    assert said == [{"format": "2", "stomp": "x", "format-reached": "2"}] * 2


@pytest.mark.parametrize("level", ["2", "999999999", "9" * 5_000, "-1", "two"])
def test_no_word_of_a_member_of_levels_takes_the_lead_away(level: str) -> None:
    """A leader has all that is committed; what it does not find there was not reached."""
    desk = Desk().lead()
    said = {"format": level, "format-reached": level}
    desk.link("b", cluster_id=desk.driver.status().cluster_id, metadata=said)
    desk.turn()
    assert (desk.driver.is_leader, desk.driver.format_level_of_all) == (True, 1)


def test_a_repair_is_asked_for_and_answered() -> None:
    """Damage found by a read is asked from a peer; what a peer asks for is sent."""
    desk = Desk().lead()
    desk.driver.report_damage(1)
    desk.driver.receive("b", RepairRequest(2))
    desk.turn()

    assert [RepairResponse(2, desk.journal.entry(2))] == desk.take_sent(RepairResponse)
    desk.turn(after=desk.driver.next_deadline() - desk.now)
    assert (1,) == desk.driver.status().damaged


def test_what_the_journal_finds_damaged_is_asked_from_peers() -> None:
    """Also where the one who read goes on without it, as one that looks at a checkpoint does."""
    desk = Desk().lead()
    desk.journal.report_damage(Damage("x.segment", 10, 1, "rot"))

    assert (1,) == desk.driver.status().damaged


def test_a_damaged_entry_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as damage and raised; nothing is skipped."""
    desk = Desk().lead()
    desk.driver.propose([b"x"], 1, now=desk.now, wall_microseconds=0)
    desk.answer("b")
    desk.turn()
    desk.store()
    taken = desk.driver.taken_index

    def rotten(*_):
        raise CorruptEntryError("rot")

    monkeypatch.setattr(Journal, "entries", rotten)
    with pytest.raises(CorruptEntryError):
        desk.driver.take_committed(1 << 20)

    assert (taken, (taken + 1,)) == (desk.driver.taken_index, desk.driver.status().damaged)


def test_operators_requests_reach_the_rules() -> None:
    """Each gives the index to wait for, or the reason why not."""
    desk = Desk().lead()
    driver = desk.driver

    assert "b" == driver.transfer("b")
    driver._state.transfer = None
    index = driver.repropose_config()
    assert index == driver.config_index == desk.journal.last_index
    assert driver.reclaim_limit == driver.commit_index
    for number, change in enumerate(
        (
            lambda: driver.add_member(Member("d", "d:1")),
            lambda: driver.remove_member("c"),
        )
    ):
        desk.turn()
        desk.store()
        desk.answer("b")
        desk.turn()
        index = change()
        assert desk.journal.last_index == index, number


def test_the_ballot_is_written_before_entries_of_its_term() -> None:
    """So a ballot of a lower term than the log is an older one; the founding entry goes first."""
    desk = Desk()
    for name in "bc":
        desk.link(name)
    desk.turn()
    assert ["AppendJob", "BallotJob"] == [type(job).__name__ for job in desk.jobs]
    desk.store()

    desk = alone()
    desk.disk.locks.clear()
    desk = Desk(Membership(()), desk.disk)
    desk.store()
    desk.turn()
    assert desk.journal.last_term <= desk.journal.ballot_file.current.term
