"""
The blocking producer: whatever is handed over has an outcome, and no failure goes untold.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
from threaded_broker import Threaded, within

from holdfast.client import blocking
from holdfast.errors import (
    HoldfastError,
    LinkLostError,
    LocalProtocolError,
    MisplacedCallError,
    RefusedError,
)
from holdfast.model.limits import MESSAGE_BODY_BYTES_MAX

QUEUE = "/queue/a"
LONE_SURROGATE = "espr\udce9sso"


@pytest.mark.parametrize(
    ("body", "headers", "named"),
    [
        (LONE_SURROGATE, None, "UTF-8"),
        (5, None, "int"),
        (None, None, "NoneType"),
        ([1, 2], None, "list"),
        (b"x", {"colour": LONE_SURROGATE}, "colour"),
        (b"x", {LONE_SURROGATE: "red"}, "UTF-8"),
        (b"x", {"receipt": "mine"}, "receipt"),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_said(
    threaded: Threaded, body: Any, headers: Any, named: str
) -> None:
    """
    The call itself raises, by a name; it has taken no place, and what comes after it is stored.

    Found out on the loop's thread it killed what sends there, and everything after it was lost.
    """
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        with connection.producer(QUEUE, window=1) as producer:
            for _ in range(3):
                with pytest.raises(LocalProtocolError, match=named):
                    producer.send(body, headers=headers)
            within(lambda: producer.send("after").result())
        with pytest.raises(LocalProtocolError, match=named):
            connection.send(QUEUE, body, headers=headers)
        with (
            pytest.raises(LocalProtocolError, match=named),
            connection.transaction() as all_or_none,
        ):
            all_or_none.send(QUEUE, body, headers=headers)
    assert broker.store.bodies(QUEUE) == [b"after"]


def test_a_body_that_is_too_large_is_refused_where_it_is_said(threaded: Threaded) -> None:
    """As the others; close, without a flush, has nothing left to tell."""
    body = bytes(MESSAGE_BODY_BYTES_MAX + 1)
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer(QUEUE)
        with pytest.raises(LocalProtocolError, match="67,108,865"):
            producer.send(body)


def test_a_destination_that_cannot_be_encoded_is_refused(threaded: Threaded) -> None:
    """As with bodies: by the call that says it."""
    with blocking.connect(threaded.broker.uri) as connection:
        for destination in (f"/queue/{LONE_SURROGATE}", 5):
            with pytest.raises(LocalProtocolError, match="destination"):
                connection.producer(destination)  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="destination"):
                connection.send(destination, "x")  # type: ignore[arg-type]


def test_what_was_handed_over_is_stored_as_it_was_then(threaded: Threaded) -> None:
    """The caller may fill its buffer and its headers anew as soon as the call is back."""
    broker = threaded.broker
    buffer, headers = bytearray(b"0"), {"colour": "0"}
    with blocking.connect(broker.uri) as connection, connection.producer(QUEUE) as producer:
        for number in range(200):
            buffer[:], headers["colour"] = b"%d" % number, str(number)
            producer.send(buffer, headers=headers)
    expected = [(b"%d" % number, str(number)) for number in range(200)]
    stored = broker.store.messages[QUEUE]
    assert [(message.body, message.headers["colour"]) for message in stored] == expected


def test_a_confirmation_says_which_message_it_is(threaded: Threaded) -> None:
    """As the one of asyncio does."""
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer("/queue/a")
        first, second = producer.send(b"1"), producer.send(b"2")
        assert [first.result(5).producer_sequence, second.result(5).producer_sequence] == [1, 2]
        assert first.result().producer_id == second.result().producer_id is not None
        assert connection.send("/queue/a", b"3").producer_sequence == 1


def test_closing_stores_what_was_handed_over(threaded: Threaded) -> None:
    """Without a flush, and with the producer gone: close waits for all that was handed over."""
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        for number in range(500):
            connection.producer(QUEUE, window=1000).send(str(number))
    assert len(broker.store.bodies(QUEUE)) == 500


@pytest.mark.parametrize("is_kept", [True, False])
def test_closing_tells_what_was_not_stored(threaded: Threaded, *, is_kept: bool) -> None:
    """The refusal comes from close where nobody flushed, whether the producer is there or not."""
    broker = threaded.broker
    broker.refuse = lambda event: ("refused", "no room") if event in broker.sends else None
    connection = blocking.connect(broker.uri)
    producer = connection.producer(QUEUE)
    futures = [producer.send(str(number)) for number in range(3)]
    threaded.saw(lambda: len(broker.sends) == 3)
    if not is_kept:
        del producer
    gc.collect()
    with pytest.raises(RefusedError, match="no room") as raised:
        connection.close()
    assert "3 messages to /queue/a" in str(raised.value.__notes__)
    assert all(future.exception(10) is not None for future in futures)


def test_closing_tells_of_every_destination(threaded: Threaded) -> None:
    """Two producers were refused: both are named, not only the first."""
    broker = threaded.broker
    broker.refuse = lambda event: ("refused", "no room") if event in broker.sends else None
    connection = blocking.connect(broker.uri)
    connection.producer("/queue/a").send("1")
    connection.producer("/queue/b").send("2")
    with pytest.raises(RefusedError) as raised:
        connection.close()
    notes = "\n".join(raised.value.__notes__)
    assert "1 message to /queue/a" in notes
    assert "1 message to /queue/b" in notes


def test_a_block_that_fails_tells_what_it_cost(threaded: Threaded) -> None:
    """Nothing is waited for then; the block's own error says what is not known to be stored."""
    broker = threaded.broker
    threaded.do(lambda: setattr(broker, "is_holding", True))
    with pytest.raises(ZeroDivisionError) as raised, blocking.connect(broker.uri) as connection:
        producer = connection.producer(QUEUE)
        for number in range(3):
            producer.send(str(number))
        raise ZeroDivisionError
    (note,) = raised.value.__notes__
    assert "3 messages to /queue/a" in note


def test_a_failure_that_was_told_is_not_told_again(threaded: Threaded) -> None:
    """Flush has told it, so close has nothing to say."""
    broker = threaded.broker
    broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
    with blocking.connect(broker.uri) as connection:
        producer = connection.producer(QUEUE)
        producer.send("1")
        with pytest.raises(RefusedError):
            producer.flush()


def test_a_cancelled_confirmation_keeps_no_place(threaded: Threaded) -> None:
    """The message is on its way: it is stored, and its place in the window is free again."""
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        threaded.do(lambda: setattr(broker, "is_holding", True))
        producer = connection.producer(QUEUE, window=2)
        for number in range(2):
            producer.send(str(number)).cancel()
        threaded.do(broker.release)
        within(lambda: [producer.send(str(number)) for number in range(2, 10)])
        within(producer.flush)
    assert len(broker.store.bodies(QUEUE)) == 10


def test_a_listener_that_waits_for_its_own_connection_is_told(threaded: Threaded) -> None:
    """It runs on the thread that would have to do the work; waiting there would be for ever."""
    broker = threaded.broker
    found: list[HoldfastError] = []
    done = threading.Event()
    connection = blocking.connect(broker.failover(options="initialReconnectDelay=0"))
    full = connection.producer(QUEUE, window=1)

    def tried(call: Callable[[], object]) -> None:
        try:
            call()
        except HoldfastError as error:
            found.append(error)

    @connection.on_resumed
    def resumed(_event: object) -> None:
        tried(lambda: connection.send(QUEUE, "x"))
        tried(lambda: connection.producer(QUEUE))
        tried(connection.close)
        unconfirmed = full.send("held")
        tried(unconfirmed.result)
        tried(lambda: full.send("more"))
        done.set()

    threaded.do(broker.hang_up)
    assert done.wait(20)
    assert [type(error) for error in found] == [MisplacedCallError] * 5
    within(connection.close)
    assert broker.store.bodies(QUEUE) == [b"held"]


def test_after_close_nothing_is_taken(threaded: Threaded) -> None:
    """Each call ends in an error, however often, and also where the window would be full."""
    connection = blocking.connect(threaded.broker.uri)
    producer = connection.producer(QUEUE, window=2)
    within(lambda: producer.send("1").result())
    connection.close()
    for _ in range(5):
        with pytest.raises(LinkLostError, match="closed"):
            within(lambda: producer.send("2"))
    # All that was handed over has been told of.
    within(producer.flush)
    assert threaded.broker.store.bodies(QUEUE) == [b"1"]


def test_closing_while_other_threads_send(threaded: Threaded) -> None:
    """Every call of theirs ends, and every confirmation has an outcome that is true."""
    broker = threaded.broker
    connection = blocking.connect(broker.uri)
    confirmations: list[tuple[bytes, Any]] = []
    ends: list[HoldfastError] = []
    begun = threading.Barrier(5)

    def sending(name: int) -> None:
        producer = connection.producer(QUEUE, window=10)
        number = 0
        try:
            while True:
                body = b"%d-%d" % (name, number)
                confirmations.append((body, producer.send(body)))
                number += 1
                if number == 20:
                    begun.wait(20)
        except HoldfastError as error:
            ends.append(error)

    threads = [threading.Thread(target=sending, args=(name,), daemon=True) for name in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(20)
    try:
        within(connection.close)
    except LinkLostError as error:
        ends.append(error)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert {type(error) for error in ends} == {LinkLostError}
    stored = [body for body, confirmation in confirmations if confirmation.exception(10) is None]
    assert len(stored) >= 80
    assert set(stored) <= set(broker.store.bodies(QUEUE))


@pytest.mark.parametrize("is_called", [False, True])
def test_a_send_that_a_signal_interrupts_keeps_nothing_back(
    threaded: Threaded, monkeypatch: pytest.MonkeyPatch, *, is_called: bool
) -> None:
    """
    A signal handler raises while the loop's thread is called, before or after that is done: what
    was handed over is sent, and so is what comes after it.
    """
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer(QUEUE)
        call = connection._thread.call

        def interrupted(*arguments: Any) -> None:
            monkeypatch.undo()
            if is_called:
                call(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(connection._thread, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.send("1")
        threaded.saw(lambda: len(threaded.broker.sends) == 1)
        within(lambda: producer.send("2").result())
    assert threaded.broker.store.bodies(QUEUE) == [b"1", b"2"]


def test_asyncio_can_await_a_confirmation(threaded: Threaded) -> None:
    """The future is one of concurrent.futures, with all that goes with it."""
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer(QUEUE)

        async def confirmed() -> None:
            await asyncio.wrap_future(producer.send("1"))

        asyncio.run(confirmed())


def test_confirmations_that_fail_together_have_errors_of_their_own(threaded: Threaded) -> None:
    """One object raised by a thousand of them would keep the frames of a thousand callers."""
    broker = threaded.broker
    broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
    with blocking.connect(broker.uri) as connection:
        producer = connection.producer(QUEUE)
        confirmations = [producer.send("x") for _ in range(3)]
        errors = [confirmation.exception(10) for confirmation in confirmations]
        assert {str(error) for error in errors} == {"no"}
        assert len({id(error) for error in errors}) == 3
        with pytest.raises(RefusedError):
            producer.flush()
