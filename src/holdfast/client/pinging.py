"""
Asking whether the broker answers, and what a connection has in hand: for those who watch it.

A ping is answered by the broker, not by the link: a link may be there while nobody serves. What is
in hand is counted where it stands, when somebody asks, so that nothing is paid for it otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.client.requests import Question
from holdfast.client.session import ClientSession
from holdfast.client.wire import control


class Statistics(NamedTuple):
    """What a connection has in hand at one moment."""

    link_count: int
    """Links there have been: one more with each reconnect."""
    unconfirmed_count: int
    """Requests whose receipt is awaited."""
    unconfirmed_bytes: int
    """What is kept of them to be sent again."""
    buffered_count: int
    """Messages that were delivered and not taken."""
    buffered_bytes: int
    held_count: int
    """Messages taken and not settled."""
    settled_count: int
    """Messages settled since the connection began."""
    uncertain_count: int
    """Of those, how many the broker has not said it has."""
    server: str = ""
    """What the broker says it is, as `ActiveMQ/5.17.2`; empty: nothing."""


class Ping(Question):
    """A transaction with nothing in it, rolled back: every broker answers that."""

    __slots__ = ()

    def frame(self, receipt: str) -> bytes:
        name = f"ping-{receipt}"
        return control("BEGIN", transaction=name) + control(
            "ABORT", transaction=name, receipt=receipt
        )


async def ping(session: ClientSession) -> float:
    """Wait for an answer of the broker's; gives the seconds it took. See `Connection.ping`."""
    began = session.loop.time()
    receipt = session.next_receipt()
    asked = Ping(session.loop.create_future())
    session.request(asked, receipt, asked.frame(receipt))
    await asked.outcome
    return session.loop.time() - began


def statistics(session: ClientSession) -> Statistics:
    """What a session has in hand now."""
    subscribers = session.subscribers.values()
    return Statistics(
        link_count=session.generation,
        unconfirmed_count=len(session.outstanding),
        unconfirmed_bytes=session.outstanding.bytes,
        buffered_count=sum(each.buffered_count for each in subscribers),
        buffered_bytes=session.buffered_bytes,
        held_count=sum(each.held_count for each in subscribers),
        settled_count=session.settlements.number,
        uncertain_count=len(session.settlements),
        server=session.greeting.get("server", ""),
    )
