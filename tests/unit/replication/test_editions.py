"""Tests of replication/editions.py: who is on an older copy of its disk, and who notices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.replication import editions
from holdfast.replication.messages import Editions, Hello

A, B, C = ("aa" * 16, "bb" * 16, "cc" * 16)


@pytest.mark.promise("F23")
def test_who_is_told_of_a_newer_edition_of_itself_ends(member) -> None:
    """The sentence says who knew better, and what to do."""
    bench = member()
    state = bench.state
    state.editions.rise(7)
    hello = replace(state.connected["b"], edition=3, seen={state.node_id: 8})

    reason = editions.heed_hello(state, "b", hello)

    assert "b knows edition 8 of this node's ballot, here is 7" in reason
    assert "start with an empty one" in reason


@pytest.mark.promise("F23")
def test_an_ordinary_restart_is_not_an_older_copy(member) -> None:
    """Others may know exactly what the disk holds, or less; a stranger's edition is not ours."""
    bench = member()
    state = bench.state
    state.editions.rise(7)

    for seen in ({state.node_id: 7}, {state.node_id: 2}, {C: 99}, {}):
        hello = replace(state.connected["b"], seen=seen)
        assert "" == editions.heed_hello(state, "b", hello)


def test_news_of_a_third_member_reach_the_older_copy(member) -> None:
    """What came from somebody else while the link was up is told to whom it is about."""
    bench = member()
    state = bench.state
    for peer in "bc":
        editions.heed_hello(state, peer, bench.link(peer, edition=5))
    editions.take_news(state)
    b = state.connected["b"].node_id

    assert "" == editions.heed(state, "c", Editions({b: 9}))

    assert [("b", Editions({b: 9}))] == editions.take_news(state)


def test_nothing_is_told_twice(member) -> None:
    """A peer hears what it does not know: not what it said itself, nor what it was told."""
    bench = member()
    state = bench.state
    b = bench.link("b", edition=5, seen={C: 4})
    editions.heed_hello(state, "b", b)
    state.connected.pop("c")
    state.editions.rise(1)

    assert [("b", Editions({state.node_id: 1}))] == editions.take_news(state)
    assert [] == editions.take_news(state)

    editions.heed_hello(state, "b", b)
    assert [("b", Editions({state.node_id: 1}))] == editions.take_news(state)


def test_a_peer_that_knows_our_edition_from_others_is_told_by_us(member) -> None:
    """
    It doubts us until we show it. If what we said was lost, and it tells what it knows each time
    before we repeat ourselves, it would doubt us for ever, and two could not elect each other.
    """
    bench = member()
    state = bench.state
    b = bench.link("b", edition=5, seen={state.node_id: 8})
    state.editions.rise(8)
    editions.heed_hello(state, "b", b)
    assert [("b", Editions({state.node_id: 8}))] == editions.take_news(state)

    state.editions.tell_again()
    editions.heed(state, "b", Editions({state.node_id: 8}))

    assert [("b", Editions({state.node_id: 8, b.node_id: 5}))] == editions.take_news(state)


def test_a_node_of_an_earlier_version_is_told_nothing(member) -> None:
    """It would not understand the message, and give up the link."""
    bench = member()

    assert [] == editions.take_news(bench.state)


def test_doubt_lasts_until_the_peer_shows_the_edition_itself(member) -> None:
    """News may overtake what the peer says itself, so it is not accused."""
    bench = member()
    state = bench.state
    b = bench.link("b", edition=5)
    assert not editions.is_doubted(state, "b")

    editions.heed(state, "c", Editions({b.node_id: 6}))
    assert editions.is_doubted(state, "b")
    editions.heed(state, "b", Editions({b.node_id: 6}))
    assert not editions.is_doubted(state, "b")
    editions.heed(state, "b", Editions({b.node_id: 2}))
    assert not editions.is_doubted(state, "b")
    assert not editions.is_doubted(state, "nobody")


def test_news_from_nobody_are_dropped(member) -> None:
    """A link that is gone says nothing any more."""
    bench = member()
    bench.state.connected.pop("b")

    assert "" == editions.heed(bench.state, "b", Editions({bench.state.node_id: 99}))
    assert 0 == bench.state.editions.own


def test_a_hello_says_edition_and_what_was_seen() -> None:
    """So that the first thing said on a link is enough."""
    hello = Hello("a", A)

    assert (-1, {}) == (hello.edition, hello.seen)
