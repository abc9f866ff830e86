"""
Tests of replication/incoming.py: what counts of all that peers say, and in which order.

Over a whole driver: that a thing does not count is seen by what the member does not do.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from desk import Desk

from holdfast.errors import (
    FormatLevelError,
    NotLeaderError,
)
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.replication.messages import (
    AppendRequest,
    Editions,
    Hello,
    VoteRequest,
    VoteResponse,
)


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


AHEAD = {"format": "3", "format-reached": "2"}


@pytest.mark.parametrize("order", ["link, word, lead", "link, lead, word", "word, link, lead"])
def test_a_leader_ahead_of_what_is_known_ends_this_node(order: str) -> None:
    """Whenever it says so: its log could not be read here, and is what this node is sent."""
    desk = Desk().form()
    cluster_id = desk.driver.status().cluster_id
    hello = desk.link(
        "b", cluster_id=cluster_id, metadata=AHEAD if order.startswith("word") else {}
    )
    steps = {
        "word": lambda: desk.driver.receive("b", replace(hello, metadata=AHEAD)),
        "lead": lambda: desk.driver.receive("b", AppendRequest(9, 0, 0, FIRST_CHAIN, 0, 0, 0.0)),
    }
    with pytest.raises(FormatLevelError, match="the log of b has reached level 2"):
        for step in order.split(", "):
            steps.get(step, lambda: None)()
            desk.turn()


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_word_of_who_does_not_lead_ends_nobody(is_linked: bool) -> None:
    """Any member may say anything; the log tells what it has reached, and who writes it."""
    desk = Desk().form()
    cluster_id = desk.driver.status().cluster_id
    hello = desk.link("b", cluster_id=cluster_id, metadata={} if is_linked else AHEAD)
    desk.turn()
    desk.driver.receive("b", replace(hello, metadata=AHEAD))
    desk.turn()
    desk.driver.receive("c", AppendRequest(9, 0, 0, FIRST_CHAIN, 0, 0, 0.0))
    desk.turn()

    assert desk.driver.leader == "c"


def test_what_came_before_a_link_closed_is_heard_first() -> None:
    """The last words of a process count; what it does not say any more does not."""
    desk = Desk().form()
    desk.driver.receive("b", VoteRequest(9, 9, 9))
    desk.driver.link_down("b", closed=True)
    desk.driver.receive("b", VoteRequest(19, 9, 9))

    desk.turn()

    assert 9 == desk.driver.term
    assert ["c"] == [view.name for view in desk.driver.status().members if view.connected][1:]


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
