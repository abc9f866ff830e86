"""
The client library with ActiveMQ and RabbitMQ, from Debian's packages: what works there, and that
nothing is said to them which only Holdfast understands.

Between client and broker stands a relay that cuts links when the test says so, and keeps what both
sides said. The brokers are those of the benches: own data folder, own ports, loopback only.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Connection, connect
from holdfast.errors import ConfigError, LinkLostError, TransactionError, UnknownDeliveryError
from holdfast.protocols.stomp.codec import unescape
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import AcknowledgeFrame, Frame, SendFrame

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))

if TYPE_CHECKING:
    from brokers import Broker

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SECONDS_MAX = 60.0
"""A test that waits longer waits for something that will not happen."""

OPTIONS: dict[str, dict[str, Any]] = {
    "activemq": {},
    # RabbitMQ takes the STOMP header `host` for the virtual host, and nobody without a name.
    "rabbitmq": {"login": "guest", "passcode": "guest", "host": "/"},
}


@pytest.fixture(scope="module", params=list(OPTIONS))
def other(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Broker]:
    """A broker of another make, for all tests of this file."""
    from activemq import ActiveMQ
    from rabbitmq import RabbitClassic

    class RabbitAlone(RabbitClassic):
        def _wait_cluster(self) -> None:
            """One node need not find others."""

    kind = {"activemq": ActiveMQ, "rabbitmq": RabbitAlone}[request.param]
    if kind.missing():
        pytest.skip(f"{kind.title} is {kind.missing()}: apt-get install activemq rabbitmq-server")
    with kind(tmp_path_factory.mktemp(request.param) / "broker", 1) as broker:
        yield broker


class Conversation:
    """What the two ends of one link have said."""

    def __init__(self) -> None:
        self.streams: list[asyncio.StreamWriter] = []
        self.client = StompConnection("server")
        self.broker = StompConnection("client")
        self.delivered: set[str] = set()
        self.acknowledged: list[str] = []
        self.errors: list[Frame] = []
        self.left: set[str] = set()
        """Subscriptions that the client has ended."""
        self.headers: set[str] = set()
        """Names of headers that the client sent."""

    def client_said(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events_received():
            if isinstance(event, AcknowledgeFrame):
                self.acknowledged.append(unescape(event.id.decode(), "1.2"))
            elif isinstance(event, SendFrame):
                self.headers.update(event.block.headers)
            elif isinstance(event, Frame):
                self.headers.update(event.headers)
                if event.command == "UNSUBSCRIBE":
                    self.left.add(event.headers["id"])

    def broker_said(self, data: bytes) -> None:
        self.broker.receive_data(data)
        for event in self.broker.events_received():
            if not isinstance(event, Frame):
                continue
            if event.command == "MESSAGE":
                self.delivered.add(event.headers["ack"])
            elif event.command == "ERROR" and not self.was_on_its_way(event):
                self.errors.append(event)

    def was_on_its_way(self, error: Frame) -> bool:
        """RabbitMQ complains to a client of what it had on the way when a subscription ended."""
        no_more = [f"There is no current subscription with tag 'T_{each}'." for each in self.left]
        return error.body.decode().strip() in no_more


class Relay:
    """Stands between a client and a broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.conversations: list[Conversation] = []
        self.server: asyncio.Server
        self.cut_after = 0
        """After so many more pieces from the broker the link is cut; 0: never."""

    @property
    def uri(self) -> str:
        port = self.server.sockets[0].getsockname()[1]
        return f"failover:(stomp://127.0.0.1:{port})"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.broker.address.partition(":")
        try:
            there, onward = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        conversation = Conversation()
        conversation.streams = [writer, onward]
        self.conversations.append(conversation)
        await asyncio.gather(
            self.carry(reader, onward, conversation.client_said),
            self.carry(there, writer, conversation.broker_said, is_counted=True),
        )

    async def carry(self, source, sink, hears, *, is_counted: bool = False) -> None:
        try:
            while data := await source.read(65536):
                hears(data)
                if is_counted and self.cut_after:
                    self.cut_after -= 1
                    if not self.cut_after:
                        self.cut()
                sink.write(data)
        except OSError:
            pass
        sink.close()

    def cut(self) -> None:
        """Break every link; what is on its way is lost."""
        for conversation in self.conversations:
            for stream in conversation.streams:
                stream.transport.abort()

    def check(self) -> None:
        """Nothing was said that another broker does not understand."""
        for conversation in self.conversations:
            assert not conversation.errors
            late = set(conversation.acknowledged) - conversation.delivered
            assert not late, f"acknowledged what another link had brought: {late}"
            ours = [name for name in conversation.headers if name.startswith("producer-")]
            assert not ours


@asynccontextmanager
async def relay_to(broker: Broker):
    """A relay, checked at the end."""
    relay = Relay(broker)
    relay.server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield relay
    finally:
        relay.server.close()
        relay.cut()
    relay.check()


def connected(relay: Relay, other: Broker):
    return connect(relay.uri, **OPTIONS[other.name.partition("-")[0]])


async def drained(connection: Connection, queue: str, end: str) -> list[str]:
    """What is on a queue, up to a last message."""
    await connection.send(queue, end)
    texts = []
    async with connection.subscribe(queue) as subscription:
        while True:
            message = await anext(subscription)
            await message.acknowledge(confirm=True)
            if message.text == end:
                return texts
            texts.append(message.text)


def test_sending_receiving_and_transactions_work(other) -> None:
    """All three modes of acknowledging, headers and bodies, all or nothing of a transaction."""

    async def scenario() -> None:
        async with relay_to(other) as relay:
            # A connection for each: RabbitMQ keeps for a connection what its subscription had.
            for work in (sending_works, receiving_works, cumulation_works, auto_works):
                async with connected(relay, other) as connection:
                    await work(connection)
            async with connected(relay, other) as connection:
                await transactions_work(connection)
            async with connected(relay, other) as connection:
                assert await drained(connection, "/queue/moved", "end") == ["0", "1", "2"]
                rest = await drained(connection, "/queue/works", "end")
                assert rest == [f"{number} ü" for number in range(16, 20)]

    asyncio.run(scenario())


async def sending_works(connection: Connection) -> None:
    assert connection.cluster is None
    with pytest.raises(ConfigError):
        connection.producer("/queue/works", producer_id="mine")
    await connection.send("/queue/works", bytes(range(256)), headers={"colour": "r\\e:d"})
    async with connection.producer("/queue/works") as producer:
        for number in range(20):
            await producer.send(f"{number} ü")


async def receiving_works(connection: Connection) -> None:
    async with connection.subscribe("/queue/works") as subscription:
        first = await anext(subscription)
        assert (first.body, first.headers["colour"]) == (bytes(range(256)), "r\\e:d")
        await first.acknowledge(confirm=True)
        for number in range(5):
            message = await anext(subscription)
            assert message.text == f"{number} ü"
            await message.acknowledge()


async def cumulation_works(connection: Connection) -> None:
    async with connection.subscribe("/queue/works", acknowledge="client") as subscription:
        taken = [await anext(subscription) for _ in range(5)]
        await taken[-1].acknowledge(confirm=True)


async def auto_works(connection: Connection) -> None:
    async with connection.subscribe("/queue/works", acknowledge="auto") as subscription:
        for _ in range(5):
            await anext(subscription)


async def transactions_work(connection: Connection) -> None:
    async with connection.subscribe("/queue/works") as subscription:
        message = await anext(subscription)
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/moved", "never")
                raise ZeroDivisionError
        async with connection.transaction() as transaction:
            await transaction.acknowledge(message)
            for number in range(3):
                await transaction.send("/queue/moved", str(number))


def test_a_lost_link_ends_its_deliveries(other) -> None:
    """Nothing of it can be settled any more, and it comes again, flagged."""

    async def scenario() -> None:
        async with relay_to(other) as relay, connected(relay, other) as connection:
            for text in ("one", "two"):
                await connection.send("/queue/lost", text)
            async with connection.subscribe("/queue/lost") as subscription:
                one, two = [await anext(subscription) for _ in range(2)]
                relay.cut()
                again = [await anext(subscription) for _ in range(2)]
                assert sorted(message.text for message in again) == ["one", "two"]
                assert all(message.redelivered for message in again)
                with pytest.raises(UnknownDeliveryError):
                    await one.acknowledge(confirm=True)
                await two.acknowledge()
                with pytest.raises(UnknownDeliveryError):
                    await connection.transaction().acknowledge(one)
                for message in again:
                    await message.acknowledge(confirm=True)
            assert await drained(connection, "/queue/lost", "end") == []

    asyncio.run(scenario())


class Work:
    """Messages are sent, moved by transactions and received, over links that are cut."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.received: Counter[str] = Counter()

    async def send(self, count: int) -> None:
        async with self.connection.producer("/queue/in", window=50) as producer:
            for number in range(count):
                await producer.send(str(number))

    async def move(self) -> None:
        """For ever: a commit whose outcome is unknown may not have been done."""
        async with self.connection.subscribe("/queue/in", prefetch=20) as subscription:
            async for message in subscription:
                # What fails was not done, or it is unknown: then the message may come again.
                with suppress(TransactionError, UnknownDeliveryError, LinkLostError):
                    async with self.connection.transaction() as transaction:
                        await transaction.send("/queue/out", message.body)
                        await transaction.acknowledge(message)

    async def receive(self, count: int) -> None:
        async with self.connection.subscribe("/queue/out", prefetch=20) as subscription:
            while len(self.received) < count:
                message = await anext(subscription)
                self.received[message.text] += 1
                await message.acknowledge()


def restarted(broker: Broker) -> None:
    """ActiveMQ is killed and started again; RabbitMQ takes too many seconds for that."""
    if broker.name == "activemq":
        broker.process.kill()
        broker.process.wait()
        broker.start()


@asynccontextmanager
async def commit_may_be_unknown() -> AsyncIterator[None]:
    """Closing tells of a commit that was cancelled while its link was lost: nobody else can."""
    try:
        yield
    except LinkLostError as error:
        if "while it was committed" not in str(error):
            raise


def test_links_that_are_cut_lose_nothing(other) -> None:
    """
    Everything sent arrives at least once, though the link breaks again and again and the broker is
    killed; and whatever a broken link had brought is acknowledged to nobody.
    """
    count, cuts = 30, 8

    async def scenario() -> None:
        chance = random.Random(9)
        async with (
            relay_to(other) as relay,
            commit_may_be_unknown(),
            connected(relay, other) as connection,
        ):
            work = Work(connection)

            def cut_again(_event: object) -> None:
                if len(relay.conversations) <= cuts:
                    relay.cut_after = chance.randint(4, 30)

            connection.on_resumed(cut_again)
            relay.cut_after = 10
            async with asyncio.TaskGroup() as group:
                group.create_task(work.send(count))
                moving = group.create_task(work.move())
                await asyncio.to_thread(restarted, other)
                await work.receive(count)
                moving.cancel()
            assert set(work.received) == {str(number) for number in range(count)}
            assert len(relay.conversations) > 3

    asyncio.run(scenario())
