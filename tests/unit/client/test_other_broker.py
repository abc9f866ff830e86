"""
Another broker than Holdfast: nothing is said there that only Holdfast understands.

The broker of these tests forgets deliveries with their link, hangs up on whoever acknowledges what
was not delivered on the same link, stores what it is sent as often as it is sent, and, as RabbitMQ
does, confirms the sends of a transaction only after the COMMIT. tests/integration has real ones.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from scripted_broker import ScriptedBroker, Served, Store, id_of

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.errors import (
    ConfigError,
    LinkLostError,
    LocalProtocolError,
    TransactionError,
    UnknownDeliveryError,
)
from holdfast.protocols.stomp.frames import AcknowledgeFrame, SendFrame

QUEUE = "/queue/a"


class ServedElsewhere(Served):
    """One connection of the other broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        super().__init__(broker)
        self.late_receipts: list[bytes | None] = []

    def settle(self, frame: AcknowledgeFrame) -> bool:
        known = [id for served in self.subscriptions.values() for id in served.under_way]
        if id_of(frame) not in known:
            self.send("ERROR", message=f"{id_of(frame)} was not delivered on this link")
            self.transport.close()
            return False
        return super().settle(frame)

    def serve_send(self, frame: SendFrame) -> None:
        transaction = frame.block.headers.get("transaction")
        if transaction is None:
            super().serve_send(frame)
        else:
            self.transactions[transaction].append(frame)
            self.late_receipts.append(frame.receipt)

    def serve_commit(self, frame) -> None:
        super().serve_commit(frame)
        for receipt in self.late_receipts:
            self.receipt(receipt)


class OtherBroker(ScriptedBroker):
    """It tells no cluster in CONNECTED."""

    served = ServedElsewhere

    def greeting(self) -> dict[str, str]:
        return {"server": "Other/1"}


def filled(*bodies: str) -> Store:
    store = Store()
    for body in bodies:
        store.put(QUEUE, {"persistent": "true"}, body.encode())
    return store


async def interrupted(broker: ScriptedBroker, connection: Connection) -> None:
    """The link breaks; the client comes back, and the broker has its subscriptions again."""
    count = len(broker.frames("CONNECT"))
    subscribed = len(broker.frames("SUBSCRIBE"))
    broker.hang_up()
    await broker.saw(lambda: len(broker.frames("CONNECT")) > count)
    if subscribed:
        await broker.saw(lambda: len(broker.frames("SUBSCRIBE")) > subscribed)
    await connection.send("/topic/nobody", b"", persistent=False)


async def test_what_only_holdfast_knows_is_not_sent() -> None:
    """No number, no id of a producer: another broker would hand them to the consumers."""
    async with OtherBroker() as broker, connect(broker.uri) as connection:
        assert connection.cluster is None
        await connection.send(QUEUE, b"single")
        producer = connection.producer(QUEUE)
        await producer.send(b"one")
        await producer.flush()
        async with connection.transaction() as transaction:
            await transaction.send(QUEUE, b"two")
        assert broker.store.bodies(QUEUE) == [b"single", b"one", b"two"]
        sent = [frame.block.headers for frame in broker.sends]
        sent += [frame.headers for frame in broker.frames("COMMIT")]
        assert not [name for headers in sent for name in headers if name.startswith("producer")]
        with pytest.raises(ConfigError, match="needs a Holdfast"):
            connection.producer(QUEUE, producer_id="mine")


async def test_a_cluster_says_who_it_is() -> None:
    """An application can ask whether the promises of Holdfast are made."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        assert connection.cluster == "c1"


async def test_the_prefetch_is_said_in_both_words() -> None:
    """RabbitMQ does not know ActiveMQ's: it would deliver the whole queue at once."""
    async with (
        OtherBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, prefetch=7),
    ):
        (frame,) = broker.frames("SUBSCRIBE")
        words = {"activemq.prefetchSize": "7", "prefetch-count": "7"}
        assert words.items() <= frame.headers.items()


async def test_a_wildcard_is_subscribed_to_without_a_receipt() -> None:
    """ActiveMQ would deliver nothing of it; an empty transaction behind it has the receipt."""
    async with (
        OtherBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe("/queue/a.>"),
        connection.subscribe(QUEUE),
    ):
        wild, plain = broker.frames("SUBSCRIBE")
        (behind,) = broker.frames("COMMIT")
        assert "receipt" not in wild.headers
        assert behind.headers["receipt"]
        assert plain.headers["receipt"]


@pytest.mark.parametrize("marks", [True, False])
async def test_what_is_sent_again_may_say_so(marks: bool) -> None:
    """The broker may have stored it before the link was lost: only a number could tell."""
    async with (
        OtherBroker() as broker,
        connect(broker.failover(), marks_repeats=marks) as connection,
    ):
        broker.is_holding = True
        producer = connection.producer(QUEUE)
        single = asyncio.ensure_future(connection.send(QUEUE, b"single"))
        await producer.send(b"one")
        await broker.saw(lambda: len(broker.sends) == 2)
        broker.is_holding = False
        broker.hang_up()
        await producer.flush()
        await single
        said = [it.block.headers.get("possible-duplicate") for it in broker.sends]
        assert said == [None, None, *["true" if marks else None] * 2]
        assert len(broker.store.bodies(QUEUE)) == 4


@pytest.mark.parametrize("mode", ["client", "client-individual", "auto"])
async def test_nothing_is_acknowledged_late(mode) -> None:
    """What a lost link had brought comes again, and only that is acknowledged."""
    async with (
        OtherBroker(filled("1", "2", "3")) as broker,
        connect(broker.failover()) as connection,
        connection.subscribe(QUEUE, acknowledge=mode) as subscription,
    ):
        old = [await anext(subscription) for _ in range(2)]
        broker.is_deaf = True
        await old[0].acknowledge()
        broker.is_deaf = False
        await interrupted(broker, connection)
        # Of the first it is not known, of the second it is known that nobody has heard.
        for message in old:
            await message.acknowledge()
        for message in old:
            with pytest.raises(UnknownDeliveryError, match="is lost"):
                await message.acknowledge(confirm=True)
        again = []
        while len(again) < 3:
            again.append(await anext(subscription))
            if mode != "client" or len(again) == 3:
                await again[-1].acknowledge(confirm=True)
        assert [message.text for message in again] == ["1", "2", "3"]
        assert broker.store.bodies(QUEUE) == []
        assert len(broker.connections) == 1
        assert len(broker.frames("CONNECT")) == 2


async def test_a_confirmed_acknowledgement_is_certain_or_an_error() -> None:
    """Under way when the link breaks its outcome is unknown; after that the message has gone."""
    async with (
        OtherBroker(filled("1", "2")) as broker,
        connect(broker.failover()) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        one, two = [await anext(subscription) for _ in range(2)]
        broker.is_holding = True
        outcome = subscription.settle(one, b"ACK", confirm=True)
        await broker.saw(lambda: broker.store.settled)
        broker.is_holding = False
        await interrupted(broker, connection)
        with pytest.raises(LinkLostError):
            await outcome
        with pytest.raises(UnknownDeliveryError, match="will deliver"):
            await two.acknowledge(confirm=True)
        assert subscription.held_count == 0
        again = await anext(subscription)
        assert (again.text, again.redelivered) == ("2", True)


async def test_leaving_a_subscription_ends_its_deliveries() -> None:
    """The broker takes back what was not acknowledged: it is told nothing of that any more."""
    async with OtherBroker(filled("1")) as broker, connect(broker.uri) as connection:
        async with connection.subscribe(QUEUE) as subscription:
            message = await anext(subscription)
        await message.acknowledge()
        with pytest.raises(UnknownDeliveryError, match="taken message"):
            await connection.transaction().acknowledge(message)
        async with connection.subscribe(QUEUE) as subscription:
            await (await anext(subscription)).acknowledge(confirm=True)
        assert len(broker.settlements) == 1


async def test_closing_in_an_outage_tells_what_is_not_certain() -> None:
    """Nobody can be told of the acknowledgements later: closing waits for nobody, and says so."""
    async with OtherBroker(filled("1")) as broker:
        connection = await connect(broker.failover(), close_seconds_max=1000)
        subscription = await connection.subscribe(QUEUE).open()
        await (await anext(subscription)).acknowledge()
        await broker.saw(lambda: broker.store.settled)
        broker.kill()
        while connection.address is not None:
            await connection.events().__anext__()
        with pytest.raises(LinkLostError, match="may come again"):
            await connection.close()


async def left(broker: ScriptedBroker, connection: Connection, subscription: Subscription) -> None:
    """The link breaks and is there again, and what was delivered before is delivered again."""
    await interrupted(broker, connection)
    await anext(subscription)


async def begun(
    broker: ScriptedBroker, connection: Connection, message: Message | None
) -> tuple[object, object]:
    """A transaction whose answers the broker holds back, and the task that waits for them."""
    transaction = connection.transaction()
    await transaction.send("/queue/out", b"1")
    if message is not None:
        await transaction.acknowledge(message)
    broker.is_holding = True
    task = connection._session.loop.create_task(transaction.commit())
    await broker.saw(lambda: broker.frames("ABORT"))
    return transaction, task


async def test_a_transaction_of_sends_is_said_again_before_its_commit() -> None:
    """The broker has rolled it back: nothing is in doubt, and nothing is stored twice."""
    async with OtherBroker() as broker, connect(broker.failover()) as connection:
        _, commit = await begun(broker, connection, None)
        broker.is_holding = False
        await interrupted(broker, connection)
        await commit
        assert broker.store.bodies("/queue/out") == [b"1"]
        assert len(broker.frames("COMMIT")) == 1


async def test_a_transaction_whose_messages_came_over_a_lost_link_has_failed() -> None:
    """Its acknowledgements can never be said again; the messages come again."""
    async with (
        OtherBroker(filled("in")) as broker,
        connect(broker.failover()) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        message = await anext(subscription)
        _, commit = await begun(broker, connection, message)
        broker.is_holding = False
        await left(broker, connection, subscription)
        with pytest.raises(TransactionError, match="nothing of it was done"):
            await commit
        assert broker.frames("COMMIT") == []
        with pytest.raises(UnknownDeliveryError, match="taken message"):
            await connection.transaction().acknowledge(message)


async def test_a_commit_that_was_under_way_is_not_repeated() -> None:
    """It may have been done; done again it would send everything twice."""
    async with OtherBroker() as broker, connect(broker.failover()) as connection:
        broker.answer = partial(broker_without_commit_receipts, broker)
        transaction = connection.transaction()
        await transaction.send("/queue/out", b"1")
        task = connection._session.loop.create_task(transaction.commit())
        await broker.saw(lambda: broker.frames("COMMIT"))
        await interrupted(broker, connection)
        with pytest.raises(LinkLostError, match="whether it was done is unknown"):
            await task
        assert broker.store.bodies("/queue/out") == [b"1"]


def broker_without_commit_receipts(broker: ScriptedBroker, write) -> None:
    if not broker.frames("COMMIT") or len(broker.frames("CONNECT")) > 1:
        write()


async def test_a_refused_part_commits_nothing() -> None:
    """The error of a part arrives before the answer to what stands behind all parts."""
    async with OtherBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("denied", "not there")
            if isinstance(event, SendFrame) and event.block.headers["destination"] == "/queue/no"
            else None
        )
        with pytest.raises(Exception, match="not there"):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/out", b"1")
                await transaction.send("/queue/no", b"2")
        assert broker.frames("COMMIT") == []
        assert broker.store.bodies("/queue/out") == []


async def test_a_connection_that_began_with_a_cluster_uses_no_other_broker() -> None:
    """What was promised there, the other broker cannot keep: it is passed over."""
    async with ScriptedBroker() as ours, OtherBroker() as other:
        async with connect(ours.failover(other)) as connection:
            events = connection.events()
            ours.hang_up()
            await anext(events)
            await anext(events)
            assert connection.address == ours.uri
            assert other.frames("SUBSCRIBE") == []


async def test_a_broker_that_is_replaced_by_a_cluster_is_told_nothing_of_before() -> None:
    """From then on everything is numbered; what another broker had delivered is not settled."""
    async with OtherBroker(filled("1")) as other, ScriptedBroker(filled("1")) as ours:
        async with (
            connect(other.failover(ours)) as connection,
            connection.subscribe(QUEUE) as subscription,
        ):
            message = await anext(subscription)
            await message.acknowledge()
            await other.saw(lambda: other.store.settled)
            other.kill()
            again = await anext(subscription)
            assert connection.cluster == "c1"
            assert ours.settlements == []
            await again.acknowledge(confirm=True)
            producer = connection.producer(QUEUE, producer_id="mine")
            await producer.send(b"2")
            await producer.flush()
            assert ours.sends[-1].producer_sequence == b"1"


async def test_nothing_is_given_back_to_a_broker_that_would_not_let_it_come_again() -> None:
    """ActiveMQ would put it on its dead-letter queue; the message can be settled otherwise."""
    async with OtherBroker() as broker, connect(broker.uri) as connection:
        broker.store.put(QUEUE, {}, b"1")
        async with connection.subscribe(QUEUE) as subscription:
            message = await anext(subscription)
            with pytest.raises(LocalProtocolError, match="no Holdfast"):
                await message.give_back()
            await message.reject()
            await broker.saw(lambda: broker.store.rejected)
