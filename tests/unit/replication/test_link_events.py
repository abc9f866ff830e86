"""Tests of replication/link_events.py: what is queued among the messages of a link."""

from __future__ import annotations

from holdfast.replication.link_events import MOVING, LinkDown, LinkUp, Moving
from holdfast.replication.messages import Hello


def test_each_event_says_what_the_driver_needs() -> None:
    """Who is at the other end, and whether its system closed the link; moving says no more."""
    hello = Hello("b", "bb" * 16)

    assert hello is LinkUp(hello).hello
    assert [True, False] == [LinkDown(closed).closed for closed in (True, False)]
    assert isinstance(MOVING, Moving)
