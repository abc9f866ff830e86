"""
What a real broker refuses of acknowledgements, or never hears, is told by whoever promised it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, cast

import pytest

from holdfast.client import Connection, Interrupted, Message, Resumed, Subscription, connect
from holdfast.errors import LinkLostError, UnknownDeliveryError
from holdfast.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/work"
SECONDS_MAX = 120.0
"""A test that waits longer waits for something that will not happen."""


class Half(asyncio.Protocol):
    """One side of a connection through the relay; its end is not told to the other side."""

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self.data_received = received  # type: ignore[method-assign]
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)


class Relay:
    """Between clients and a node: swallows what clients say, or cuts one side of a connection."""

    def __init__(self, port: int) -> None:
        self.is_swallowing = False
        self.is_accepting = True
        self.swallowed = b""
        self.pairs: list[tuple[Half, Half]] = []
        self._target = port
        self._relaying: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._client, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for pair in range(len(self.pairs)):
            self.cut_client(pair)
            self.cut_node(pair)

    @property
    def uri(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"failover:(stomp://127.0.0.1:{port})?initialReconnectDelay=10&maxReconnectDelay=50"

    def _client(self) -> asyncio.Protocol:
        early: list[bytes] = []
        client = Half(early.append)
        task = asyncio.get_running_loop().create_task(self._connect(client, early))
        self._relaying.add(task)
        task.add_done_callback(self._relaying.discard)
        return client

    async def _connect(self, client: Half, early: list[bytes]) -> None:
        if not self.is_accepting:
            client.transport.abort()
            return
        loop = asyncio.get_running_loop()
        _, node = await loop.create_connection(
            lambda: Half(client.transport.write), "127.0.0.1", self._target
        )
        self.pairs.append((client, node))

        def received(data: bytes) -> None:
            if self.is_swallowing:
                self.swallowed += data
                self._news.set()
            else:
                node.transport.write(data)

        for data in early:
            received(data)
        client.data_received = received  # type: ignore[method-assign]

    def cut_client(self, pair: int) -> None:
        self.pairs[pair][0].transport.abort()

    def cut_node(self, pair: int) -> None:
        self.pairs[pair][1].transport.abort()

    async def swallow(self, *words: bytes) -> None:
        """Wait until all of these were said and not heard."""
        while not all(word in self.swallowed for word in words):
            self._news.clear()
            await self._news.wait()


async def resume(events: Any, cut: Callable[[], None]) -> None:
    cut()
    assert isinstance(await anext(events), Interrupted)
    while not isinstance(await anext(events), Resumed):
        pass


async def resume_too_late(
    events: Any, relay: Relay, cluster: LocalCluster, count: int
) -> Connection:
    """Come back once somebody else has so many of the messages; gives who it is."""
    relay.is_accepting = False
    relay.cut_client(0)
    relay.cut_node(0)
    other = await connect(cluster.uri)
    theirs = await other.subscribe(QUEUE, prefetch=count).open()
    for _ in range(count):
        await anext(theirs)
    relay.is_accepting = True
    await resume(events, lambda: None)
    return other


async def settle_unheard(
    connection: Connection, relay: Relay
) -> tuple[Subscription, Message, Message]:
    """Acknowledge a first message and reject a second one; the node hears of neither."""
    work = await connection.subscribe(QUEUE).open()
    for text in ("one", "two"):
        await connection.send(QUEUE, text)
    one, two = await anext(work), await anext(work)
    relay.is_swallowing = True
    await one.acknowledge()
    await two.reject()
    await relay.swallow(b"NACK", b"ACK")
    relay.is_swallowing = False
    return work, one, two


async def rejected(connection: Connection, message: Message) -> None:
    """Ask until the message has come again, and the broker has its rejection."""
    while True:
        try:
            return await message.reject(confirm=True)
        except LinkLostError:
            await connection.send("/topic/nobody", b"", persistent=False)


async def left_on_the_queue(cluster: LocalCluster) -> list[str]:
    """What the broker still has for somebody."""
    async with connect(cluster.uri) as connection, connection.subscribe(QUEUE) as rest:
        await connection.send(QUEUE, b"end")
        found = [await anext(rest)]
        while found[-1].text != "end":
            found.append(await anext(rest))
        for message in found:
            await message.acknowledge()
        return [message.text for message in found[:-1]]


def through_a_relay(cluster: LocalCluster, scenario: Callable[[Connection, Relay], Any]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), Relay(cluster.leader().stomp_port) as relay:
            # No heart-beats: the node does not notice that a client's half has gone.
            connection = await connect(relay.uri, heart_beat_send_seconds=0)
            await scenario(connection, relay)

    asyncio.run(run())


def test_a_refused_acknowledgement_is_told_by_the_call_that_covers_it(start_cluster):
    """
    Somebody else was given the first message in an outage: a confirmed acknowledgement that covers
    it says so, and the message comes again when that one has gone.
    """
    cluster = start_cluster("single")

    async def scenario(connection: Connection, relay: Relay) -> None:
        events = connection.events()
        async with connection.subscribe(QUEUE, acknowledge="client", prefetch=1) as work:
            await connection.send(QUEUE, b"one")
            one = await anext(work)
            other = await resume_too_late(events, relay, cluster, 1)
            await connection.send(QUEUE, b"two")
            two = await anext(work)
            with pytest.raises(UnknownDeliveryError, match="somebody else"):
                await two.acknowledge(confirm=True)
            await other.close()
            again = await anext(work)
            assert (again.id, again.redelivered) == (one.id, True)
            await again.acknowledge(confirm=True)
        await connection.close()

    through_a_relay(cluster, scenario)
    assert asyncio.run(left_on_the_queue(cluster)) == []


def test_closing_tells_what_was_refused_or_never_heard(start_cluster):
    """
    An acknowledgement that was lost and is refused when it is said again, and a rejection that was
    lost and whose message does not come again: neither is done, and both are told.
    """
    cluster = start_cluster("single")

    async def scenario(connection: Connection, relay: Relay) -> None:
        events = connection.events()
        _held = await settle_unheard(connection, relay)  # As an application does.
        other = await resume_too_late(events, relay, cluster, 2)
        with pytest.raises(UnknownDeliveryError, match="somebody else") as told:
            await connection.close()
        assert "the last 1 acknowledgements" in "".join(told.value.__notes__)
        await other.close()

    through_a_relay(cluster, scenario)
    assert asyncio.run(left_on_the_queue(cluster)) == ["one", "two"]


def test_a_lost_rejection_is_said_when_its_message_comes_again(start_cluster):
    """
    The node notices the lost link at once and delivers both again: the one is rejected, the other
    acknowledged, neither is shown, and closing has nothing to tell.
    """
    cluster = start_cluster("single")

    async def scenario(connection: Connection, relay: Relay) -> None:
        events = connection.events()
        work, one, two = await settle_unheard(connection, relay)
        relay.cut_node(0)
        await resume(events, lambda: relay.cut_client(0))
        await rejected(connection, two)
        assert work.buffered_count == 0
        await one.acknowledge(confirm=True)
        await connection.close()

    through_a_relay(cluster, scenario)
    assert asyncio.run(left_on_the_queue(cluster)) == []
