"""
Producers: windows, order, numbers, and what happens when a message is refused.
"""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Awaitable, Callable

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client import Sent, connect
from holdfast.errors import (
    ConfigError,
    HoldfastError,
    LinkLostError,
    LocalProtocolError,
    RefusedError,
)
from holdfast.protocols.stomp.frames import SendFrame


def numbers(broker: ScriptedBroker) -> list[int]:
    return [int(frame.producer_sequence or 0) for frame in broker.sends]


async def test_send_returns_inside_the_window_and_waits_outside() -> None:
    """The third message of a window of two waits until one is confirmed."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        producer = connection.producer("/queue/a", window=2)
        first = await producer.send(b"1")
        await producer.send(b"2")
        third = asyncio.create_task(producer.send(b"3"))
        await broker.saw(lambda: len(broker.sends) == 2)
        assert (producer.unconfirmed, third.done(), first.done()) == (2, False, False)
        broker.release()
        await (await third)
        assert first.done()
        await producer.flush()
        assert (producer.unconfirmed, producer.confirmed_count) == (0, 3)


async def test_messages_are_numbered_under_one_producer_id() -> None:
    """Two producers of a connection have ids of their own, each counting from one."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.producer("/queue/a") as one, connection.producer("/queue/a") as two:
            for _ in range(3):
                await one.send(b"x")
                await two.send(b"y")
        assert one.producer_id != two.producer_id
        assert broker.store.producers == {one.producer_id: 3, two.producer_id: 3}


async def test_a_confirmation_says_which_message_it_is() -> None:
    """By its producer's id and number; what is for a topic, or not persistent, has none."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        confirmations = [await producer.send(b"x") for _ in range(2)]
        assert [await each for each in confirmations] == [
            Sent(producer.producer_id, 1),
            Sent(producer.producer_id, 2),
        ]
        assert await (await producer.send(b"x", persistent=False)) == Sent(None, 0)

        single = await connection.send("/queue/a", b"x")
        assert broker.store.producers[str(single.producer_id)] == single.producer_sequence == 1
        again = await connection.send("/queue/a", b"x")
        assert again == single._replace(producer_sequence=2)
        assert await connection.send("/topic/a", b"x") == Sent(None, 0)


async def test_what_is_sent_again_under_another_id_says_that_one() -> None:
    """A broker that has forgotten the producer stores it under the second id."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        first = await (await producer.send(b"1"))
        broker.store.producers.clear()
        second = await (await producer.send(b"2"))
        assert first.producer_id != second.producer_id
        assert broker.store.producers == {second.producer_id: second.producer_sequence}


async def test_a_failover_in_the_middle_of_a_window_stores_each_once_in_order() -> None:
    """Some are stored, some were never read, none is confirmed: after it all are there once."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            first.is_holding = True
            async with connection.producer("/queue/a", window=100) as producer:
                for n in range(20):
                    await producer.send(str(n))
                await first.saw(lambda: len(first.sends) == 20)
                first.is_deaf = True
                for n in range(20, 50):
                    await producer.send(str(n))
                first.kill()
        assert store.bodies("/queue/a") == [str(n).encode() for n in range(50)]
        assert numbers(second) == list(range(1, 51))


async def test_a_refusal_takes_what_follows_and_is_told_once() -> None:
    """Nothing behind a refused message is stored; flush tells why, then the producer goes on."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("store-full", "no room") if event in broker.sends and event.body == b"2" else None
        )
        producer = connection.producer("/queue/a")
        confirmations = [await producer.send(str(n)) for n in range(1, 5)]
        with pytest.raises(RefusedError, match="no room"):
            await producer.flush()
        assert [confirmation.exception() is None for confirmation in confirmations] == [
            *(True, False, False, False)
        ]
        broker.refuse = lambda event: None
        await producer.send(b"5")
        await producer.flush()
        assert broker.store.bodies("/queue/a") == [b"1", b"5"]
        assert broker.store.producers == {producer.producer_id: 2}


async def test_the_next_send_tells_a_refusal_too() -> None:
    """Without a flush the failure is raised where the application is: at its next send."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
        producer = connection.producer("/queue/a")
        await producer.send(b"1")
        await connection.wait_confirmed()
        with pytest.raises(RefusedError):
            await producer.send(b"2")


async def test_tasks_that_wait_for_a_place_are_all_woken_by_a_failure() -> None:
    """One hears the failure, the others go on; nobody waits for ever."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        producer = connection.producer("/queue/a", window=1)
        broker.refuse = lambda event: (
            ("refused", "no") if event in broker.sends and event.body == b"0" else None
        )
        await producer.send(b"0")
        tasks = [asyncio.create_task(producer.send(str(n))) for n in range(1, 5)]
        await broker.saw(lambda: broker.sends)
        broker.release()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert len([outcome for outcome in outcomes if isinstance(outcome, RefusedError)]) == 1
        await producer.flush()
        assert len(broker.store.bodies("/queue/a")) == 3


async def test_a_gap_that_is_not_ours_is_told_and_another_id_begun() -> None:
    """The broker came back from an older log: what it had confirmed since then is in doubt."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        await producer.send(b"1")
        await producer.send(b"2")
        await producer.flush()
        old = producer.producer_id
        broker.store.producers[old] = 1
        await producer.send(b"3")
        with pytest.raises(RefusedError) as refused:
            await producer.flush()
        assert refused.value.code == "producer-sequence-gap"
        await producer.send(b"4")
        await producer.flush()
        assert producer.producer_id != old
        assert broker.store.bodies("/queue/a") == [b"1", b"2", b"4"]


async def test_a_broker_that_numbers_nobody_may_refuse_one_alone() -> None:
    """On ActiveMQ the messages behind a refused one are stored; the producer takes a new id."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.connections[0].number_refused = lambda _headers, _number: None
        broker.refuse = lambda event: (
            ("refused", "no") if event in broker.sends and event.body == b"1" else None
        )
        producer = connection.producer("/queue/a")
        old = producer.producer_id
        for n in range(3):
            await producer.send(str(n))
        with pytest.raises(RefusedError):
            await producer.flush()
        assert producer.producer_id != old
        assert broker.store.bodies("/queue/a") == [b"0", b"2"]


async def test_without_failover_everything_unconfirmed_fails() -> None:
    """The loss of a plain link is told by every confirmation and by flush."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        producer = connection.producer("/queue/a")
        confirmation = await producer.send(b"1")
        await broker.saw(lambda: broker.sends)
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await producer.flush()
        with pytest.raises(LinkLostError):
            await confirmation
        with pytest.raises(LinkLostError):
            await producer.send(b"2")


async def test_a_cancelled_wait_for_a_place_sends_nothing() -> None:
    """Outside the window nothing is on its way yet; the next in line gets the place."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        producer = connection.producer("/queue/a", window=1)
        await producer.send(b"1")
        waiting = [asyncio.create_task(producer.send(str(n))) for n in (2, 3)]
        await broker.saw(lambda: broker.sends)
        waiting[0].cancel()
        broker.release()
        await (await waiting[1])
        assert broker.store.bodies("/queue/a") == [b"1", b"3"]


async def test_a_cancelled_confirmation_changes_nothing() -> None:
    """Who stops waiting for a confirmation does not disturb the others."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        producer = connection.producer("/queue/a")
        confirmation = await producer.send(b"1")
        confirmation.cancel()
        broker.release()
        await producer.flush()
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_unconfirmed_bytes_are_bounded_over_all_producers() -> None:
    """A send waits while more bytes are unconfirmed than the setting allows."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, unconfirmed_bytes_max=1000) as connection,
    ):
        broker.is_holding = True
        await connection.producer("/queue/a").send(b"x" * 1000)
        waiting = asyncio.create_task(connection.producer("/queue/b").send(b"y"))
        await broker.saw(lambda: broker.sends)
        assert not waiting.done()
        broker.release()
        await (await waiting)


async def test_headers_are_per_message_and_encoded_once_while_they_stay() -> None:
    """Changing the headers between messages changes what is sent, and nothing leaks."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        headers = {"colour": "red", "big": True, "n": 7}
        await producer.send(b"1", headers=headers)
        headers["colour"] = "blue"
        await producer.send(b"2", headers=headers)
        await producer.send(b"3", persistent=False)
        await producer.flush()
        found = [frame.block.headers for frame in broker.sends]
        assert [block.get("colour") for block in found] == ["red", "blue", None]
        assert (found[0]["big"], found[0]["n"]) == ("true", "7")
        assert [block["persistent"] for block in found] == ["true", "true", "false"]


async def test_a_message_that_can_never_be_sent_is_refused_here() -> None:
    """A reserved header fails at once and leaves no hole in the numbers."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        with pytest.raises(LocalProtocolError, match="receipt"):
            await producer.send(b"1", headers={"receipt": "mine"})
        await producer.send(b"2")
        await producer.flush()
        assert numbers(broker) == [1]


async def test_only_what_is_stored_is_numbered() -> None:
    """The broker counts persistent messages to queues; others between them leave no gap."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        for n in range(6):
            await producer.send(str(n), persistent=n % 2 == 0)
        await producer.flush()
        for destination in ("/topic/t", "/queue/a", "/temp-queue/x", "/topic/a,/topic/b", "a.*"):
            await connection.send(destination, b"x")
        await connection.send("/queue/a", b"x", persistent=False)
        assert sorted(broker.store.producers.values()) == [1, 3]
        unnumbered = [frame for frame in broker.sends if frame.producer_sequence is None]
        assert len(unnumbered) == 8
        assert all("producer-id" not in frame.block.headers for frame in unnumbered)


@pytest.mark.parametrize("persistent", [True, False])
async def test_what_is_scheduled_is_numbered_whatever_it_goes_to(persistent: bool) -> None:
    """It is stored until it is due; repeated without a number it would come twice, each time."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/topic/t")
        await producer.send("1", headers={"AMQ_SCHEDULED_CRON": "0 * * * *"}, persistent=persistent)
        await producer.send("2", delay=0, persistent=persistent)
        await producer.send("3", delay=60, repeats=-1, period=5, persistent=persistent)
        await producer.flush()
        await connection.send("/topic/t", b"4", delay=1, persistent=persistent)
        await connection.send("/topic/t", b"5", delay=0, persistent=persistent)
        assert [it.producer_sequence for it in broker.sends] == [b"1", None, b"2", b"1", None]
        async with connect(broker.uri, carries_headers=True) as carrying:
            await carrying.send("/topic/t", b"6", delay=1, persistent=persistent)
        assert [it.producer_sequence for it in broker.sends][5:] == [None]


async def test_what_a_queue_among_several_destinations_stores_is_numbered() -> None:
    """A message for several destinations takes one number, whatever else it goes to."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/topic/t, queue://a,b")
        for n in range(2):
            await producer.send(str(n))
        await producer.flush()
        assert numbers(broker) == [1, 2]


async def test_a_refused_message_without_a_number_disturbs_no_numbers() -> None:
    """It is told like any other, and the numbered ones behind it are stored."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("refused", "no") if event in broker.sends and event.body == b"2" else None
        )
        producer = connection.producer("/queue/a")
        for body, persistent in ((b"1", True), (b"2", False), (b"3", True)):
            await producer.send(body, persistent=persistent)
        with pytest.raises(RefusedError):
            await producer.flush()
        await producer.send(b"4")
        await producer.flush()
        assert broker.store.bodies("/queue/a") == [b"1", b"3", b"4"]
        assert broker.store.producers == {producer.producer_id: 3}
        broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
        with pytest.raises(RefusedError):
            await connection.send("/topic/t", b"x")


async def test_a_single_message_without_a_number_is_given_up_with_the_link() -> None:
    """As any other."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        sending = asyncio.create_task(connection.send("/topic/t", b"x"))
        await broker.saw(lambda: broker.sends)
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await sending


async def test_a_producer_id_of_ones_own_stores_a_repeated_run_once() -> None:
    """The same messages under the same id again: confirmed, and not stored again."""
    store = Store()
    async with ScriptedBroker(store) as broker:
        for _ in range(2):
            async with (
                connect(broker.uri) as connection,
                connection.producer("/queue/a", producer_id="mine") as producer,
            ):
                for n in range(3):
                    await producer.send(str(n))
        assert store.bodies("/queue/a") == [b"0", b"1", b"2"]


async def test_a_producer_id_of_ones_own_ends_at_its_first_failure() -> None:
    """A refused number is not given to the next message: that would pass for the first one."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: ("store-full", "no room") if event.body == b"2" else None
        producer = connection.producer("/queue/a", producer_id="mine")
        await producer.send(b"1")
        await producer.send(b"2")
        with pytest.raises(RefusedError, match="no room"):
            await producer.flush()
        with pytest.raises(RefusedError, match="no room"):
            await producer.send(b"3")
        assert broker.store.bodies("/queue/a") == [b"1"]


def refuse_sends(event: object) -> tuple[str, str] | None:
    return ("store-full", "no room") if isinstance(event, SendFrame) else None


async def test_a_refusal_after_a_failover_leaves_the_outcome_unknown() -> None:
    """
    The first leader stored it, the next one has no room and refuses the repetition: the number is
    burnt, or the broker would take the next message for the stored one, confirm it and forget it.
    """
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            first.is_holding = True
            second.refuse = refuse_sends
            producer = connection.producer("/queue/a")
            confirmations = [await producer.send(b"%d" % n) for n in (1, 2)]
            await first.saw(lambda: len(first.sends) == 2)
            first.kill()
            for confirmation in confirmations:
                with pytest.raises(LinkLostError, match=r"no room.*unknown"):
                    await confirmation
            with pytest.raises(LinkLostError, match="unknown"):
                await producer.flush()
            second.refuse = lambda event: None
            await (await producer.send(b"3"))
        assert store.bodies("/queue/a") == [b"1", b"2", b"3"]
        assert sorted(store.producers.values()) == [1, 2]


async def test_a_single_message_refused_after_a_failover_is_not_known_either() -> None:
    """Its number is not borrowed by the next one."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            first.is_holding = True
            second.refuse = refuse_sends
            sending = asyncio.create_task(connection.send("/queue/a", b"1"))
            await first.saw(lambda: first.sends)
            first.kill()
            with pytest.raises(LinkLostError, match="unknown"):
                await sending
            second.refuse = lambda event: None
            await connection.send("/queue/a", b"2")
        assert store.bodies("/queue/a") == [b"1", b"2"]


async def test_what_waited_for_a_link_and_is_refused_is_known_not_to_be_stored() -> None:
    """It was sent over one link only, so a refusal is a refusal, and its number is used again."""
    async with ScriptedBroker() as broker:
        async with connect(broker.failover()) as connection:
            interrupted = asyncio.Event()
            connection.on_interrupted(lambda _: interrupted.set())
            broker.refuse = refuse_sends
            broker.hang_up()
            await interrupted.wait()
            producer = connection.producer("/queue/a")
            confirmation = await producer.send(b"1")
            with pytest.raises(RefusedError, match="no room"):
                await confirmation
            with pytest.raises(RefusedError, match="no room"):
                await producer.flush()
            broker.refuse = lambda event: None
            await (await producer.send(b"2"))
        assert numbers(broker) == [1, 1]


async def test_a_refusal_is_told_by_close_when_its_producer_has_gone() -> None:
    """The failure is the connection's: a producer made for one message is soon gone."""
    async with ScriptedBroker() as broker:
        broker.refuse = lambda event: ("refused", "no room") if event in broker.sends else None
        connection = await connect(broker.uri)
        await connection.producer("/queue/a").send(b"1")
        await broker.saw(lambda: broker.sends)
        await connection.wait_confirmed()
        gc.collect()
        with pytest.raises(RefusedError, match="no room"):
            await connection.close()


async def test_a_block_that_fails_tells_what_it_cost() -> None:
    """Nothing is waited for then; the block's own error says what is not known to be stored."""
    async with ScriptedBroker() as broker:
        broker.is_holding = True
        with pytest.raises(ZeroDivisionError) as raised:
            async with connect(broker.uri) as connection:
                await connection.producer("/queue/a").send(b"1")
                raise ZeroDivisionError
        (note,) = raised.value.__notes__
        assert "1 message to /queue/a" in note


async def test_a_refusal_whose_caller_was_cancelled_is_told_by_close() -> None:
    """The message or the commit went on its way without its caller; what became of it is told."""
    async with ScriptedBroker() as broker:
        broker.is_holding = True
        connection = await connect(broker.uri)
        transaction = connection.transaction()
        for number in range(3):
            await transaction.send("/queue/b", str(number))
        sending = asyncio.create_task(connection.send("/queue/a", b"1"))
        committing = asyncio.create_task(transaction.commit())
        await broker.saw(lambda: broker.sends and broker.frames("BEGIN"))
        sending.cancel()
        committing.cancel()
        await asyncio.wait([sending, committing])
        broker.hang_up()
        with pytest.raises(LinkLostError) as raised:
            await connection.close()
        notes = "\n".join(raised.value.__notes__)
        assert "1 message to /queue/a" in notes
        assert "3 messages of a transaction" in notes


async def test_equal_values_of_other_types_are_other_headers() -> None:
    """True, 1 and 1.0 are equal in Python, and not the same on the wire."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.producer("/queue/a") as producer:
            for value in (1, True, 1.0, "1", 0.0, -0.0):
                await producer.send(b"x", headers={"n": value})
        found = [frame.block.headers["n"] for frame in broker.sends]
        assert found == ["1", "true", "1.0", "1", "0.0", "-0.0"]


async def test_what_a_forgetful_broker_refuses_is_sent_again_under_another_id() -> None:
    """Idle for too long: nothing is in doubt, so the whole window goes again, in its order."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        await (await producer.send(b"1"))
        forgotten = producer.producer_id
        broker.store.producers.clear()
        broker.is_holding = True
        confirmations = [
            await producer.send(body) for body in (b"2", b"3\nproducer-sequence:2\n", b"4")
        ]
        await broker.saw(lambda: len(broker.sends) == 4)
        broker.release()
        await producer.flush()
        assert all(confirmation.done() for confirmation in confirmations)
        assert broker.store.bodies("/queue/a") == [b"1", b"2", b"3\nproducer-sequence:2\n", b"4"]
        assert producer.producer_id != forgotten
        assert broker.store.producers == {producer.producer_id: 3}
        await (await producer.send(b"5"))
        assert broker.store.producers == {producer.producer_id: 4}


async def test_a_broker_that_forgets_again_and_again_is_told() -> None:
    """Once is forgetfulness; the second time the application hears of it."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        await (await producer.send(b"1"))
        broker.refuse = lambda event: (
            ("producer-forgotten", "who?") if event in broker.sends else None
        )
        await producer.send(b"2")
        await producer.send(b"3")
        with pytest.raises(RefusedError, match="who"):
            await producer.flush()
        assert broker.store.bodies("/queue/a") == [b"1"]
        broker.refuse = lambda _event: None
        await (await producer.send(b"4"))
        assert broker.store.bodies("/queue/a") == [b"1", b"4"]


async def test_a_refusal_among_the_forgotten_refuses_all_of_them() -> None:
    """What comes after a message that is not stored is not stored either."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a")
        await (await producer.send(b"1"))
        broker.store.producers.clear()
        broker.refuse = lambda event: (
            ("store-full", "full") if event in broker.sends and event.body == b"3" else None
        )
        confirmations = [await producer.send(body) for body in (b"2", b"3", b"4")]
        with pytest.raises(RefusedError):
            await producer.flush()
        assert all(confirmation.exception() for confirmation in confirmations)
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_a_forgotten_message_of_two_links_is_in_doubt() -> None:
    """The first broker may have stored it before all of it was forgotten."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            producer = connection.producer("/queue/a")
            await (await producer.send(b"1"))
            first.is_deaf = True
            await producer.send(b"2")
            store.producers.clear()
            first.kill()
            with pytest.raises(LinkLostError, match="unknown"):
                await producer.flush()
            assert store.bodies("/queue/a") == [b"1"]


async def test_a_producer_with_an_id_of_its_own_keeps_it() -> None:
    """Only the application knows where to go on under it."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        producer = connection.producer("/queue/a", producer_id="mine")
        await (await producer.send(b"1"))
        broker.store.producers.clear()
        await producer.send(b"2")
        with pytest.raises(RefusedError, match="expected"):
            await producer.flush()
        assert producer.producer_id == "mine"


async def test_a_single_send_and_a_commit_survive_being_forgotten() -> None:
    """They borrow ids that may have lain idle for long."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        await connection.send("/queue/a", b"1")
        broker.store.producers.clear()
        await connection.send("/queue/a", b"2")
        broker.store.producers.clear()
        async with connection.transaction() as transaction:
            await transaction.send("/queue/a", b"3")
        assert broker.store.bodies("/queue/a") == [b"1", b"2", b"3"]
        broker.refuse = lambda event: (
            ("producer-forgotten", "who?")
            if event in broker.sends or getattr(event, "command", "") == "COMMIT"
            else None
        )
        with pytest.raises(RefusedError, match="who"):
            await connection.send("/queue/a", b"4")
        broker.refuse = lambda _event: None
        await connection.send("/queue/a", b"5")
        broker.refuse = lambda event: (
            ("producer-forgotten", "who?") if getattr(event, "command", "") == "COMMIT" else None
        )
        with pytest.raises(RefusedError, match="who"):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/a", b"6")
        assert broker.store.bodies("/queue/a") == [b"1", b"2", b"3", b"5"]


async def test_an_id_of_the_applications_own_is_escaped() -> None:
    """It is a value of a header, whatever stands in it, and cannot be another header."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        own = "a:b\nreceipt:evil\\"
        async with connection.producer("/queue/a", producer_id=own) as producer:
            await producer.send(b"1")
        (frame,) = broker.sends
        assert frame.block.headers["producer-id"] == own
        assert b"evil" not in (frame.receipt or b"")
        with pytest.raises(ConfigError, match="empty"):
            connection.producer("/queue/a", producer_id="")


async def test_an_error_told_again_does_not_grow() -> None:
    """What ended a producer or a connection is raised by every call after it, each time anew."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
        producer = connection.producer("/queue/a", producer_id="mine")
        await producer.send(b"1")
        with pytest.raises(RefusedError):
            await producer.flush()

        async def told(call: Callable[[], Awaitable[object]]) -> tuple[int, int]:
            with pytest.raises(HoldfastError) as caught:
                await call()
            return id(caught.value), len(traceback.extract_tb(caught.value.__traceback__))

        ended = [await told(lambda: producer.send(b"2")) for _ in range(3)]
        await connection.close(is_graceful=False)
        closed = [await told(lambda: connection.send("/queue/a", b"3")) for _ in range(3)]
        for depths in (ended, closed):
            assert len({depth for _, depth in depths}) == 1
