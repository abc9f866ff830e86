"""
Subscriptions: taking, settling, and what survives a failover.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from functools import partial

import pytest
from scripted_broker import ScriptedBroker, Store
from two_leaders import QUEUE, filled, take, two_leaders

from holdfast.client import Interrupted, Subscription, connect
from holdfast.client.overflow import OverflowFile
from holdfast.errors import (
    ConfigError,
    LinkLostError,
    LocalProtocolError,
    RefusedError,
    TransactionError,
    UnknownDeliveryError,
)


async def test_messages_arrive_in_order_and_are_acknowledged_one_by_one() -> None:
    """What was put is taken with its headers; each acknowledgement settles its own message."""
    async with (
        ScriptedBroker(filled("1", "2", "3")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, selector="n > 1", prefetch=10) as subscription,
    ):
        one, two, three = await take(subscription, 3)
        assert [one.text, two.body, three.text] == ["1", b"2", "3"]
        assert (one.destination, one.redelivered, one.persistent) == (QUEUE, False, True)
        assert one.id in repr(one)
        await two.acknowledge(confirm=True)
        assert two.is_settled
        assert broker.store.settled == [two.id]
        assert subscription.held_count == 2
        (frame,) = broker.frames("SUBSCRIBE")
        assert frame.headers["selector"] == "n > 1"
        assert frame.headers["activemq.prefetchSize"] == "10"
        assert frame.headers["ack"] == "client-individual"


async def test_what_is_claimed_before_others_is_said() -> None:
    """And nothing is, where nothing is claimed; a priority that there is not is refused here."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with (
            connection.subscribe(QUEUE),
            connection.subscribe(QUEUE, exclusive=True, priority=-128),
        ):
            pass
        plain, claiming = (frame.headers for frame in broker.frames("SUBSCRIBE"))
        assert not {"activemq.exclusive", "activemq.priority"} & plain.keys()
        assert claiming["activemq.exclusive"] == "true"
        assert claiming["activemq.priority"] == "-128"
        for priority in (-129, 128):
            with pytest.raises(ConfigError, match="priority"):
                connection.subscribe(QUEUE, priority=priority)


async def test_an_acknowledgement_without_confirm_does_not_wait() -> None:
    """It is on its way when the call returns; the broker has it in the end."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        (message,) = await take(subscription, 1)
        await message.acknowledge()
        await message.acknowledge()
        await broker.saw(lambda: broker.store.settled)
        assert len(broker.settlements) == 1
        assert broker.settlements[0].receipt is None
        with pytest.raises(UnknownDeliveryError):
            await message.reject()


async def test_a_rejected_message_is_told_so() -> None:
    """NACK moves it to the dead letters, with a receipt if wanted."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        (message,) = await take(subscription, 1)
        await message.reject(confirm=True)
        assert broker.store.rejected == [message.id]


async def test_cumulative_acknowledging_covers_all_taken_before() -> None:
    """In mode "client" everything taken up to the message is settled, by one frame."""
    async with (
        ScriptedBroker(filled("1", "2", "3", "4")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="client") as subscription,
    ):
        one, two, three, four = await take(subscription, 4)
        await three.acknowledge(confirm=True)
        assert broker.store.settled == [one.id, two.id, three.id]
        assert (one.is_settled, two.is_settled, four.is_settled) == (True, True, False)
        assert len(broker.settlements) == 1


async def test_auto_acknowledges_when_the_next_is_asked_for() -> None:
    """A message counts as done when the loop comes back, and the last one when it ends well."""
    async with ScriptedBroker(filled("1", "2")) as broker, connect(broker.uri) as connection:
        async with connection.subscribe(QUEUE, acknowledge="auto") as subscription:
            async for message in subscription:
                if message.text == "2":
                    await broker.saw(lambda: len(broker.store.settled) == 1)
                    break
        assert len(broker.store.settled) == 2


async def test_auto_does_not_acknowledge_what_failed() -> None:
    """A message whose processing raised is delivered again."""
    async with ScriptedBroker(filled("1")) as broker, connect(broker.uri) as connection:
        with pytest.raises(ValueError, match="mine"):
            async with connection.subscribe(QUEUE, acknowledge="auto") as subscription:
                async for _ in subscription:
                    raise ValueError("mine")
        assert broker.store.settled == []
        async with connection.subscribe(QUEUE, acknowledge="auto") as subscription:
            assert (await anext(subscription)).redelivered


async def test_receive_waits_no_longer_than_told() -> None:
    """None if nothing comes in time; 0 takes only what is here."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        message = await subscription.receive()
        assert message is not None
        assert message.text == "1"
        assert await subscription.receive(0) is None
        assert await subscription.receive(0.001) is None
        assert subscription.buffered_count == 0


async def test_iterating_ends_when_the_connection_is_closed() -> None:
    """Closing by the application is an end, not an error."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.uri)
        subscription = await connection.subscribe(QUEUE).open()
        taking = asyncio.create_task(anext(subscription, "the end"))
        await asyncio.sleep(0)
        await connection.close()
        assert await taking == "the end"


async def test_a_lost_plain_link_is_an_error_for_the_reader() -> None:
    """Without failover the iterator raises what happened."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        taking = asyncio.create_task(anext(subscription))
        await asyncio.sleep(0)
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await taking


async def test_a_refused_subscription_raises_on_entering() -> None:
    """The broker's words reach the application, and the connection lives on."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("destination", "no such") if event in broker.frames("SUBSCRIBE") else None
        )
        with pytest.raises(RefusedError, match="no such"):
            async with connection.subscribe(QUEUE):
                pass
        await connection.send(QUEUE, b"1")


async def test_subscriptions_are_restored_and_the_unseen_is_dropped() -> None:
    """After a failover the buffer is empty, and the new leader delivers everything unsettled."""
    store = filled("1", "2", "3")
    async with two_leaders(store) as (first, _, connection, subscription):
        events = connection.events()
        (one,) = await take(subscription, 1)
        await one.acknowledge(confirm=True)
        first.kill()
        await anext(events)
        assert subscription.buffered_count == 0
        two, three = await take(subscription, 2)
        assert [two.text, three.text] == ["2", "3"]
        assert two.redelivered


async def test_what_the_application_holds_is_not_shown_twice() -> None:
    """A held message that is delivered again is tied to the new delivery, then acknowledged."""
    store = filled("1", "2")
    async with two_leaders(store) as (first, second, connection, subscription):
        events = connection.events()
        (one,) = await take(subscription, 1)
        first.kill()
        await anext(events)
        (two,) = await take(subscription, 1)
        assert two.text == "2"
        await one.acknowledge(confirm=True)
        assert second.settled_ids[-1].startswith("d")
        assert store.settled == [one.id]


async def test_late_acknowledgements_go_by_message_id() -> None:
    """Acknowledged while no broker was there: said first of all on the new link."""
    store = filled("1")
    async with ScriptedBroker(store) as broker:
        async with (
            connect(broker.failover()) as connection,
            connection.subscribe(QUEUE) as subscription,
        ):
            events = connection.events()
            (one,) = await take(subscription, 1)
            broker.kill()
            await anext(events)
            await one.acknowledge()
            confirming = asyncio.create_task(asyncio.sleep(0))
            async with ScriptedBroker(store, port=broker.port) as again:
                await again.saw(lambda: again.frames("SUBSCRIBE"))
                commands = [type(event).__name__ for event in again.events[1:3]]
                assert commands == ["AcknowledgeFrame", "Frame"]
                assert again.settled_ids[0] == one.id
                assert await subscription.receive(0) is None
                await connection.close()
            await confirming
        assert store.settled == [one.id]


async def test_closing_in_an_outage_waits_for_who_takes_the_acknowledgements() -> None:
    """What was acknowledged and rejected before the end of the block is settled after it."""
    store = filled("1", "2")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        connection = await connect(first.failover(second))
        subscription = await connection.subscribe(QUEUE).open()
        one, two = await take(subscription, 2)
        events = connection.events()
        second.kill()
        first.kill()
        assert isinstance(await anext(events), Interrupted)
        await one.acknowledge()
        await two.reject()
        closing = asyncio.create_task(connection.close())
        async with ScriptedBroker(store, port=second.port):
            await closing
        assert (store.settled, store.rejected) == ([one.id], [two.id])


@pytest.mark.parametrize("is_answering", [True, False])
async def test_closing_tells_of_acknowledgements_that_nobody_took(is_answering: bool) -> None:
    """No broker comes, or the one there is does not answer: an error, and not for ever."""
    async with ScriptedBroker(filled("1")) as broker:
        connection = await connect(broker.failover(), close_seconds_max=0.01)
        subscription = await connection.subscribe(QUEUE).open()
        (one,) = await take(subscription, 1)
        if is_answering:
            events = connection.events()
            broker.kill()
            await anext(events)
        broker.is_deaf = True
        await one.acknowledge()
        with pytest.raises(LinkLostError, match="the last 1 ack"):
            await connection.close()
        await connection.close()
        assert connection.is_closed


async def test_closing_is_quiet_when_the_goodbye_was_answered() -> None:
    """The receipt of DISCONNECT makes every acknowledgement certain, whatever comes after it."""
    async with ScriptedBroker(filled("1")) as broker:
        async with connect(broker.failover()) as connection:
            subscription = await connection.subscribe(QUEUE).open()
            (one,) = await take(subscription, 1)
            await one.acknowledge()
        assert broker.store.settled == [one.id]


async def test_a_lost_acknowledgement_is_said_again_and_the_message_not_shown() -> None:
    """The broker died before it read the acknowledgement; the application never sees it again."""
    store = filled("1", "2")
    async with two_leaders(store) as (first, _, connection, subscription):
        (one,) = await take(subscription, 1)
        first.is_deaf = True
        await one.acknowledge()
        events = connection.events()
        first.kill()
        await anext(events)
        (two,) = await take(subscription, 1)
        assert (two.text, two.redelivered) == ("2", True)
        assert store.settled == [one.id]


async def test_a_confirmed_acknowledgement_waits_over_a_failover() -> None:
    """`confirm` returns when some leader has stored it."""
    store = filled("1")
    async with two_leaders(store) as (first, _, _, subscription):
        (one,) = await take(subscription, 1)
        first.is_deaf = True
        confirming = asyncio.create_task(one.acknowledge(confirm=True))
        await asyncio.sleep(0)
        first.kill()
        await confirming
        assert store.settled == [one.id]


async def test_a_lost_rejection_is_repeated_when_the_message_comes_again() -> None:
    """A new leader rejects only what it delivered, so the rejection waits for that."""
    store = filled("1", "2", "3")
    async with two_leaders(store) as (first, _, connection, subscription):
        one, two = await take(subscription, 2)
        events = connection.events()
        first.is_deaf = True
        await one.reject()
        rejecting = asyncio.create_task(two.reject(confirm=True))
        await asyncio.sleep(0)
        first.kill()
        await rejecting
        await anext(events)
        (three,) = await take(subscription, 1)
        assert three.text == "3"
        assert store.rejected == [one.id, two.id]


async def test_a_lost_rejection_fails_when_the_message_does_not_come_again() -> None:
    """It may have gone to another consumer; when it comes here it is rejected again."""
    store = filled("1")
    async with two_leaders(store) as (first, second, _, subscription):
        (one,) = await take(subscription, 1)
        first.is_deaf = True
        second.is_dispatching = False
        rejecting = asyncio.create_task(one.reject(confirm=True))
        await asyncio.sleep(0)
        first.kill()
        with pytest.raises(LinkLostError, match="rejected again"):
            await rejecting
        second.is_dispatching = True
        second.dispatch()
        await second.saw(lambda: store.rejected == [one.id])


async def test_cumulative_acknowledging_after_a_failover_names_each() -> None:
    """The new leader knows no order of the old deliveries, so each is acknowledged by its id."""
    store = filled("1", "2", "3")
    async with ScriptedBroker(store) as broker:
        async with (
            connect(broker.failover()) as connection,
            connection.subscribe(QUEUE, acknowledge="client") as subscription,
        ):
            _, two, _ = messages = await take(subscription, 3)
            events = connection.events()
            broker.kill()
            await anext(events)
            await two.acknowledge()
            async with ScriptedBroker(store, port=broker.port) as again:
                await again.saw(lambda: len(store.settled) == 2)
                await connection.close()
        assert store.settled == [messages[0].id, two.id]


@pytest.mark.parametrize("verb", ["acknowledge", "reject"])
async def test_cumulation_leaves_what_came_back_into_the_buffer(verb: str) -> None:
    """Another consumer held "1" and is gone: it stands before "2", and was never taken here."""
    store = filled("1", "2")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with (
            connect(first.uri) as other,
            connect(first.failover(second)) as connection,
        ):
            theirs = await other.subscribe(QUEUE, prefetch=1).open()
            async with connection.subscribe(QUEUE, acknowledge="client") as subscription:
                (two,) = await take(subscription, 1)
                assert two.text == "2"
                first.kill()
                with pytest.raises(LinkLostError):
                    await take(theirs, 2)
                await second.saw(lambda: sum(it.deliveries for it in store.messages[QUEUE]) == 4)
                await connection.send("/topic/nobody", b"", persistent=False)
                assert subscription.buffered_count == 1
                await getattr(two, verb)(confirm=True)
                assert [*store.settled, *store.rejected] == [two.id]
                (one,) = await take(subscription, 1)
                assert one.text == "1"
                await getattr(one, verb)(confirm=True)
        assert [*store.settled, *store.rejected] == [two.id, one.id]


async def test_cumulation_leaves_what_a_transaction_has() -> None:
    """A message that waits for a COMMIT is settled by that, not by one acknowledged after it."""
    async with (
        ScriptedBroker(filled("1", "2")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="client") as subscription,
    ):
        one, two = await take(subscription, 2)
        transaction = connection.transaction()
        await transaction.acknowledge(one)
        await two.acknowledge(confirm=True)
        assert broker.store.settled == [two.id]
        await transaction.roll_back()
        assert (one.is_settled, two.is_settled) == (False, True)


async def test_cumulation_leaves_what_a_refused_transaction_had() -> None:
    """Its acknowledgement may have been undone behind later deliveries: it is named by its own."""
    async with (
        ScriptedBroker(filled("1", "2", "3")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="client") as subscription,
    ):
        one, two, three = await take(subscription, 3)
        broker.refuse = lambda event: (
            ("denied", "no") if getattr(event, "command", "") == "COMMIT" else None
        )
        with pytest.raises(RefusedError):
            async with connection.transaction() as transaction:
                await transaction.acknowledge(two)
        before = len(broker.settlements)
        await three.acknowledge(confirm=True)
        assert broker.settled_ids[before:-1] == [one.id, two.id]
        assert {one.id, two.id, three.id} == set(broker.store.settled)


@pytest.mark.parametrize(
    "scenario",
    [
        test_cumulation_leaves_what_a_transaction_has,
        partial(test_cumulation_leaves_what_came_back_into_the_buffer, "acknowledge"),
    ],
)
async def test_left_to_the_broker_alone_cumulation_takes_too_much(scenario, monkeypatch) -> None:
    """Without looking at what was taken, both of the above are lost."""
    monkeypatch.setattr(Subscription, "_is_cumulative", lambda *_: True)
    with pytest.raises(AssertionError):
        await scenario()


async def test_what_the_application_dropped_unsettled_is_delivered_again() -> None:
    """Nobody can acknowledge a message that no longer exists, so it may be shown again."""
    store = filled("1")
    async with two_leaders(store) as (first, _, _, subscription):
        await take(subscription, 1)
        subscription._last = None
        first.kill()
        gc.collect()
        (again,) = await take(subscription, 1)
        assert (again.text, again.redelivered) == ("1", True)


async def test_now_and_then_an_acknowledgement_asks_for_a_receipt() -> None:
    """Every so many, so that what may have to be said again stays short."""
    async with (
        ScriptedBroker(filled(*map(str, range(25)))) as broker,
        connect(broker.uri, settled_receipt_every_count=10) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        for message in await take(subscription, 25):
            await message.acknowledge()
        await broker.saw(lambda: len(broker.store.settled) == 25)
        await connection.wait_confirmed()
        assert len([frame for frame in broker.settlements if frame.receipt]) == 2
        assert len(connection._session.settlements) == 5


async def test_the_socket_is_not_read_while_too_much_lies_untaken() -> None:
    """Bodies beyond the limit stay in the socket until the application takes some."""
    body = "x" * 1000
    async with (
        ScriptedBroker(filled(*[body] * 3)) as broker,
        connect(broker.uri, received_bytes_max=2500) as connection,
    ):
        broker.is_dispatching = False
        async with connection.subscribe(QUEUE, prefetch=10) as subscription:
            broker.is_dispatching = True
            broker.dispatch()
            await take(subscription, 1)
            link = connection._session._link
            assert link.is_paused
            await take(subscription, 1)
            assert not link.is_paused
            await connection.send("/queue/b", b"1")


async def test_a_receipt_is_read_even_when_too_much_lies_untaken() -> None:
    """A program that sends before it takes must not wait for itself."""
    async with (
        ScriptedBroker(filled(*["x" * 1000] * 3)) as broker,
        connect(broker.uri, received_bytes_max=1500) as connection,
    ):
        broker.is_dispatching = False
        async with connection.subscribe(QUEUE, prefetch=10) as subscription:
            broker.is_dispatching = True
            broker.dispatch()
            (one,) = await take(subscription, 1)
            assert connection._session._link.is_paused
            await connection.send("/queue/b", b"1")
            await one.acknowledge(confirm=True)


async def test_memory_is_bounded_while_a_receipt_is_awaited() -> None:
    """30 MB come, 1 MB may stay: the rest lies in files, and is taken whole and in its order."""
    store = Store()
    body = bytes(100_000)
    for number in range(300):
        store.put(QUEUE, {"persistent": "true", "colour": str(number)}, body)
    async with (
        ScriptedBroker(store) as broker,
        connect(broker.uri, received_bytes_max=1_000_000) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        broker.is_holding = True
        tracemalloc.start()
        try:
            sending = asyncio.create_task(connection.send("/queue/b", b""))
            while subscription.buffered_count < 300:
                await asyncio.sleep(0)
            assert tracemalloc.get_traced_memory()[0] < 3_000_000
        finally:
            tracemalloc.stop()
        broker.release()
        await sending
        messages = await take(subscription, 300)
        assert [message.headers["colour"] for message in messages] == [*map(str, range(300))]
        assert {message.body for message in messages} == {body}
        await messages[-1].acknowledge(confirm=True)
        assert connection._session.buffered_bytes == 0
        assert connection._session.overflow.count == 0


async def test_headers_count_towards_the_bound() -> None:
    """They may be larger than any body."""
    store = Store()
    store.put(QUEUE, {"persistent": "true", "content-type": "x" * 5000}, b"")
    async with (
        ScriptedBroker(store) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        await connection.send("/topic/nobody", b"", persistent=False)
        assert connection._session.buffered_bytes > 5000
        await take(subscription, 1)
        assert connection._session.buffered_bytes == 0


@pytest.mark.parametrize("end", ["close", "hang_up"])
async def test_what_lies_in_files_goes_with_the_link(end: str) -> None:
    """It is delivered again, or is nobody's any more."""
    async with (
        ScriptedBroker(filled(*["x" * 1000] * 20)) as broker,
        connect(broker.failover(), received_bytes_max=2000) as connection,
    ):
        subscription = await connection.subscribe(QUEUE).open()
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/queue/b", b""))
        while subscription.buffered_count < 20:
            await asyncio.sleep(0)
        session = connection._session
        assert session.overflow.count > 10
        broker.is_holding = False
        if end == "close":
            broker.release()
            await subscription.close()
            assert session.overflow.count == 0
        else:
            broker.hang_up()
            assert len(await take(subscription, 20)) == 20
        assert session.overflow.count == 0
        await sending


async def test_without_files_the_socket_is_not_read() -> None:
    """Then the bound holds all the same; what is awaited comes when messages are taken."""
    async with (
        ScriptedBroker(filled(*["x" * 100_000] * 50)) as broker,
        connect(broker.uri, received_bytes_max=1000) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        session = connection._session
        session.overflow.is_usable = False
        await take(subscription, 1)
        sending = asyncio.create_task(connection.send("/queue/b", b""))
        await broker.saw(lambda: broker.sends)
        assert session._link.is_paused
        assert subscription.buffered_count < 40
        for message in await take(subscription, 49):
            await message.acknowledge()
        await sending


async def test_unsubscribing_leaves_the_rest_to_others_and_the_held_can_still_be_settled() -> None:
    """After closing, what was taken is acknowledged by its own id."""
    async with ScriptedBroker(filled("1", "2")) as broker, connect(broker.uri) as connection:
        async with connection.subscribe(QUEUE) as subscription:
            (one,) = await take(subscription, 1)
        await subscription.close()
        await one.acknowledge(confirm=True)
        assert broker.settled_ids[-1] == one.id
        assert broker.store.settled == [one.id]
        async with connection.subscribe(QUEUE) as other:
            assert (await anext(other)).text == "2"


async def test_a_cancelled_opening_unsubscribes() -> None:
    """Nobody reads a subscription whose opening was cancelled, so the broker must not fill it."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        opening = asyncio.create_task(connection.subscribe(QUEUE).open())
        await broker.saw(lambda: broker.frames("SUBSCRIBE"))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await broker.saw(lambda: broker.frames("UNSUBSCRIBE"))
        broker.release()


async def test_a_message_in_a_transaction_is_not_settled_beside_it() -> None:
    """It is the transaction's until that is finished."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        (one,) = await take(subscription, 1)
        transaction = connection.transaction()
        await transaction.acknowledge(one)
        with pytest.raises(TransactionError):
            await one.acknowledge()
        await transaction.roll_back()
        await one.acknowledge(confirm=True)


async def test_headers_of_a_subscription_are_the_applications_and_only_its_own() -> None:
    """They are sent as they are, and cannot change whose the subscription is, or its mode."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        headers = {"command": "x", "my_own": "a:b\nack:auto", "durable": True}
        async with connection.subscribe(QUEUE, headers=headers):
            (frame,) = broker.frames("SUBSCRIBE")
        assert frame.headers["command"] == "x"
        assert frame.headers["my_own"] == "a:b\nack:auto"
        assert frame.headers["durable"] == "true"
        assert frame.headers["ack"] == "client-individual"
        for name in ("id", "destination", "ack", "receipt", "selector", ""):
            with pytest.raises(LocalProtocolError, match="header"):
                connection.subscribe(QUEUE, headers={name: "x"})


async def test_a_refused_acknowledgement_is_the_error_that_is_promised() -> None:
    """`UnknownDeliveryError`, as the method says, not only its code."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        (one,) = await take(subscription, 1)
        broker.refuse = lambda event: (
            ("unknown-delivery", "no") if event in broker.settlements else None
        )
        with pytest.raises(UnknownDeliveryError):
            await one.acknowledge(confirm=True)


async def test_fetching_takes_what_is_here_and_no_more_than_asked_for() -> None:
    """It waits for the first only; nothing comes in time: an empty list."""
    async with (
        ScriptedBroker(filled("1", "2", "3", "4", "5")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        await _until_buffered(subscription, 5)
        first = await subscription.fetch(3)
        second = await subscription.fetch(3)
        assert [message.text for message in first + second] == list("12345")
        assert len(first) == 3
        assert await subscription.fetch(3, seconds=0.001) == []
        assert subscription.held_count == 5
        with pytest.raises(ConfigError, match="count is 0"):
            await subscription.fetch(0)
        await subscription.close()
        assert await subscription.fetch(1) == []


async def test_fetching_in_mode_auto_acknowledges_what_was_fetched_before() -> None:
    """All of it, when the next ones are asked for; none before the application had them."""
    async with (
        ScriptedBroker(filled("1", "2", "3")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge="auto") as subscription,
    ):
        await _until_buffered(subscription, 3)
        first, second = await subscription.fetch(2)
        assert broker.settlements == []
        (third,) = await subscription.fetch(2)
        await broker.saw(lambda: len(broker.store.settled) == 2)
        assert broker.store.settled == [first.id, second.id]
        await subscription.close()
        assert not third.is_settled


async def test_fetching_takes_no_more_than_memory_is_allowed() -> None:
    """What lies on disk stays there until somebody has room for it; one message always has."""
    async with (
        ScriptedBroker(filled("x" * 600, "y" * 600, "z" * 600)) as broker,
        connect(broker.uri, received_bytes_max=1_000) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        fetched = []
        while len(fetched) < 3:
            batch = await subscription.fetch(10)
            assert 1 <= len(batch) <= 2
            fetched += batch
        assert [message.text[0] for message in fetched] == list("xyz")


async def test_a_file_that_cannot_be_read_acknowledges_nothing_that_nobody_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    What was taken before it was handed to nobody, and acknowledged with the next call all the same.
    """
    read = OverflowFile.read

    def fails(self: OverflowFile, place: int, size_bytes: int) -> bytes:
        if place and broken:
            raise OSError(5, "Input/output error")
        return read(self, place, size_bytes)

    monkeypatch.setattr(OverflowFile, "read", fails)
    broken = [True]
    async with (
        ScriptedBroker(filled("x" * 600, *"1234")) as broker,
        connect(broker.uri, received_bytes_max=500) as connection,
        connection.subscribe(QUEUE, acknowledge="auto") as subscription,
    ):
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/queue/b", b""))
        await _until_buffered(subscription, 5)
        (large,) = await subscription.fetch(10)
        (first,) = await subscription.fetch(10)
        with pytest.raises(OSError, match="Input/output"):
            await subscription.fetch(10)
        broken.clear()
        rest = await subscription.fetch(10)
        assert [message.text for message in (first, *rest)] == list("1234")
        broker.release()
        await sending
        assert broker.store.settled == [large.id, first.id]


async def test_the_end_of_a_block_settles_its_message() -> None:
    """Acknowledged if it went well, to the dead letters if not, and the error goes on."""
    async with (
        ScriptedBroker(filled("1", "2", "3")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        one, two, three = await take(subscription, 3)
        async with one.process(confirm=True) as same:
            assert same is one
        assert broker.store.settled == [one.id]
        with pytest.raises(ValueError, match="mine"):
            async with two.process(confirm=True):
                raise ValueError("mine")
        assert broker.store.rejected == [two.id]
        transaction = connection.transaction()
        async with three.process():
            await transaction.acknowledge(three)
            assert three.is_in_transaction
        assert len(broker.settlements) == 2


async def _until_buffered(subscription: Subscription, count: int) -> None:
    while subscription.buffered_count < count:
        await asyncio.sleep(0)
