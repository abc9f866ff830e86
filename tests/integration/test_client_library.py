"""
The client library against real brokers: what an application is promised that lives through a death.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.errors import LinkLostError
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
    Another one has the first message, we take the second; after a restart the first is in our
    buffer, and the second is tied to its new delivery.
    """
    node = cluster.leader()
    plain = f"stomp://127.0.0.1:{node.stomp_port}"
    async with connect(plain) as other:
        theirs = await other.subscribe(QUEUE, prefetch=1).open()
        await other.send(QUEUE, b"one")
        assert (await anext(theirs)).text == "one"
        await subscription.open()
        await other.send(QUEUE, b"two")
        two = await anext(subscription)
        assert two.text == "two"
        node.kill()
        with pytest.raises(LinkLostError):
            await theirs.receive()
        node.start()
        first_generation = two.generation
        await until(
            holder, lambda: subscription.buffered_count and two.generation > first_generation
        )
        return two


async def left_on_the_queue(cluster: LocalCluster) -> list[str]:
    """What the broker still has for somebody."""
    async with connect(cluster.uri) as connection, connection.subscribe(QUEUE) as rest:
        await connection.send(QUEUE, b"end")
        found = [(await anext(rest)).text]
        while found[-1] != "end":
            found.append((await anext(rest)).text)
        return found[:-1]


async def acknowledge_alone(_connection: Connection, message: Message) -> None:
    await message.acknowledge(confirm=True)


async def acknowledge_in_a_transaction(connection: Connection, message: Message) -> None:
    async with connection.transaction() as transaction:
        await transaction.acknowledge(message)


@pytest.mark.parametrize("acknowledge", [acknowledge_alone, acknowledge_in_a_transaction])
def test_cumulation_leaves_what_a_failover_brought_and_nobody_took(start_cluster, acknowledge):
    """
    In mode "client" an acknowledgement covers what the application has taken, not what the broker
    has delivered: the message that came into the buffer before it is still there for the next.
    """
    cluster = start_cluster("single")

    async def scenario() -> list[str]:
        async with asyncio.timeout(SECONDS_MAX):
            async with connect(cluster.uri) as connection:
                subscription = connection.subscribe(QUEUE, acknowledge="client", prefetch=10)
                two = await other_consumer_dies(cluster, connection, subscription)
                await acknowledge(connection, two)
            return await left_on_the_queue(cluster)

    assert asyncio.run(scenario()) == ["one"]
