"""
Tests of replication/driver.py: the order of persisting and sending, and what is given out.

One driver over a journal on a simulated disk, a writer that waits until it is told to write, and
links that only note what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import (
    BallotLostError,
    CorruptEntryError,
    FormatLevelError,
    JournalFailedError,
    NotLeaderError,
)
from holdfast.journal.ballot import Ballot
from holdfast.journal.damage import Damage
from holdfast.journal.jobs import BallotJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.replication.driver import Driver
from holdfast.replication.formation import Refusal
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    Hello,
    PreVoteRequest,
    PreVoteResponse,
    RepairRequest,
    RepairResponse,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.settings import ReplicationSettings
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_group import SeededRandomness

NAMED = Membership(tuple(Member(name, f"{name}:1") for name in "abc"))


class Desk:
    """One driver and what surrounds it."""

    def __init__(
        self,
        bootstrap: Membership = NAMED,
        disk: SimulatedDisk | None = None,
        settings: JournalSettings | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk(1)
        self.now = 10.0
        self.sent = []
        self.addresses = {}
        self.dropped = []
        self.fenced = []
        self.jobs = []
        self.journal = Journal.open(
            Path("/data"),
            self.disk,
            settings or JournalSettings(segment_bytes=16384),
            resolve_unknown_tail=not bootstrap.members,
        )
        self.results = []
        self.writer = JournalWriter(self.journal, self.results.append)
        self.driver = Driver(
            settings=ReplicationSettings(),
            name="a",
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self,
            links=self,
            randomness=SeededRandomness(1),
            bootstrap=bootstrap,
            on_fenced=self.fenced.append,
        )
        self.driver.start(self.now)
        self.turn()

    def submit(self, job):
        self.jobs.append(job)

    def send(self, peer, messages):
        self.sent.extend((peer, message) for message in messages)

    def drop(self, peer):
        self.dropped.append(peer)

    def set_peers(self, addresses):
        self.addresses = addresses

    def turn(self, after=0.0):
        self.now += after
        self.driver.turn(self.now)

    def store(self):
        """Let the disk do everything that was asked of it, then have a turn."""
        while self.jobs:
            jobs, self.jobs = self.jobs, []
            self.writer.turn(jobs)
            for result in self.results:
                self.driver.stored(result)
            self.results.clear()
            self.turn()

    def take_sent(self, kind=object):
        sent, self.sent = self.sent, []
        return [message for _, message in sent if isinstance(message, kind)]

    def link(self, name, **fields):
        hello = replace(Hello(name, name.encode().hex().ljust(32, "0"), "", 0, "", "1"), **fields)
        self.driver.link_up(name, hello)
        return hello

    def form(self):
        for name in "bc":
            self.link(name)
        self.turn()
        self.store()
        for name in "bc":
            self.link(name, cluster_id=self.driver.status().cluster_id)
        self.take_sent()
        return self

    def lead(self):
        self.form()
        self.turn(after=3)
        term = self.driver.term + 1
        self.driver.receive("b", PreVoteResponse(term, granted=True))
        self.turn()
        self.store()
        self.driver.receive("b", VoteResponse(term, granted=True))
        self.turn()
        self.store()
        for name in "bc":
            self.answer(name)
        self.turn()
        self.driver.take_committed(1 << 20)
        self.take_sent()
        return self

    def answer(self, name):
        journal = self.journal
        self.driver.receive(
            name,
            AppendResponse(self.driver.term, journal.last_index, journal.last_chain, self.now),
        )


def alone():
    desk = Desk(Membership(()))
    desk.store()
    return desk


def test_a_single_node_leads_at_once() -> None:
    """Formed, elected and serving, by the same code and with every word on disk."""
    desk = alone()

    assert "leader" == desk.driver.role
    while desk.driver.take_committed(1 << 20):
        pass
    assert desk.driver.is_serving
    assert desk.driver.may_dispatch(desk.now + 1e6)


def test_a_restarted_node_knows_who_it_is() -> None:
    """Identity, cluster and term come from the disk; a term is never used twice."""
    first = alone()
    before = first.driver.status()
    first.disk.locks.clear()

    again = Desk(Membership(()), first.disk)
    again.store()
    after = again.driver.status()

    assert (before.node_id, before.cluster_id) == (after.node_id, after.cluster_id)
    assert after.term > before.term


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


def test_messages_of_an_older_generation_count_for_nothing() -> None:
    """A link to a node that was left behind may exist for a moment; what it says does not."""
    desk = Desk().form()
    state = desk.driver._state
    state.generation = 2
    desk.link("b", cluster_id=state.cluster_id, generation=1)

    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.turn()

    assert [] == desk.take_sent(VoteResponse)


def test_a_newer_generation_fences_this_node() -> None:
    """It is told once why, follows nobody and proposes nothing."""
    desk = Desk().lead()

    cluster_id = desk.driver.status().cluster_id
    hello = desk.link("b", cluster_id=cluster_id, generation=5, kept=("bb" * 16,))
    desk.driver.receive("b", hello)
    desk.turn()

    assert "generation 5" in desk.driver.fenced_reason
    with pytest.raises(NotLeaderError):
        desk.driver.propose([b"x"], 1, now=desk.now, wall_microseconds=0)
    assert [] == desk.fenced, "what shut it out is not on disk"
    desk.store()
    assert 1 == len(desk.fenced)


@pytest.mark.parametrize("is_refused", [False, True], ids=["told", "refused"])
def test_a_node_that_was_shut_out_knows_that_when_it_is_started_again(is_refused: bool) -> None:
    """
    Others of before may be started again with it, while those that go on are down: together they
    were a majority once. Whoever promotes it after all begins a later generation.
    """
    first = Desk().form()
    if is_refused:
        refusal = Refusal("generation 5 rules", is_fenced=True, generation=5)
        first.driver.refused("b", refusal)
    else:
        cluster_id = first.driver.status().cluster_id
        hello = first.link("b", cluster_id=cluster_id, generation=5, kept=("bb" * 16,))
        first.driver.receive("b", hello)
    first.turn()
    first.store()
    assert first.fenced
    first.disk.locks.clear()

    again = Desk(disk=first.disk)
    for name in "bc":
        again.link(name, cluster_id=again.driver.status().cluster_id)
    again.turn(after=60)
    again.store()

    assert [] == again.take_sent(PreVoteRequest)
    assert again.driver.status().is_cut_short
    again.driver.promote_force()
    again.turn()
    again.store()
    assert (6, True) == (again.driver.generation, again.driver.is_leader)


def test_who_was_shut_out_before_it_had_any_members_in_its_log_says_so(caplog) -> None:
    """A member that was still being filled: else it would seem to wait for a cluster to form."""
    first = Desk()
    ballot = first.journal.ballot_file.current
    shut_out = replace(ballot, cluster_id=bytes(16), generation=1, is_shut_out=True)
    first.journal.ballot_file.save(shut_out)
    first.disk.locks.clear()

    again = Desk(disk=first.disk)

    assert again.driver.status().members == ()
    assert again.driver.status().is_cut_short
    assert "it was shut out, or ended as an older copy" in caplog.text


def test_it_says_from_the_first_moment_that_it_was_shut_out(monkeypatch) -> None:
    """A link may be made before the first turn; as a new member it would be taken in, and cut."""
    first = Desk().form()
    first.driver.refused("b", Refusal("generation 5 rules", is_fenced=True, generation=5))
    first.turn()
    first.store()
    first.disk.locks.clear()

    monkeypatch.setattr(Desk, "turn", lambda *_: None)
    hello = Desk(disk=first.disk).driver.hello

    assert (True, 5) == (hello.shut_out, hello.generation)
    assert hello.voters and hello.members


def test_a_new_generation_is_told_when_it_is_durable() -> None:
    """Who hears of it ends for good, and a promotion that is cut short has never been."""
    desk = Desk().form()

    desk.driver.promote_force()
    desk.turn()
    early = desk.driver.hello.generation
    desk.store()

    assert (0, 1) == (early, desk.driver.hello.generation)


def test_a_generation_that_was_joined_is_told_when_it_is_durable() -> None:
    """As its ballot is stored and not before: whoever hears of it relies on it."""
    desk = Desk().form()
    desk.store()
    state = desk.driver._state
    hello = desk.link("b", cluster_id=state.cluster_id, generation=1, kept=(state.node_id,))
    desk.driver.receive("b", hello)
    desk.turn()
    desk.turn()
    early = desk.driver.hello.generation

    desk.store()

    assert (0, 1) == (early, desk.driver.hello.generation)


def test_only_a_fencing_refusal_fences() -> None:
    """A refusal that may pass is only logged."""
    desk = Desk().form()

    desk.driver.refused("b", Refusal("not yet known"))
    assert [] == desk.fenced
    desk.driver.refused("b", Refusal("removed", is_fenced=True))
    assert 1 == len(desk.fenced)


def test_the_others_hear_when_we_belong_somewhere() -> None:
    """A node that formed a cluster renews its hello on every link."""
    desk = Desk()
    for name in "bc":
        desk.link(name)
    desk.turn()
    desk.store()

    hellos = desk.take_sent(Hello)

    assert 2 == len(hellos)
    assert {desk.driver.status().cluster_id} == {hello.cluster_id for hello in hellos}
    assert {"b": "b:1", "c": "c:1"} == desk.addresses


def test_members_tell_each_other_of_the_levels_of_the_format() -> None:
    """What all know is known once all have told it; what our log has reached they hear at once."""
    desk = Desk().form()
    desk.driver.hello = replace(desk.driver.hello, metadata={"format": "2", "stomp": "x"})
    assert desk.driver.format_level_of_all == 1
    for name in "bc":
        desk.link(name, cluster_id=desk.driver.status().cluster_id, metadata={"format": "2"})
    desk.turn()
    assert desk.driver.format_level_of_all == 2
    desk.driver.tell_format_level(2)
    said = [hello.metadata for hello in desk.take_sent(Hello)]
    assert said == [{"format": "2", "stomp": "x", "format-reached": "2"}] * 2


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_member_ahead_of_what_is_known_ends_this_node(is_linked: bool) -> None:
    """Whether it says so as it is linked or later: its log could not be read here."""
    desk = Desk().form()
    own, metadata = desk.driver.status().cluster_id, {"format": "3", "format-reached": "2"}
    hello = desk.link("b", cluster_id=own, metadata={} if is_linked else metadata)
    if is_linked:
        desk.turn()
        desk.driver.receive("b", replace(hello, metadata=metadata))
    with pytest.raises(FormatLevelError, match="the log of b has reached level 2"):
        desk.turn()


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


def test_what_came_before_a_link_closed_is_heard_first() -> None:
    """The last words of a process count; what it does not say any more does not."""
    desk = Desk().form()
    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.driver.link_down("b", closed=True)
    desk.driver.receive("b", VoteRequest(19, 9, 9))

    desk.turn()

    assert 9 == desk.driver.term
    assert ["c"] == [view.name for view in desk.driver.status().members if view.connected][1:]


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


def test_a_term_in_the_log_is_never_forgotten() -> None:
    """Even if the ballot is older than the log, the term goes on from the higher of the two."""
    desk = alone()
    disk, term = desk.disk, desk.driver.term
    ballot = desk.journal.ballot_file.current
    desk.journal.ballot_file.save(Ballot(node_id=ballot.node_id, cluster_id=ballot.cluster_id))
    disk.locks.clear()

    again = Desk(Membership(()), disk)

    assert again.driver.term >= term


def test_the_edition_is_told_once_it_is_durable() -> None:
    """In the hello of the next link, and in a message before the vote that raised it."""
    desk = Desk()
    for name in "bc":
        desk.link(name, edition=0)
    desk.turn()
    desk.store()
    own = desk.driver.hello.node_id
    before = desk.driver.hello.edition
    assert before == desk.journal.ballot_file.current.edition
    desk.take_sent()
    for name in "bc":
        cluster = desk.driver.status().cluster_id
        desk.link(name, cluster_id=cluster, edition=0)
    desk.turn()
    desk.take_sent()

    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.turn()
    assert before == desk.driver.hello.edition
    desk.store()

    news = Editions({own: before + 1})
    assert [news, news, VoteResponse(9, granted=True)] == desk.take_sent()
    assert (before + 1, before + 1) == (desk.driver.hello.edition, desk.driver.hello.seen[own])


def test_what_others_show_is_noted_with_the_next_ballot() -> None:
    """And is known again after a restart, without a write of its own."""
    desk = Desk()
    hello = desk.link("b", edition=41)
    desk.turn()
    assert () == desk.journal.ballot_file.current.seen
    desk.link("c", edition=2)
    desk.turn()
    desk.store()
    desk.disk.locks.clear()

    again = Desk(disk=desk.disk)

    assert 41 == again.driver.hello.seen[hello.node_id]


@pytest.mark.parametrize("is_hello", [True, False])
@pytest.mark.promise("F23")
def test_an_older_copy_of_itself_ends(is_hello) -> None:
    """Whoever tells it, as the link is made or later; nothing is sent any more."""
    desk = Desk().form()
    own = desk.driver.hello
    newer = {own.node_id: own.edition + 1}
    if is_hello:
        desk.link("b", cluster_id=own.cluster_id, edition=0, seen=newer)
    else:
        desk.driver.receive("b", Editions(newer))
    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.turn()
    desk.store()

    assert ["an older copy of itself" in str(error) for error in desk.fenced] == [True]
    assert [] == [it for it in desk.take_sent(VoteResponse) if it.granted]


@pytest.mark.promise("F23")
def test_a_ballot_older_than_the_log_is_not_believed() -> None:
    """The ballot alone was replaced; alone there is nobody whose votes could be contradicted."""
    for bootstrap, is_refused in ((NAMED, True), (Membership(()), False)):
        desk = alone()
        old = desk.journal.ballot_file.current
        desk.journal.ballot_file.save(replace(old, term=desk.journal.last_term - 1))
        desk.disk.locks.clear()

        if is_refused:
            with pytest.raises(BallotLostError, match="an older copy of itself"):
                Desk(bootstrap, desk.disk)
        else:
            Desk(bootstrap, desk.disk)


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


def test_a_new_identity_on_an_old_log_knows_its_term() -> None:
    """The ballot was lost, the log was not: the new ballot is not older than the log."""
    desk = alone()
    desk.disk.locks.clear()
    desk.disk.unlink(Path("/data/ballot"))

    again = Desk(disk=desk.disk)

    assert again.journal.last_term == again.journal.ballot_file.current.term


def test_editions_are_told_again_now_and_then() -> None:
    """A message may be lost although its link stays; doubt must not last for ever."""
    desk = Desk()
    desk.link("b", edition=0)
    desk.turn()
    assert 1 == len(desk.take_sent(Editions))
    desk.turn()
    assert [] == desk.take_sent(Editions)

    desk.turn(after=1.0)

    assert 1 == len(desk.take_sent(Editions))


def test_a_vote_that_waits_does_not_leave_an_older_copy() -> None:
    """It was given before the news came; the ballot is stored, the vote stays here."""
    desk = Desk().form()
    own = desk.driver.hello
    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.turn()
    assert isinstance(desk.jobs[-1], BallotJob)

    desk.driver.receive("c", Editions({own.node_id: own.edition + 1}))
    desk.turn()
    desk.store()

    assert [] == desk.take_sent(VoteResponse)


def test_a_disk_that_hangs_is_told_at_once() -> None:
    """Also while a ballot waits for that very disk; and that it answers again."""
    desk = Desk().form()
    desk.driver.receive("b", VoteRequest(9, 100, 9))
    desk.turn()
    assert [] == desk.take_sent()

    for _ in range(14):
        desk.turn(after=0.25)
    hellos = desk.take_sent(Hello)
    assert [True, True] == [hello.disk_hangs for hello in hellos]
    status = desk.driver.status()
    assert (True, 3.5) == (status.disk_hangs, status.disk_wait_seconds)
    assert {"a"} == {view.name for view in status.members if view.disk_hangs}

    desk.store()
    assert [False, False] == [hello.disk_hangs for hello in desk.take_sent(Hello)]
    assert not desk.driver.status().disk_hangs


def test_a_hello_that_waited_says_nothing_older_than_what_went_before() -> None:
    """Editions, a hanging disk and the end of a process are told at once; it must not undo them."""
    desk = Desk()
    for name in "bc":
        desk.link(name, edition=0)
    desk.turn()
    desk.take_sent()
    desk.driver.end()
    desk.store()
    told = desk.take_sent((Editions, Hello))
    own = desk.driver.hello.node_id
    editions = [it.editions.get(own, -1) if isinstance(it, Editions) else it.edition for it in told]
    ends = [it.has_ended for it in told if isinstance(it, Hello)]

    assert len(editions) > 2
    assert sorted(editions) == editions
    assert all(ends)


def test_a_reply_that_waited_claims_nothing_that_is_known_to_be_damaged_since() -> None:
    """A ballot may wait for its disk for seconds; meanwhile the scrubber goes on."""
    desk = Desk().lead()
    journal = desk.journal
    last, chain = journal.last_index, journal.last_chain
    term = desk.driver.term
    desk.driver.receive("b", AppendRequest(term + 1, last, term, chain, last, last, desk.now, []))
    desk.turn()
    assert [] == desk.take_sent(AppendResponse)
    assert isinstance(desk.jobs[-1], BallotJob)

    desk.driver.report_damage(last)
    desk.store()

    assert [last - 1] == [reply.match_index for reply in desk.take_sent(AppendResponse)]


def test_what_waits_for_a_ballot_is_bounded() -> None:
    """A disk may hang for hours, and every heartbeat is answered."""
    desk = Desk().form()
    desk.driver.receive("b", VoteRequest(9, 100, 9))
    desk.turn()
    for _ in range(3000):
        desk.driver.receive("c", PreVoteRequest(10, 100, 9))
    desk.turn()

    assert 1000 == len(desk.driver._held)


def test_a_peer_that_was_told_otherwise_is_warned_of_once(caplog) -> None:
    """Of what costs time only; every link that is made again says the same."""
    desk = Desk()
    shared = {**desk.driver.hello.shared, "heartbeat_seconds": 0.2}
    hello = Hello("b", "bb" * 16, shared=shared)
    for _ in range(3):
        desk.driver.link_up("b", hello)
        desk.turn()
        desk.driver.link_down("b", closed=True)
        desk.turn()

    told = [record.message for record in caplog.records if "heartbeat_seconds" in record.message]
    assert 1 == len(told)
    assert "heartbeat_seconds is 0.1 on a and 0.2 on b" in told[0]


def test_a_promotion_that_was_cut_short_is_told(caplog) -> None:
    """Its generation is on disk, its members are not: the node stands for nothing, and says why."""
    first = Desk().form()
    first.turn(after=5)
    first.driver.promote_force()
    ballot_only = first.jobs
    first.turn()
    first.writer.turn(ballot_only)
    first.disk.locks.clear()

    again = Desk(disk=first.disk)
    again.take_sent()
    again.turn(after=60)
    again.store()

    assert again.driver.status().is_cut_short
    assert (1, False) == (again.driver.generation, again.driver.is_leader)
    assert (
        "a promotion was cut short here. It waits for whoever leads that generation" in caplog.text
    )
    assert () == again.driver.hello.kept
