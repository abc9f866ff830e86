"""
Whether the broker answers, what is in hand, and ending without leaving anything half done.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
from scripted_broker import ScriptedBroker, Store
from threaded_broker import Threaded, within
from two_leaders import QUEUE, filled

from holdfast.client import Message, blocking, connect
from holdfast.errors import LinkLostError


async def test_a_ping_waits_for_the_broker() -> None:
    """Its answer, not the link's; over an outage for the next broker; no longer than told."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            assert await connection.ping() >= 0
            first.is_holding = True
            with pytest.raises(TimeoutError):
                await connection.ping(0.001)
            pinging = asyncio.create_task(connection.ping())
            await first.saw(lambda: len(first.frames("ABORT")) == 3)
            assert not pinging.done()
            first.kill()
            assert await pinging >= 0
        with pytest.raises(LinkLostError):
            await connection.ping()


async def test_what_is_in_hand_is_told() -> None:
    """Sent, delivered, taken and settled, at this moment."""
    async with ScriptedBroker(filled("1", "2", "3")) as broker, connect(broker.uri) as connection:
        assert connection.statistics() == (1, 0, 0, 0, 0, 0, 0, 0, "Holdfast/test")
        async with connection.subscribe(QUEUE) as subscription:
            one = await anext(subscription)
            await anext(subscription)
            await one.acknowledge()
            broker.is_holding = True
            async with connection.producer("/queue/b") as producer:
                await producer.send(b"x")
                told = connection.statistics()
                broker.release()
        assert (told.unconfirmed_count, told.unconfirmed_bytes > 1) == (1, True)
        assert (told.buffered_count, told.buffered_bytes > 1) == (1, True)
        assert (told.held_count, told.settled_count, told.uncertain_count) == (1, 1, 1)


async def test_draining_waits_for_what_was_taken_and_takes_no_more() -> None:
    """The rest of a queue is others'; each handler's message is settled, and stored, before."""
    async with ScriptedBroker(filled("1", "2", "3", "4")) as broker:
        connection = await connect(broker.uri)
        may_end, seen = asyncio.Event(), []

        async def handle(message: Message) -> None:
            seen.append(message.text)
            await may_end.wait()

        subscription = await connection.subscribe(QUEUE).open()
        consuming = asyncio.create_task(subscription.consume(handle, concurrency=2))
        while len(seen) < 2:
            await asyncio.sleep(0)
        draining = asyncio.create_task(connection.drain())
        while subscription.buffered_count:
            await asyncio.sleep(0)
        assert not (draining.done() or broker.frames("UNSUBSCRIBE"))
        may_end.set()
        await draining
        await consuming
        assert seen == ["1", "2"]
        assert connection.is_closed
        assert broker.store.bodies(QUEUE) == [b"3", b"4"]
        assert len(broker.store.settled) == 2


async def test_a_topic_is_drained_of_what_was_delivered() -> None:
    """Nobody else would get it: it is still given, and nothing that comes after."""
    topic = "/topic/a"
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.subscribe(topic, acknowledge="auto") as subscription:
            for n in range(3):
                await connection.send(topic, str(n))
            draining = asyncio.create_task(subscription.drain())
            await asyncio.sleep(0)
            await connection.send(topic, "late")
            assert [message.text async for message in subscription] == ["0", "1", "2"]
            await draining
            await subscription.drain()


async def test_draining_ends_with_the_connection() -> None:
    """Nobody waits for a message that nobody can settle any more."""
    async with ScriptedBroker(filled("1")) as broker:
        connection = await connect(broker.uri)
        subscription = await connection.subscribe(QUEUE).open()
        message = await anext(subscription)
        draining = asyncio.create_task(subscription.drain())
        await asyncio.sleep(0)
        await connection.close(is_graceful=False)
        await draining
        assert not message.is_settled


def test_so_it_is_without_asyncio(threaded: Threaded) -> None:
    """From another thread than the one that takes: that one's iteration ends."""
    broker = threaded.broker
    for n in range(3):
        threaded.do(lambda n=n: broker.store.put(QUEUE, {"persistent": "true"}, b"%d" % n))
    taken, may_end = threading.Event(), threading.Event()
    connection = blocking.connect(broker.uri)
    assert connection.ping(20) >= 0
    assert connection.statistics().link_count == 1

    def take() -> None:
        with connection.subscribe(QUEUE, prefetch=1) as subscription:
            for message in subscription:
                taken.set()
                may_end.wait()
                message.acknowledge()

    taking = threading.Thread(target=take)
    taking.start()
    within(taken.wait)
    draining = threading.Thread(target=connection.drain)
    draining.start()
    threaded.saw(lambda: broker.connections)
    may_end.set()
    within(draining.join)
    within(taking.join)
    assert connection.is_closed
    assert broker.store.settled
