"""
Tests of replication/outgoing.py: what leaves a member, when, and what it says of itself.

Over a whole driver, whose writer waits until it is told to write: what must not be told before it
is durable is seen to wait.
"""

from __future__ import annotations

from desk import Desk

from holdfast.journal.jobs import BallotJob
from holdfast.replication.ballot_keeping import BallotKeeper
from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    Hello,
    PreVoteRequest,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.outgoing import Outgoing


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

    assert 1000 == len(desk.driver._outgoing.held)


def test_a_turn_without_news_asks_neither_ballot_nor_hello_nor_links(monkeypatch) -> None:
    """They are asked once something changed, and again until it may be said."""
    desk = Desk().form()
    desk.store()
    asked: list[str] = []
    for part, name in (
        (BallotKeeper, "take_changed"),
        (Outgoing, "renew_hello"),
        (LinkedMembers, "update"),
    ):
        original = getattr(part, name)

        def noted(*arguments, original=original, name=name):
            asked.append(name)
            return original(*arguments)

        monkeypatch.setattr(part, name, noted)
    desk.turn()
    assert [] == asked

    desk.driver.promote_force()
    desk.turn()
    once = ["take_changed", "renew_hello", "update"]
    assert once == asked
    assert 0 == desk.driver.hello.generation, "its ballot is not stored yet"
    desk.turn()
    assert once * 2 == asked

    desk.store()
    assert 1 == desk.driver.hello.generation
    asked.clear()
    desk.turn()
    assert [] == asked
