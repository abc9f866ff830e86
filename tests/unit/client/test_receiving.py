"""
What was given back or rejected and comes again is shown again; by each way to take messages.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_broker import ScriptedBroker
from threaded_broker import Threaded
from two_leaders import QUEUE, filled

from holdfast.client import Message, blocking, connect
from holdfast.client.receiving import Receiver
from holdfast.errors import LocalProtocolError


def said(broker: ScriptedBroker) -> list[tuple[str | None, str | None]]:
    """What each NACK said of coming again."""
    found = [frame.block.headers for frame in broker.settlements if frame.block]
    return [(it.get("requeue"), it.get("delay")) for it in found if "requeue" in it]


async def test_what_is_given_back_comes_again_and_is_shown() -> None:
    """
    On the same link, while nothing has confirmed that it was given back: that it comes tells it.

    Taken for one whose word was lost it was given back again and again, and never shown.
    """
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        assert isinstance(subscription, Receiver)
        first = await anext(subscription)
        await first.give_back()
        second = await anext(subscription)
        await second.give_back(after=2.5, confirm=True)
        (third,) = await subscription.fetch(5)
        await third.acknowledge(confirm=True)
        assert [first.id] * 2 == [second.id, third.id]
        assert [it.delivery_count for it in (first, second, third)] == [1, 2, 2]
        assert said(broker) == [("true", None), ("true", "2500")]
        assert broker.store.settled == [first.id]


async def test_what_is_rejected_and_comes_again_is_shown() -> None:
    """As a policy of redelivery has it: the dead-letter queue is not the only end."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        first = await anext(subscription)
        await first.reject()
        await broker.saw(lambda: broker.settlements)
        again = broker.store.put(QUEUE, {"persistent": "true", "redelivered": "true"}, b"1")
        again.id = first.id
        broker.dispatch()
        second = await anext(subscription)
        assert (second.id, second.is_settled) == (first.id, False)


async def test_a_handler_that_fails_lets_its_message_come_again() -> None:
    """After so many seconds, instead of the dead-letter queue."""
    tries: list[Message] = []

    async def handle(message: Message) -> None:
        tries.append(message)
        if len(tries) < 3:
            raise ValueError("not yet")

    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        consuming = asyncio.create_task(subscription.consume(handle, give_back_after=1))
        await broker.saw(lambda: broker.store.settled)
        assert said(broker) == [("true", "1000")] * 2
        assert broker.store.rejected == []
        await subscription.close()
        await consuming


def test_so_it_is_without_asyncio(threaded: Threaded) -> None:
    """By the message, the block and the function alike."""
    broker = threaded.broker
    threaded.do(lambda: broker.store.put(QUEUE, {"persistent": "true"}, b"1"))
    with blocking.connect(broker.uri) as connection, connection.subscribe(QUEUE) as subscription:
        for again in (0, 2):
            message = next(subscription)
            message.give_back(after=again, confirm=True)
        with pytest.raises(ValueError, match="mine"):
            with next(subscription).process(give_back_after=1, confirm=True):
                raise ValueError("mine")
        last = next(subscription)
        last.acknowledge(confirm=True)
    assert said(broker) == [("true", None), ("true", "2000"), ("true", "1000")]
    assert broker.store.settled == [last.id]


@pytest.mark.parametrize("seconds", [-1, 604_801, "5"])
async def test_a_time_that_there_is_not_is_refused_by_the_call(seconds: Any) -> None:
    """The message is not settled by it."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        message = await anext(subscription)
        with pytest.raises(LocalProtocolError, match="from 0 to 604,800"):
            await message.give_back(after=seconds)
        with pytest.raises(LocalProtocolError, match="from 0 to 604,800"):
            await subscription.consume(lambda _: asyncio.sleep(0), give_back_after=seconds)
        await message.acknowledge(confirm=True)
        assert broker.store.settled == [message.id]
