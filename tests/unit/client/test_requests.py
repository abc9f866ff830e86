"""
The small requests: what each does with its outcome, and with a new link.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.requests import (
    Farewell,
    ForgetRequest,
    SettlementRequest,
    SubscribeRequest,
    fail,
    succeed,
)
from holdfast.client.settlements import ACKNOWLEDGE, Promise, Settlement, Settlements
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


def settled(id: str, *promises: Promise) -> Settlement:
    settlement = Settlement(id, ACKNOWLEDGE, is_lasting=True)
    settlement.promises = promises
    return settlement


async def test_a_settlement_request_makes_all_before_certain() -> None:
    """Its receipt comes after those before it are stored."""
    settlements = Settlements()
    settlements.add(settled("a"), "d1")
    promise = Promise(future())
    last = settled("b", promise)
    settlements.add(last, "d2", has_receipt=True)
    SettlementRequest(settlements, last, promise).received("1")
    assert len(settlements) == 0
    await promise.outcome


async def test_a_refused_settlement_makes_only_itself_certain() -> None:
    """The broker refuses at once: if it dies now, what was said before is lost and said again."""
    settlements = Settlements()
    settlements.add(settled("a"), "d1")
    last = settled("b")
    settlements.add(last, "b", has_receipt=True)
    SettlementRequest(settlements, last, None).refused("1", REFUSED)
    settlements.link_lost()
    assert settlements.frames() == [b"ACK\nid:a\n\n\0"]


async def test_a_settlement_request_asks_a_new_link_whether_all_is_stored() -> None:
    """Under the same receipt, behind the late acknowledgements; given up, its waiter hears why."""
    settlements = Settlements()
    promise = Promise(future())
    last = settled("m1", promise)
    settlements.add(last, "d1", has_receipt=True)
    request = SettlementRequest(settlements, last, promise)
    request.receipt = "7"
    settlements.link_lost()
    assert settlements.frames() == [b"ACK\nid:m1\n\n\0"]
    ((receipt, frame),) = request.replay()
    assert receipt == "7"
    begin, commit = frame.split(b"\0")[:2]
    assert begin.startswith(b"BEGIN\ntransaction:nothing-7\n")
    assert commit.startswith(b"COMMIT\ntransaction:nothing-7\n")
    assert b"\nreceipt:7\n" in commit
    request.abandoned(LOST)
    with pytest.raises(LinkLostError):
        await promise.outcome


async def test_a_question_that_is_refused_leaves_it_unknown() -> None:
    """The broker did not say that an acknowledgement is refused, only not whether it is stored."""
    settlements = Settlements()
    promise = Promise(future())
    settlements.add(settled("m1", promise), "d1")
    SettlementRequest(settlements, None, promise).refused("1", REFUSED)
    with pytest.raises(LinkLostError, match="does not say"):
        await promise.outcome
    assert len(settlements) == 1


async def test_what_is_to_be_forgotten_is_said_again_on_a_new_link() -> None:
    """Said twice it does no harm, and its receipt is what the caller waits for."""
    request = ForgetRequest(future(), "spark-query", 7)
    request.receipt = "5"
    ((receipt, frame),) = request.replay()
    assert (receipt, frame) == ("5", request.frame("5"))
    assert b"holdfast-forget:spark-query\n" in frame
    assert b"holdfast-forget-before:7\n" in frame
    request.received("5")
    await request.outcome
    for end in (lambda each: each.refused("5", REFUSED), lambda each: each.abandoned(LOST)):
        request = ForgetRequest(future(), "spark-query", 7)
        end(request)
        with pytest.raises(HoldfastError):
            await request.outcome
