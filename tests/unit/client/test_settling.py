"""
What an application is told of its acknowledgements: confirmed, refused, or not certain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from scripted_broker import ScriptedBroker
from threaded_broker import Threaded
from two_leaders import QUEUE, filled, take, two_leaders

from holdfast.client import Connection, Message, Subscription, blocking, connect
from holdfast.errors import LinkLostError, UnknownDeliveryError
from holdfast.protocols.stomp.frames import AcknowledgeFrame


def refuse_bodies(broker: ScriptedBroker, *bodies: bytes) -> None:
    """Refuse acknowledgements of these messages, whose consumer is somebody else meanwhile."""

    def refuse(event: object) -> tuple[str, str] | None:
        if not isinstance(event, AcknowledgeFrame):
            return None
        id = broker.settled_ids[-1]
        messages = [*broker.store.messages[QUEUE], *under_way(broker, id)]
        wanted = [message.body for message in messages if message.id == id]
        wanted += [message.body for message in under_way(broker, id)]
        return ("unknown-delivery", "somebody else has it") if set(wanted) & set(bodies) else None

    broker.refuse = refuse


def under_way(broker: ScriptedBroker, delivery: str) -> list[Any]:
    return [
        subscription.under_way[delivery]
        for connection in broker.connections
        for subscription in connection.subscriptions.values()
        if delivery in subscription.under_way
    ]


async def until(connection: Connection, condition: Callable[[], Any]) -> None:
    """Ask the broker until the condition holds: each answer brings what came before."""
    while not condition():
        await connection.send("/topic/nobody", b"", persistent=False)


async def lose(connection: Connection, first: ScriptedBroker) -> None:
    """Kill the broker, and wait until the next one is there."""
    events = connection.events()
    first.kill()
    await anext(events)
    await anext(events)


async def test_closing_tells_of_a_rejection_that_was_lost_with_its_link() -> None:
    """No later receipt makes it certain: not that of another message, nor that of the goodbye."""
    store = filled("1", "2")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        connection = await connect(first.failover(second))
        async with connection.subscribe(QUEUE) as subscription:
            one, two = await take(subscription, 2)
            first.is_deaf = True
            await one.reject()
            await asyncio.sleep(0)
            second.is_dispatching = False
            await lose(connection, first)
            await two.acknowledge(confirm=True)
        with pytest.raises(LinkLostError, match="the last 1 ack"):
            await connection.close()
        assert (store.settled, store.rejected) == ([two.id], [])


async def test_a_rejection_waits_for_the_redelivery_of_what_was_held() -> None:
    """Said before the message comes again it would be refused; said with it, it is done."""
    store = filled("1")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        second.is_dispatching = False
        async with (
            connect(first.failover(second)) as connection,
            connection.subscribe(QUEUE) as subscription,
        ):
            (one,) = await take(subscription, 1)
            await lose(connection, first)
            await one.reject()
            assert second.settlements == []
            second.is_dispatching = True
            second.dispatch()
            await second.saw(lambda: store.rejected)
        assert store.rejected == [one.id]


async def test_a_rejection_after_unsubscribing_is_refused() -> None:
    """The link is the same, so the broker is asked, and has given the message back."""
    async with ScriptedBroker(filled("1")) as broker, connect(broker.uri) as connection:
        async with connection.subscribe(QUEUE) as subscription:
            (one,) = await take(subscription, 1)
        with pytest.raises(UnknownDeliveryError, match="not delivered here"):
            await one.reject(confirm=True)


@pytest.mark.parametrize("is_naming", [True, False])
async def test_closing_tells_of_an_acknowledgement_that_was_refused(is_naming: bool) -> None:
    """It asked for no receipt, and the receipts after it say nothing of it."""
    async with ScriptedBroker(filled("1", "2")) as broker:
        broker.is_naming = is_naming
        refuse_bodies(broker, b"1")
        connection = await connect(broker.uri)
        subscription = await connection.subscribe(QUEUE).open()
        one, two = await take(subscription, 2)
        await one.acknowledge()
        await two.acknowledge(confirm=True)
        with pytest.raises(UnknownDeliveryError, match="somebody else"):
            await connection.close()
        assert broker.store.settled == [two.id]


async def test_a_confirmed_cumulative_acknowledgement_tells_of_each_that_was_refused() -> None:
    """The rest of them is done when the error is there, and closing does not tell it again."""
    store = filled("1", "2", "3")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        refuse_bodies(second, b"1", b"2")
        second.is_dispatching = False
        async with (
            connect(first.failover(second)) as connection,
            connection.subscribe(QUEUE, acknowledge="client") as subscription,
        ):
            one, two, three = await take(subscription, 3)
            await lose(connection, first)
            with pytest.raises(UnknownDeliveryError, match="somebody else"):
                await three.acknowledge(confirm=True)
            assert store.settled == [three.id]
            for message in (one, two, three):
                with pytest.raises(UnknownDeliveryError):
                    await message.acknowledge(confirm=True)


@pytest.mark.parametrize("confirm", [True, False])
async def test_what_the_broker_counts_with_a_refused_message_is_done_alone(confirm: bool) -> None:
    """
    One frame stands for all three, and is refused for one: each is said again by its own name.

    Else two that nobody else has would stay in delivery as long as the link lives.
    """
    async with ScriptedBroker(filled("1", "2", "3")) as broker:
        refuse_bodies(broker, b"3")
        connection = await connect(broker.uri)
        subscription = await connection.subscribe(QUEUE, acknowledge="client").open()
        one, two, three = await take(subscription, 3)
        if confirm:
            with pytest.raises(UnknownDeliveryError, match="somebody else"):
                await three.acknowledge(confirm=True)
            await one.acknowledge(confirm=True)
            with pytest.raises(UnknownDeliveryError):
                await three.acknowledge(confirm=True)
            await connection.close()
        else:
            await three.acknowledge()
            with pytest.raises(UnknownDeliveryError, match="somebody else") as caught:
                await connection.close()
            assert not any("messages" in note for note in caught.value.__notes__)
        assert broker.store.settled == [one.id, two.id]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("confirm", [True, False])
async def test_one_message_had_twice_is_settled_twice(mode: Any, confirm: bool) -> None:
    """
    A subscription that ended had it, and another one of the connection was given it then.

    The word about the one settles the other, which is not in delivery any more; five cumulative
    acknowledgements were refused for that in a storm, with the broker's "not in delivery".
    """
    async with ScriptedBroker(filled("1", "2", "3")) as broker:
        connection = await connect(broker.uri)
        ended = await connection.subscribe(QUEUE, prefetch=1).open()
        (one,) = await take(ended, 1)
        subscription = await connection.subscribe(QUEUE, acknowledge=mode).open()
        two, three = await take(subscription, 2)
        await ended.close()
        (again,) = await take(subscription, 1)
        assert (again.id, again.redelivered) == (one.id, True)
        await one.acknowledge()
        if mode != "client":
            await two.acknowledge()
            await three.acknowledge()
        await again.acknowledge(confirm=confirm)
        await connection.close()
        assert sorted(broker.store.settled) == sorted([one.id, two.id, three.id])
        assert not broker.store.messages[QUEUE]


async def had_twice(
    broker: ScriptedBroker, received_bytes_max: int = 1_000_000
) -> tuple[Connection, Message, Subscription]:
    """What an ended subscription has, and another one that was given it, too."""
    connection = await connect(broker.uri, received_bytes_max=received_bytes_max)
    ended = await connection.subscribe(QUEUE, prefetch=1).open()
    (one,) = await take(ended, 1)
    subscription = await connection.subscribe(QUEUE).open()
    await ended.close()
    await until(connection, lambda: subscription.buffered_count == 2)
    return connection, one, subscription


@pytest.mark.parametrize("received_bytes_max", [1, 1_000_000])
@pytest.mark.parametrize("is_by_commit", [True, False])
async def test_what_is_acknowledged_late_is_shown_by_no_other_subscription(
    is_by_commit: bool, received_bytes_max: int
) -> None:
    """It lay there when the acknowledgement was confirmed; it must not come after that."""
    async with ScriptedBroker(filled("1", "2")) as broker:
        connection, one, subscription = await had_twice(broker, received_bytes_max)
        if is_by_commit:
            async with connection.transaction() as transaction:
                await transaction.acknowledge(one)
        else:
            await one.acknowledge(confirm=True)
        assert subscription.buffered_count == 1
        (two,) = await take(subscription, 1)
        assert two.text == "2"
        await two.acknowledge()
        await connection.close()
        assert connection._session.buffered_bytes == 0


async def test_what_is_rejected_late_is_shown_by_another_subscription() -> None:
    """A rejection is of a delivery: the one that lies there is the only one left to say it of."""
    async with ScriptedBroker(filled("1", "2")) as broker:
        connection, one, subscription = await had_twice(broker)
        await one.reject()
        assert sorted([each.text for each in await take(subscription, 2)]) == ["1", "2"]
        await connection.close(is_graceful=False)


async def test_a_refusal_that_was_told_shows_the_message_again() -> None:
    """Whoever was told that it is not done must see it; who was not is spared that."""
    store = filled("1", "2")
    async with two_leaders(store) as (first, _, connection, subscription):
        refuse_bodies(first, b"1", b"2")
        one, two = await take(subscription, 2)
        await one.acknowledge()
        with pytest.raises(UnknownDeliveryError):
            await two.acknowledge(confirm=True)
        await lose(connection, first)
        (again,) = await take(subscription, 1)
        assert (again.text, again.redelivered) == ("2", True)
        await again.acknowledge(confirm=True)
    assert sorted(store.settled) == [one.id, two.id]


@pytest.mark.parametrize("verb", ["acknowledge", "reject"])
async def test_what_is_refused_is_not_shown_before_that_is_told(verb: str) -> None:
    """Somebody else gave it back meanwhile: the new delivery settles it, and is confirmed."""
    store = filled("1")
    async with two_leaders(store) as (first, second, connection, subscription):
        (one,) = await take(subscription, 1)
        first.is_deaf = True
        waiting = asyncio.create_task(getattr(one, verb)(confirm=True))
        await asyncio.sleep(0)
        refused: list[str] = []

        def refuse_late(event: object) -> tuple[str, str] | None:
            if not isinstance(event, AcknowledgeFrame) or refused:
                return None
            refused.append(verb)
            return "unknown-delivery", "somebody else has it"

        if verb == "acknowledge":
            second.refuse = refuse_late
        await lose(connection, first)
        await waiting
        assert subscription.buffered_count == subscription.held_count == 0
        assert store.settled == [one.id] or store.rejected == [one.id]
        assert [frame.negative for frame in second.settlements][-1] == (verb == "reject")
        assert bool(refused) == (verb == "acknowledge")


async def test_a_second_confirmed_acknowledgement_waits_as_the_first_does() -> None:
    """Given up or without a receipt before: it returns when the broker has stored it."""
    async with (
        ScriptedBroker(filled("1", "2")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="client") as subscription,
    ):
        one, two = await take(subscription, 2)
        broker.is_holding = True
        given_up = asyncio.create_task(two.acknowledge(confirm=True))
        await broker.saw(lambda: len(broker.settlements) == 1)
        given_up.cancel()
        waiting = [asyncio.create_task(it.acknowledge(confirm=True)) for it in (one, two)]
        await broker.saw(lambda: len(broker.frames("COMMIT")) == 2)
        assert not any(task.done() for task in waiting)
        broker.release()
        await asyncio.gather(*waiting)
        await two.acknowledge(confirm=True)
        assert len(broker.frames("COMMIT")) == 2


async def test_a_second_confirmed_acknowledgement_waits_over_an_outage() -> None:
    """Of what was acknowledged or rejected while no broker was there, too."""
    store = filled("1", "2")
    async with ScriptedBroker(store) as broker:
        async with (
            connect(broker.failover()) as connection,
            connection.subscribe(QUEUE) as subscription,
        ):
            one, two = await take(subscription, 2)
            events = connection.events()
            broker.kill()
            await anext(events)
            await one.acknowledge()
            await two.reject()
            waiting = asyncio.create_task(one.acknowledge(confirm=True))
            await asyncio.sleep(0)
            assert not waiting.done()
            with pytest.raises(LinkLostError, match="rejected again"):
                await two.reject(confirm=True)
            async with ScriptedBroker(store, port=broker.port) as again:
                await waiting
                assert store.settled == [one.id]
                await again.saw(lambda: store.rejected == [two.id])
                await connection.close()


async def test_cumulation_after_a_failover_covers_what_the_application_let_go_of() -> None:
    """In mode "client" nobody keeps what a later acknowledgement covers anyway."""
    store = filled("1", "2", "3")
    async with two_leaders(store, acknowledge="client") as (first, second, connection, consumer):
        last = (await take(consumer, 3))[-1]
        await lose(connection, first)
        await until(connection, lambda: len(second.frames("SUBSCRIBE")))
        await last.acknowledge(confirm=True)
        assert len(store.settled) == 3
        assert consumer.held_count == 0


async def test_a_late_acknowledgement_that_meets_the_redelivery_is_said_once() -> None:
    """The broker settles the delivery by it; said again it would be refused, and told as that."""
    store = filled("1")
    async with two_leaders(store) as (first, second, connection, subscription):
        (one,) = await take(subscription, 1)
        second.is_dispatching = False
        await lose(connection, first)
        await one.acknowledge()
        second.is_dispatching = True
        # In the turn in which the acknowledgement is on its way to it.
        second.dispatch()
        await until(connection, lambda: second.settlements)
        assert subscription.buffered_count == 0
    assert second.settled_ids == [one.id]


async def test_closing_a_broken_connection_tells_what_is_not_certain() -> None:
    """A plain link that is lost takes acknowledgements with it as any other does."""
    async with ScriptedBroker(filled("1")) as broker:
        connection = await connect(broker.uri)
        subscription = await connection.subscribe(QUEUE).open()
        (one,) = await take(subscription, 1)
        broker.is_deaf = True
        await one.acknowledge()
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await anext(subscription)
        with pytest.raises(LinkLostError):
            await one.acknowledge(confirm=True)
        with pytest.raises(LinkLostError, match="the last 1 ack"):
            await connection.close()
        await connection.close()


def test_closing_tells_what_a_plain_function_could_not_acknowledge(threaded: Threaded) -> None:
    """Without `confirm` the call does not wait, so it cannot say that the connection has ended."""
    threaded.do(lambda: threaded.broker.store.put(QUEUE, {"persistent": "true"}, b"1"))
    connection = blocking.connect(threaded.broker.uri)
    with connection.subscribe(QUEUE) as subscription:
        message = next(subscription)
        threaded.do(threaded.broker.hang_up)
        with pytest.raises(LinkLostError):
            next(subscription)
        message.acknowledge()
        with pytest.raises(LinkLostError):
            connection.close()
