"""Handlers: each message by its own task, a failure settled and told, nothing left running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from scripted_broker import ScriptedBroker
from two_leaders import QUEUE, filled

from holdfast.client import Message, connect
from holdfast.client.handling import check_consuming, check_count
from holdfast.errors import ConfigError, HoldfastError


async def turns(count: int) -> None:
    """Let everybody else go on, so many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let everybody else go on until it holds."""
    while not condition():
        await asyncio.sleep(0)


async def test_each_message_is_settled_when_its_handler_ends(caplog) -> None:
    """One that fails is logged and rejected; the next ones come nevertheless."""
    caplog.clear()
    async with (
        ScriptedBroker(filled("1", "2", "3", "4")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        seen = []

        async def handle(message: Message) -> None:
            seen.append(message.text)
            if message.text == "2":
                raise ValueError("mine")
            if message.text == "3":
                await message.reject()

        with caplog.at_level(logging.ERROR, "holdfast.client"):
            consuming = asyncio.create_task(subscription.consume(handle))
            await broker.saw(lambda: len(broker.settlements) == 4)
        assert seen == ["1", "2", "3", "4"]
        assert [len(broker.store.settled), len(broker.store.rejected)] == [2, 2]
        (record,) = caplog.records
        assert "ValueError: mine" in caplog.text and "its handler failed" in record.message
        await subscription.close()
        await consuming


async def test_so_many_are_handled_at_once() -> None:
    """No more than told; whoever ends makes room for the next."""
    async with (
        ScriptedBroker(filled(*"123456")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, prefetch=10) as subscription,
    ):
        running: list[str] = []
        peak = 0
        go = asyncio.Event()

        async def handle(message: Message) -> None:
            nonlocal peak
            running.append(message.text)
            peak = max(peak, len(running))
            await go.wait()
            running.remove(message.text)

        consuming = asyncio.create_task(subscription.consume(handle, concurrency=3))
        await turns_until(lambda: len(running) == 3)
        await turns(20)
        assert running == ["1", "2", "3"]
        assert broker.settlements == []
        go.set()
        await broker.saw(lambda: len(broker.settlements) == 6)
        assert peak == 3
        await subscription.close()
        await consuming


async def test_cancelling_leaves_nothing_running_and_judges_nothing() -> None:
    """What was not settled by then is delivered again."""
    async with (
        ScriptedBroker(filled("1", "2")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        begun, ended = [], []

        async def handle(message: Message) -> None:
            begun.append(message.text)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(message.text)

        consuming = asyncio.create_task(subscription.consume(handle, concurrency=5))
        await turns_until(lambda: len(begun) == 2)
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        assert sorted(ended) == ["1", "2"]
        assert broker.settlements == []
        assert subscription.held_count == 2


async def test_cancelling_again_leaves_nothing_running_either() -> None:
    """An impatient caller must not find its handlers at work after `consume` has ended."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        begun, tidying, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        ended = []

        async def handle(message: Message) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                tidying.set()
                await may_end.wait()
                ended.append(message.text)

        consuming = asyncio.create_task(subscription.consume(handle))
        await begun.wait()
        consuming.cancel()
        await tidying.wait()
        consuming.cancel()
        await turns(20)
        assert not consuming.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        assert ended == ["1"]
        assert broker.settlements == []


async def test_a_cancellation_of_the_handlers_own_is_a_failure(caplog) -> None:
    """Nobody cancelled the consumer: a message that is never settled would stall it in silence."""
    async with (
        ScriptedBroker(filled("1", "2")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):

        async def handle(message: Message) -> None:
            if message.text == "1":
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone

        with caplog.at_level(logging.ERROR, "holdfast.client"):
            consuming = asyncio.create_task(subscription.consume(handle))
            await broker.saw(lambda: len(broker.settlements) == 2)
        assert [len(broker.store.settled), len(broker.store.rejected)] == [1, 1]
        assert "what its handler awaited was cancelled" in caplog.text
        await subscription.close()
        await consuming


async def test_the_end_of_the_link_is_told_after_the_handlers_have_ended() -> None:
    """They are not torn down in the middle of their work."""
    ended = []
    async with ScriptedBroker(filled("1")) as broker:
        with pytest.raises(HoldfastError):
            async with (
                connect(broker.uri) as connection,
                connection.subscribe(QUEUE) as subscription,
            ):

                async def handle(message: Message) -> None:
                    broker.kill()
                    # Long enough for the loss to be noticed: reading has ended by then.
                    await turns_until(lambda: connection._session.failure is not None)
                    await turns(20)
                    ended.append(message.text)

                await subscription.consume(handle, concurrency=2)
    assert ended == ["1"]


@pytest.mark.parametrize(
    ("mode", "concurrency", "words"),
    [
        ("client-individual", 0, "concurrency is 0"),
        ("client", 1, "acknowledge='client-individual', not 'client'"),
        ("auto", -1, "concurrency is -1"),
    ],
)
def test_what_cannot_be_kept_is_refused(mode: str, concurrency: int, words: str) -> None:
    """Another mode settles others with a message, or one that is still at work."""
    with pytest.raises(ConfigError, match=words):
        check_consuming(mode, concurrency)


def test_a_fetch_of_nothing_is_refused() -> None:
    """It would never end well."""
    check_count(1)
    with pytest.raises(ConfigError, match="count is 0"):
        check_count(0)
