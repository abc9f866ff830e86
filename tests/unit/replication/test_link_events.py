"""Tests of replication/link_events.py: what is queued among the messages of a link."""

from __future__ import annotations

from holdfast.replication.link_events import MOVING, MOVING_ENTRIES, LinkDown, LinkUp
from holdfast.replication.messages import Hello


def test_each_event_says_what_the_driver_needs() -> None:
    """Who is at the other end, and whether its system closed the link, and what moved."""
    hello = Hello("b", "bb" * 16)

    assert hello is LinkUp(hello).hello
    assert [True, False] == [LinkDown(closed).closed for closed in (True, False)]
    assert [False, True] == [moved.has_entries for moved in (MOVING, MOVING_ENTRIES)]
