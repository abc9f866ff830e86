"""
The connection as an application sees it: connect, send, be interrupted, close.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client import Interrupted, Resumed, connect
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    FailoverExhaustedError,
    LinkLostError,
    RefusedError,
    SlowConsumerError,
)


async def test_a_message_is_sent_when_its_receipt_is_there() -> None:
    """`send` returns after the RECEIPT, and the message carries what it was given."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        sending = asyncio.create_task(
            connection.send("/queue/a", "häuser", headers={"colour": "a:b\nc"})
        )
        await broker.saw(lambda: broker.sends)
        assert not sending.done()
        broker.release()
        await sending
        (frame,) = broker.sends
        assert frame.body == "häuser".encode()
        assert frame.block.headers["colour"] == "a:b\nc"
        assert frame.block.headers["persistent"] == "true"
        assert frame.producer_sequence == b"1"


async def test_a_refused_message_is_told_with_its_code() -> None:
    """The error carries the broker's words, and the connection lives on with the same number."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: ("store-full", "no room") if event in broker.sends else None
        with pytest.raises(RefusedError, match="no room") as refused:
            await connection.send("/queue/a", b"1")
        assert refused.value.code == "store-full"
        broker.refuse = lambda event: None
        await connection.send("/queue/a", b"2")
        assert [frame.producer_sequence for frame in broker.sends] == [b"1", b"1"]
        assert broker.store.bodies("/queue/a") == [b"2"]


async def test_cancelling_a_send_stops_the_wait_not_the_message() -> None:
    """The message of a cancelled send is stored, also if it must be resent for that."""
    async with ScriptedBroker() as broker:
        async with connect(broker.failover()) as connection:
            broker.is_holding = True
            broker.refuse = lambda event: ("x", "y") if event in broker.sends else None
            sending = asyncio.create_task(connection.send("/queue/a", b"1"))
            await broker.saw(lambda: broker.sends)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert connection.unconfirmed_count == 1
            broker.refuse = lambda event: None
            broker.is_holding = False
            broker.hang_up()
            await connection.wait_confirmed()
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_concurrent_sends_do_not_take_each_other_down() -> None:
    """One refused message among many leaves the others stored: each has a number of its own."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("refused", "no") if event in broker.sends and event.body == b"3" else None
        )
        outcomes = await asyncio.gather(
            *(connection.send("/queue/a", str(n)) for n in range(8)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes].count(RefusedError) == 1
        assert sorted(broker.store.bodies("/queue/a")) == [b"0", b"1", b"2", b"4", b"5", b"6", b"7"]


async def test_concurrent_sends_have_a_limit_and_use_ids_again() -> None:
    """At most so many producer ids exist, however many sends are under way."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, concurrent_sends_count_max=3) as connection,
    ):
        await asyncio.gather(*(connection.send("/queue/a", b"x") for _ in range(20)))
        assert len(broker.store.producers) == 3
        assert sum(broker.store.producers.values()) == 20


@pytest.mark.promise("F30")
async def test_a_failover_resends_what_was_not_confirmed_and_it_is_stored_once() -> None:
    """The leader dies after storing, before confirming: the retry is known by its number."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            first.is_holding = True
            sending = asyncio.create_task(connection.send("/queue/a", b"1"))
            await first.saw(lambda: first.sends)
            store.term = 2
            first.kill()
            await sending
            assert connection.address == second.uri
        assert store.bodies("/queue/a") == [b"1"]
        assert [frame.producer_sequence for frame in second.sends] == [b"1"]


async def test_interruption_and_resumption_are_told() -> None:
    """Listeners and the event stream hear of both, with what the application wants to know."""
    store = Store()
    told: list[object] = []
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            connection.on_interrupted(told.append)
            connection.on_resumed(told.append)
            events = connection.events()
            first.kill()
            interrupted = await anext(events)
            resumed = await anext(events)
        assert [event async for event in events] == []
    assert isinstance(interrupted, Interrupted)
    assert interrupted.address == first.uri
    assert isinstance(resumed, Resumed)
    assert (resumed.address, resumed.term, resumed.node) == (second.uri, 1, f"node-{second.port}")
    assert told == [interrupted, resumed]


async def test_a_listener_that_fails_does_not_break_the_connection() -> None:
    """The application's fault is logged, and the reconnect goes on."""
    async with ScriptedBroker() as broker, connect(broker.failover()) as connection:

        @connection.on_interrupted
        def fail(event: Interrupted) -> None:
            raise ValueError(event)

        broker.hang_up()
        await connection.send("/queue/a", b"1")
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_calls_wait_during_an_interruption() -> None:
    """A send while no broker is there waits for one instead of failing."""
    async with ScriptedBroker() as broker, connect(broker.failover()) as connection:
        events = connection.events()
        broker.kill()
        assert isinstance(await anext(events), Interrupted)
        sending = asyncio.create_task(connection.send("/queue/a", b"1"))
        await asyncio.sleep(0)
        assert connection.unconfirmed_count == 1
        async with ScriptedBroker(broker.store, port=broker.port):
            await sending
        assert broker.store.bodies("/queue/a") == [b"1"]


@pytest.mark.promise("F34")
async def test_a_broker_with_a_lower_term_is_not_believed() -> None:
    """A deposed leader that still answers is passed over for one of the term seen before."""
    store = Store(term=5)
    async with (
        ScriptedBroker(store) as first,
        ScriptedBroker(store) as stale,
        ScriptedBroker(store) as second,
    ):
        stale.term = 4
        async with connect(first.failover(stale, second)) as connection:
            assert connection.term == 5
            first.kill()
            await connection.send("/queue/a", b"1")
            assert connection.address == second.uri
            assert not stale.sends
            assert stale.frames("CONNECT")[0].headers["holdfast-term"] == "5"


async def test_a_client_is_known_again_by_what_it_shows() -> None:
    """
    The same on each of its connections and nobody else's; not what producers' ids let others see.
    """
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection, connect(first.uri):
            await connection.send("/queue/a", b"1")
            first.kill()
            await connection.send("/queue/a", b"2")
        shown = [each.headers["holdfast-client"] for each in first.frames("CONNECT")]
        assert len({*shown}) == 2
        assert second.frames("CONNECT")[0].headers["holdfast-client"] in shown
        producer = first.sends[0].block.headers["producer-id"]
        assert not any(each in producer or producer.split("-")[0] in each for each in shown)
        identity = producer.split("-")[0]
        known = f"holdfast-client {identity}".encode()
        assert hashlib.sha256(known).hexdigest()[:32] not in shown, "it follows from the id"


@pytest.mark.parametrize("options", [{}, {"carries_headers": True}])
async def test_a_client_says_when_its_messages_are_copies(options: dict[str, bool]) -> None:
    """Only then a broker takes headers that it would have to ignore."""
    async with ScriptedBroker() as broker, connect(broker.uri, **options):
        (frame,) = broker.frames("CONNECT")
        assert frame.headers.get("holdfast-carry") == ("true" if options else None)


async def test_another_cluster_is_not_believed() -> None:
    """Sequence numbers and message ids mean nothing there."""
    async with ScriptedBroker() as first, ScriptedBroker(Store(cluster="c2")) as other:
        uri = first.failover(other, options="randomize=false&maxReconnectAttempts=1")
        async with connect(uri) as connection:
            first.kill()
            with pytest.raises(FailoverExhaustedError, match="cluster c2"):
                await connection.send("/queue/a", b"1")


async def test_a_plain_uri_does_not_reconnect() -> None:
    """The loss of the link ends the connection, and says so to everybody who waits."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/queue/a", b"1"))
        await broker.saw(lambda: broker.sends)
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await sending
        with pytest.raises(LinkLostError):
            await connection.send("/queue/a", b"2")
        assert connection.is_closed


async def test_nobody_there_is_told_at_once_for_a_plain_uri() -> None:
    """Connecting to a closed port fails with the address in the sentence."""
    async with ScriptedBroker() as broker:
        uri = broker.uri
    with pytest.raises(LinkLostError, match=str(broker.port)):
        await connect(uri)


async def test_attempts_are_limited_for_a_failover_uri() -> None:
    """startupMaxReconnectAttempts counts passes over the list."""
    async with ScriptedBroker() as broker:
        pass
    with pytest.raises(FailoverExhaustedError, match="2 passes"):
        await connect(broker.failover(options="startupMaxReconnectAttempts=2"))


async def test_an_unknown_user_is_an_authentication_error() -> None:
    """The ERROR that answers CONNECT is told with the broker's words."""
    async with ScriptedBroker() as broker:
        broker.refuse_connect = ("authentication-failed", "who are you")
        with pytest.raises(AuthenticationError, match="who are you"):
            await connect(broker.uri, login="eve", passcode="x")
        (frame,) = broker.frames("CONNECT")
        assert frame.headers["login"] == "eve"


async def test_what_the_broker_cannot_read_is_not_resent_for_ever() -> None:
    """After a few links ended by a complaint without progress the connection gives up."""
    async with ScriptedBroker() as broker:

        def complain(event: object) -> None:
            if event in broker.sends:
                connection = broker.connections[-1]
                connection.send("ERROR", code="bad", message="cannot read this")
                connection.transport.close()

        broker.refuse = complain
        async with connect(broker.failover()) as connection:
            with pytest.raises(RefusedError, match="cannot read this"):
                await connection.send("/queue/a", b"1")
        assert len(broker.sends) == 3


async def test_a_cluster_without_a_majority_may_take_leave_as_often_as_it_must() -> None:
    """
    A leader that lost its members says so and hangs up: no fault of ours, however often in a row.
    """
    async with ScriptedBroker() as broker:
        async with connect(broker.failover(options="initialReconnectDelay=1")) as connection:
            broker.is_holding = True
            sending = asyncio.create_task(connection.send("/queue/a", b"1"))
            for count in range(1, 7):
                await broker.saw(lambda count=count: len(broker.sends) == count)
                (served,) = broker.connections
                served.send("ERROR", code="quorum-lost", message="too few members answer")
                served.transport.close()
            broker.is_holding = False
            await sending
        assert len(broker.sends) == 7
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_the_failover_timeout_gives_a_send_up_and_the_connection_survives() -> None:
    """ActiveMQ's option `timeout`: the send fails, a later one under another id works."""
    async with ScriptedBroker() as broker:
        uri = broker.failover(options="timeout=20")
        async with connect(uri) as connection:
            await connection.send("/queue/a", b"0")
            events = connection.events()
            broker.kill()
            await anext(events)
            with pytest.raises(LinkLostError, match="timeout"):
                await connection.send("/queue/a", b"1")
            async with ScriptedBroker(broker.store, port=broker.port) as again:
                await anext(events)
                await connection.send("/queue/a", b"2")
                assert again.sends[0].producer_sequence == b"1"
            assert broker.store.bodies("/queue/a") == [b"0", b"2"]


async def test_leaving_the_block_waits_for_confirmations() -> None:
    """What was sent without waiting is confirmed when the block has ended normally."""
    async with ScriptedBroker() as broker:
        broker.is_holding = True
        async with connect(broker.uri) as connection:
            confirmation = await connection.producer("/queue/a").send(b"1")
            asyncio.get_running_loop().call_soon(broker.release)
        assert confirmation.done()
        assert broker.frames("DISCONNECT")


async def test_a_failed_block_does_not_wait() -> None:
    """An error in the block is not held up by receipts that may never come."""
    async with ScriptedBroker() as broker:
        broker.is_holding = True
        with pytest.raises(ValueError, match="mine"):
            async with connect(broker.uri) as connection:
                await connection.producer("/queue/a").send(b"1")
                raise ValueError("mine")
        assert connection.is_closed


async def test_wrong_options_are_refused_together() -> None:
    """An unknown option is named."""
    with pytest.raises(ConfigError, match="colour"):
        connect("stomp://h", colour="red")
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        with pytest.raises(ConfigError, match=r"acknowledge.*prefetch"):
            connection.subscribe("/queue/a", acknowledge="never", prefetch=0)
        with pytest.raises(ConfigError, match="window"):
            connection.producer("/queue/a", window=0)


async def test_complaints_without_a_receipt_are_told() -> None:
    """An ERROR that belongs to no request reaches the event stream, and nothing ends."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        events = connection.events()
        broker.connections[0].error(None, "unknown-delivery", "never delivered")
        event = await anext(events)
        assert str(event.error) == "never delivered"
        await connection.send("/queue/a", b"1")


async def test_a_subscription_that_the_broker_ends_raises_why() -> None:
    """As it is slow: who takes from it hears of it, and the connection goes on."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        subscription = connection.subscribe("/queue/a")
        async with subscription:
            taking = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(0)
            named = {"subscription": subscription.id}
            broker.connections[0].error(None, "slow-consumer", "it is slow", **named)
            with pytest.raises(SlowConsumerError, match="it is slow"):
                await taking
        await connection.send("/queue/a", b"1")


async def test_an_iterator_of_events_that_nobody_has_is_not_told() -> None:
    """Whoever asked for events and dropped the iterator costs nothing any more."""
    async with ScriptedBroker() as broker, connect(broker.failover()) as connection:
        kept = connection.events()
        dropped = [connection.events() for _ in range(5)]
        assert len(connection._event_readers) == 6
        del dropped
        gc.collect()
        assert len(connection._event_readers) == 1
        broker.hang_up()
        assert isinstance(await anext(kept), Interrupted)
