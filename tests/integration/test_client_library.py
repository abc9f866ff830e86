"""
The client library against real brokers: what an application is promised that lives through a death.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import Connection, Interrupted, Message, Subscription, blocking, connect
from holdfast.errors import LinkLostError, ProducerForgottenError, UnknownDeliveryError
from holdfast.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/work"
SECONDS_MAX = 120.0
"""A test that waits longer waits for something that will not happen."""


async def until(connection: Connection, condition: Callable[[], Any]) -> None:
    """Ask the broker until the condition holds: each answer brings what came before."""
    while not condition():
        await connection.send("/topic/nobody", b"", persistent=False)


async def other_consumer_dies(
    cluster: LocalCluster, holder: Connection, subscription: Subscription
) -> Message:
    """
    Another one has the first message, we take the second; after the leader's death the first is in
    our buffer, and the second is tied to its new delivery. All nodes run again then.
    """
    queue = subscription.destination
    node = cluster.leader()
    plain = f"stomp://127.0.0.1:{node.stomp_port}"
    async with connect(plain) as other:
        theirs = await other.subscribe(queue, prefetch=1).open()
        await other.send(queue, b"one")
        assert (await anext(theirs)).text == "one"
        await subscription.open()
        await other.send(queue, b"two")
        two = await anext(subscription)
        assert two.text == "two"
        node.kill()
        with pytest.raises(LinkLostError):
            await theirs.receive()
        if len(cluster.nodes) == 1:
            node.start()
        first_generation = two.generation
        await until(
            holder, lambda: subscription.buffered_count and two.generation > first_generation
        )
        if not node.is_running:
            node.start()
            await asyncio.to_thread(cluster.wait_level)
        return two


async def left_on_the_queue(cluster: LocalCluster, queue: str = QUEUE) -> list[str]:
    """What the broker still has for somebody."""
    async with connect(cluster.uri) as connection, connection.subscribe(queue) as rest:
        await connection.send(queue, b"end")
        found = [(await anext(rest)).text]
        while found[-1] != "end":
            found.append((await anext(rest)).text)
        return found[:-1]


async def acknowledge_alone(_connection: Connection, message: Message) -> None:
    await message.acknowledge(confirm=True)


async def acknowledge_in_a_transaction(connection: Connection, message: Message) -> None:
    async with connection.transaction() as transaction:
        await transaction.acknowledge(message)


async def close_in_an_outage(cluster: LocalCluster, queue: str) -> None:
    """A message is acknowledged while nobody leads, and the connection closed meanwhile."""
    node = cluster.leader()
    connection = await connect(cluster.uri, close_seconds_max=SECONDS_MAX)
    events = connection.events()
    await connection.send(queue, b"done")
    work = await connection.subscribe(queue).open()
    message = await anext(work)
    node.kill()
    assert isinstance(await anext(events), Interrupted)
    await message.acknowledge()
    closing = asyncio.create_task(connection.close())
    if len(cluster.nodes) == 1:
        node.start()
    await closing


@pytest.mark.parametrize("topology", ["single", "three"])
def test_acknowledgements_over_the_death_of_the_leader(start_cluster, topology):
    """
    In mode "client" an acknowledgement covers what the application has taken, not what the broker
    has delivered: the message that came into the buffer before it is still there for the next, also
    if a transaction acknowledges. Closing in an outage waits for who leads then, and nobody is
    given the message again.
    """
    cluster = start_cluster(topology)

    async def scenario() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            for acknowledge in (acknowledge_alone, acknowledge_in_a_transaction):
                queue = f"/queue/{acknowledge.__name__}"
                async with connect(cluster.uri) as connection:
                    subscription = connection.subscribe(queue, acknowledge="client", prefetch=10)
                    two = await other_consumer_dies(cluster, connection, subscription)
                    await acknowledge(connection, two)
                assert await left_on_the_queue(cluster, queue) == ["one"]
            await close_in_an_outage(cluster, "/queue/closed")
            assert await left_on_the_queue(cluster, "/queue/closed") == []

    asyncio.run(scenario())


def test_a_producer_that_a_broker_has_forgotten_goes_on(start_cluster):
    """
    The broker knows nothing of the producer's earlier numbers, as after a week: the window is
    stored once and in its order, under another id, and the application is told nothing.
    """
    cluster = start_cluster("single")

    async def scenario() -> list[str]:
        async with asyncio.timeout(SECONDS_MAX):
            async with connect(cluster.uri) as connection:
                producer = connection.producer(QUEUE)
                long_idle = producer.producer_id
                producer._sequence.last = 1000
                for number in range(5):
                    await producer.send(str(number))
                await producer.flush()
                assert producer.producer_id != long_idle
                await producer.send("more")
            return await left_on_the_queue(cluster)

    assert asyncio.run(scenario()) == ["0", "1", "2", "3", "4", "more"]


def test_what_a_broker_refuses_is_the_error_that_is_promised(start_cluster):
    """
    The classes that the methods name, from a real broker's words.
    """
    cluster = start_cluster("single")

    async def scenario() -> None:
        async with asyncio.timeout(SECONDS_MAX), connect(cluster.uri) as connection:
            await connection.send(QUEUE, b"")
            async with connection.subscribe(QUEUE) as subscription:
                message = await anext(subscription)
            with pytest.raises(UnknownDeliveryError):
                await message.reject(confirm=True)
            producer = connection.producer(QUEUE, producer_id="mine")
            producer._sequence.last = 6
            await producer.send(b"")
            with pytest.raises(ProducerForgottenError) as caught:
                await producer.flush()
            assert (caught.value.producer_id, caught.value.found) == ("mine", 7)
            with pytest.raises(ProducerForgottenError):
                await producer.send(b"")

    asyncio.run(scenario())


INTERRUPTIONS_MAX = 400
MESSAGES = 4_000


class InterruptedWaitError(Exception):
    """What the signal handler raises."""


class Alarms:
    """Exceptions from a signal handler, at random moments of the calls of `receive`."""

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._uniform = random.Random(seed).uniform
        self._code = blocking.BlockingSubscription.receive.__code__

    def __enter__(self) -> Alarms:
        self._before = signal.signal(signal.SIGALRM, self._rang)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def set(self) -> None:
        """Ring soon. In the end no more, so that a slow machine gets on."""
        if self.count < INTERRUPTIONS_MAX:
            signal.setitimer(signal.ITIMER_REAL, self._uniform(2e-5, 8e-4))

    def _rang(self, _number: int, frame: Any) -> None:
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is not None:
            self.count += 1
            raise InterruptedWaitError


# Raising between the making of a coroutine and its handing over, which does no harm.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_interrupting_the_blocking_receive_loses_nothing(start_cluster, mode):
    """
    A signal handler raises in the middle of `receive` hundreds of times: every message is handed
    over once, in order, and acknowledging them leaves nothing with the broker.
    """
    cluster = start_cluster("single")
    seen: list[int] = []
    with blocking.connect(cluster.uri) as connection:
        with connection.producer(QUEUE) as producer:
            for number in range(MESSAGES):
                producer.send(str(number))
        with (
            connection.subscribe(QUEUE, acknowledge=mode, prefetch=100) as work,
            Alarms(7) as alarms,
        ):
            while len(seen) < MESSAGES:
                alarms.set()
                try:
                    message = work.receive(SECONDS_MAX)
                except InterruptedWaitError:
                    continue
                assert message is not None, f"{len(seen):,} of {MESSAGES:,}, then nothing"
                seen.append(int(message.text))
                if mode == "client-individual" or len(seen) % 25 == 0:
                    message.acknowledge()
        with connection.subscribe(QUEUE) as rest:
            connection.send(QUEUE, "end")
            assert next(rest).text == "end"

    assert seen == list(range(MESSAGES))
    assert alarms.count > 0
