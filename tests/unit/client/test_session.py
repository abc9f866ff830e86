"""
The session beneath the connection: waiting in line, and what reaches whom.
"""

from __future__ import annotations

import asyncio

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client import BrokerComplaint, connect, race
from holdfast.client.session import refusal
from holdfast.errors import FailoverExhaustedError, LinkLostError, RefusedError
from holdfast.protocols.stomp.frames import Frame


async def test_an_error_frame_becomes_a_refusal() -> None:
    """With the broker's code, or ours; with its message, or the body, or nothing."""
    error = refusal(Frame("ERROR", {"code": "store-full", "message": "no room"}))
    assert isinstance(error, RefusedError)
    assert (error.code, str(error)) == ("store-full", "no room")
    assert str(refusal(Frame("ERROR", {}, b"body\n"))) == "body"
    assert refusal(Frame("ERROR", {})).code == "refused"
    assert RefusedError.code == "refused"


async def test_what_nobody_waits_for_is_ignored() -> None:
    """Receipts of the past and messages of ended subscriptions do no harm."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        served = broker.connections[0]
        served.send("RECEIPT", receipt_id="999")
        served.send("MESSAGE", b"x", destination="q", message_id="1", subscription="999")
        await connection.send("/queue/a", b"1")


async def test_an_exhausted_search_ends_everything() -> None:
    """Senders, subscribers and the event stream hear the end."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.failover(options="maxReconnectAttempts=1"))
        subscription = await connection.subscribe("/queue/a").open()
        events = connection.events()
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/queue/b", b"1"))
        await broker.saw(lambda: broker.sends)
        broker.kill()
        with pytest.raises(FailoverExhaustedError):
            await anext(subscription)
        with pytest.raises(FailoverExhaustedError):
            await sending
        assert len([event async for event in events]) == 1
        assert [event async for event in connection.events()] == []
        with pytest.raises(FailoverExhaustedError):
            connection.transaction()
        await connection.close()


async def test_closing_during_an_interruption_does_not_wait_for_a_broker() -> None:
    """What is unconfirmed fails; the search is given up."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.failover())
        events = connection.events()
        broker.kill()
        await anext(events)
        sending = asyncio.create_task(connection.send("/queue/a", b"1"))
        await asyncio.sleep(0)
        await connection.close(is_graceful=False)
        with pytest.raises(LinkLostError):
            await sending


async def test_a_cancelled_close_ends_at_once() -> None:
    """Nobody is left waiting for receipts that do not come."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.uri)
        broker.is_holding = True
        confirmation = await connection.producer("/queue/a").send(b"1")
        closing = asyncio.create_task(connection.close())
        await broker.saw(lambda: broker.sends)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert connection.is_closed
        with pytest.raises(LinkLostError):
            await confirmation


async def test_a_broker_that_does_not_answer_goodbye_is_left() -> None:
    """DISCONNECT waits for its receipt only so long."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.uri, close_seconds_max=0.01)
        broker.is_holding = True
        await connection.close()
        assert connection.is_closed


async def test_leaving_a_subscription_in_an_outage_waits_for_no_broker() -> None:
    """Without a link there is nothing to unsubscribe; a limit of time could not end that wait."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.failover())
        events = connection.events()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), connection.subscribe("/queue/a") as subscription:
                broker.kill()
                await anext(events)
                await anext(subscription)
        async with connection.transaction():
            pass
        assert connection.unconfirmed_count == 0
        await connection.close()


async def test_a_link_that_breaks_while_a_subscription_is_left_ends_the_wait() -> None:
    """The loss has unsubscribed; the next broker, if ever there is one, need not be asked."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.failover())
        subscription = await connection.subscribe("/queue/a").open()
        broker.is_holding = True
        leaving = asyncio.create_task(subscription.close())
        await broker.saw(lambda: broker.frames("UNSUBSCRIBE"))
        broker.kill()
        await leaving
        assert connection.unconfirmed_count == 0
        await connection.close()


async def test_a_broker_that_does_not_answer_unsubscribe_is_not_waited_for() -> None:
    """As long as for DISCONNECT, no longer."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, close_seconds_max=0.01) as connection,
    ):
        subscription = await connection.subscribe("/queue/a").open()
        broker.is_holding = True
        await subscription.close()
        assert broker.frames("UNSUBSCRIBE")
        broker.release()


async def test_a_search_that_ends_by_a_mistake_of_ours_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever ends the search for a broker, whoever waits for one hears of it."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.failover())
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/queue/b", b"1"))
        await broker.saw(lambda: broker.sends)

        async def mistaken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched, caplog.at_level("ERROR", "holdfast.client"):
            patched.setattr(race, "addresses_of", mistaken)
            broker.kill()
            with pytest.raises(LinkLostError, match="ZeroDivisionError"):
                await sending
        assert connection.is_closed
        await connection.close()


async def test_a_redelivered_message_that_was_settled_is_settled_again() -> None:
    """The late acknowledgement was refused; the delivery that follows is answered, not shown."""
    store = Store()
    for body in (b"1", b"2"):
        store.put("/queue/a", {"persistent": "true"}, body)
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        late = []

        def refuse_late(event: object) -> tuple[str, str] | None:
            if event in second.settlements and second.settled_ids[-1].startswith("ID:"):
                late.append(event)
                return "unknown-delivery", "never heard of it"
            return None

        second.refuse = refuse_late
        async with (
            connect(first.failover(second)) as connection,
            connection.subscribe("/queue/a") as subscription,
        ):
            events = connection.events()
            one = await anext(subscription)
            first.is_deaf = True
            await one.acknowledge()
            first.kill()
            await anext(events)
            two = await anext(subscription)
            assert two.text == "2"
            await second.saw(lambda: store.settled == [one.id])
            assert len(late) == 1
            assert any([isinstance(await anext(events), BrokerComplaint) for _ in range(2)])
