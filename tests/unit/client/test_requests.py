"""
The small requests: what each does with its outcome, and with a new link.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.requests import Farewell, SettlementRequest, SubscribeRequest, fail, succeed
from holdfast.client.settlements import ACKNOWLEDGE, Settlements
from holdfast.errors import HoldfastError, LinkLostError, RefusedError

LOST = LinkLostError("gone")
REFUSED = RefusedError("no")


def future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


class Told:
    def __init__(self) -> None:
        self.words: list[object] = []

    def subscribed(self) -> None:
        self.words.append("subscribed")

    def ended(self, error: HoldfastError | None) -> None:
        self.words.append(error)


async def test_a_future_whose_waiter_has_gone_is_left_alone() -> None:
    """Cancelled futures take neither result nor error."""
    gone = future()
    gone.cancel()
    succeed(gone)
    fail(gone, LOST)
    assert gone.cancelled()


async def test_a_farewell_is_done_by_a_lost_link_too() -> None:
    """Unsubscribed is unsubscribed; only a refusal is an error."""
    for end in (
        lambda farewell: farewell.received("1"),
        lambda farewell: farewell.abandoned(LOST),
        lambda farewell: farewell.replay(),
    ):
        farewell = Farewell(future())
        assert not end(farewell)
        assert farewell.outcome.done()
        farewell.outcome.result()
    refused = Farewell(future())
    refused.refused("1", REFUSED)
    with pytest.raises(RefusedError):
        await refused.outcome


async def test_a_subscribe_tells_its_owner() -> None:
    """On a new link the session asks for another, so it sends nothing again."""
    told = Told()
    request = SubscribeRequest(told)
    request.received("1")
    request.refused("1", REFUSED)
    request.abandoned(LOST)
    assert request.replay() == []
    assert told.words == ["subscribed", REFUSED, LOST]


async def test_a_settlement_request_makes_all_before_certain() -> None:
    """Its receipt comes after those before it are stored."""
    settlements = Settlements()
    settlements.add("a", ACKNOWLEDGE)
    number = settlements.add("b", ACKNOWLEDGE)
    SettlementRequest(settlements, number, "b", ACKNOWLEDGE, None).received("1")
    assert len(settlements) == 0


async def test_a_refused_settlement_makes_only_itself_certain() -> None:
    """The broker refuses at once: if it dies now, what was said before is lost and said again."""
    settlements = Settlements()
    settlements.add("a", ACKNOWLEDGE)
    number = settlements.add("b", ACKNOWLEDGE)
    SettlementRequest(settlements, number, "b", ACKNOWLEDGE, None).refused("1", REFUSED)
    assert settlements.verb_of("a") == ACKNOWLEDGE
    assert settlements.verb_of("b") is None


async def test_a_settlement_request_is_said_again_by_message_id() -> None:
    """Under the same receipt; given up, its waiter hears why."""
    request = SettlementRequest(Settlements(), 1, "m1", ACKNOWLEDGE, future())
    request.receipt = "7"
    assert request.replay() == [("7", b"ACK\nid:m1\nreceipt:7\n\n\0")]
    request.abandoned(LOST)
    with pytest.raises(LinkLostError):
        await request.outcome
