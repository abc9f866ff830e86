"""Receiving without a loop in sight: nothing is lost between the threads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from threaded_broker import Threaded

from holdfast.client import blocking
from holdfast.errors import ConfigError, LinkLostError

QUEUE = "/queue/a"


def test_messages_are_taken_and_settled(threaded: Threaded) -> None:
    """Taking, waiting no longer than told, acknowledging and rejecting."""
    store = threaded.broker.store
    for n in range(4):
        store.put(QUEUE, {"persistent": "true", "colour": "red"}, str(n).encode())
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE, prefetch=10) as subscription,
    ):
        messages = [next(subscription) for _ in range(4)]
        first, second, third, _ = messages
        assert [message.text for message in messages] == ["0", "1", "2", "3"]
        assert (first.body, first.destination, first.redelivered) == (b"0", QUEUE, False)
        assert first.headers["colour"] == "red"
        assert first.id in repr(first)
        assert subscription.receive(0.001) is None
        first.acknowledge()
        second.acknowledge(confirm=True)
        assert second.is_settled
        third.reject(confirm=True)
        second.reject()
        messages[3].reject()
    assert store.settled == [first.id, second.id]
    assert store.rejected == [third.id, messages[3].id]


def test_auto_acknowledges_what_this_thread_is_done_with(threaded: Threaded) -> None:
    """A batch is taken over at once, but acknowledged one by one."""
    store = threaded.broker.store
    for n in range(3):
        store.put(QUEUE, {"persistent": "true"}, str(n).encode())
    with blocking.connect(threaded.broker.uri) as connection:
        with connection.subscribe(QUEUE, acknowledge="auto") as subscription:
            next(subscription)
            next(subscription)
            threaded.saw(lambda: len(store.settled) == 1)
        assert len(store.settled) == 2
        with (
            pytest.raises(ValueError, match="mine"),
            connection.subscribe(QUEUE, acknowledge="auto") as subscription,
        ):
            next(subscription)
            raise ValueError("mine")
        assert len(store.settled) == 2


class InterruptedWaitError(Exception):
    """What a signal handler raises."""


def interrupt_answers(connection: blocking.BlockingConnection, monkeypatch: Any) -> None:
    """Let the next wait for the loop's thread end with its work done and its answer lost."""
    thread = connection._thread
    run = thread.run

    def interrupted(coroutine: Any) -> None:
        monkeypatch.undo()
        run(coroutine)
        raise InterruptedWaitError

    monkeypatch.setattr(thread, "run", interrupted)


@pytest.mark.parametrize("mode", ["client", "client-individual", "auto"])
def test_an_interrupted_receive_throws_nothing_away(
    threaded: Threaded, mode: Any, monkeypatch: Any
) -> None:
    """A batch that was taken over while a signal handler raised is given to the next calls."""
    store = threaded.broker.store
    for n in range(5):
        store.put(QUEUE, {"persistent": "true"}, str(n).encode())
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE, acknowledge=mode) as subscription,
    ):
        interrupt_answers(connection, monkeypatch)
        with pytest.raises(InterruptedWaitError):
            subscription.receive()
        messages = []
        for n in range(5):
            message = subscription.receive(5)
            assert message is not None
            assert message.text == str(n)
            messages.append(message)
        assert subscription.receive(0) is None
        for message in messages if mode == "client-individual" else messages[-1:]:
            message.acknowledge()
        threaded.saw(lambda: len(store.settled) == 5)


def test_a_wait_that_nobody_cancelled_takes_no_message_from_the_next(threaded: Threaded) -> None:
    """An exception between asking and waiting leaves a wait behind; the next call ends it."""
    store = threaded.broker.store
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        loop = connection._thread.loop
        left = asyncio.run_coroutine_threadsafe(subscription._take(None, 1), loop)
        assert subscription.receive(0.001) is None
        assert left.cancelled()
        threaded.do(lambda: store.put(QUEUE, {"persistent": "true"}, b"1"))
        threaded.do(threaded.broker.dispatch)
        assert next(subscription).text == "1"


def test_an_interrupted_entering_leaves_no_subscription(
    threaded: Threaded, monkeypatch: Any
) -> None:
    """Nobody would read it, and the broker would fill it."""
    broker = threaded.broker
    broker.store.put(QUEUE, {"persistent": "true"}, b"1")
    with blocking.connect(broker.uri) as connection:
        never_read = connection.subscribe(QUEUE)
        interrupt_answers(connection, monkeypatch)
        with pytest.raises(InterruptedWaitError):
            never_read.__enter__()
        threaded.saw(lambda: broker.frames("UNSUBSCRIBE"))
        with connection.subscribe(QUEUE) as subscription:
            assert next(subscription).text == "1"
            interrupt_answers(connection, monkeypatch)
            with pytest.raises(InterruptedWaitError):
                subscription.__exit__(None, None, None)
        assert len(broker.frames("UNSUBSCRIBE")) == 2


def test_a_subscription_ends_with_the_connection(threaded: Threaded) -> None:
    """The loss of a plain link is raised where the thread waits."""
    broker = threaded.broker
    with (
        pytest.raises(LinkLostError),
        blocking.connect(broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        threaded.do(broker.hang_up)
        next(subscription)


def test_fetching_takes_what_is_here(threaded: Threaded) -> None:
    """What this thread has taken over before and what the loop has, in their order."""
    store = threaded.broker.store
    for n in range(6):
        store.put(QUEUE, {"persistent": "true"}, str(n).encode())
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE, prefetch=10) as subscription,
    ):
        first = subscription.receive()
        texts = [first.text]
        while len(texts) < 6:
            batch = subscription.fetch(2)
            assert 1 <= len(batch) <= 2
            texts += [message.text for message in batch]
        assert texts == list("012345")
        assert subscription.fetch(2, seconds=0.001) == []
        with pytest.raises(ConfigError, match="count is -1"):
            subscription.fetch(-1)


def test_fetching_in_mode_auto_acknowledges_what_was_fetched_before(threaded: Threaded) -> None:
    """All of it, and only when this thread asks for more."""
    store = threaded.broker.store
    for n in range(3):
        store.put(QUEUE, {"persistent": "true"}, str(n).encode())
    with blocking.connect(threaded.broker.uri) as connection:
        with connection.subscribe(QUEUE, acknowledge="auto") as subscription:
            messages = []
            while len(messages) < 3:
                messages += subscription.fetch(3 - len(messages))
            messages[0].acknowledge()
            assert subscription.fetch(1, seconds=0.001) == []
            threaded.saw(lambda: len(store.settled) == 3)


def test_the_end_of_a_block_settles_its_message(threaded: Threaded) -> None:
    """Acknowledged if it went well, to the dead letters if not, and the error goes on."""
    store = threaded.broker.store
    for n in range(2):
        store.put(QUEUE, {"persistent": "true", "correlation-id": f"c{n}"}, str(n).encode())
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        one, two = next(subscription), next(subscription)
        assert (one.correlation_id, one.is_in_transaction) == ("c0", False)
        with one.process(confirm=True) as same:
            assert same is one
        with pytest.raises(ValueError, match="mine"), two.process(confirm=True):
            raise ValueError("mine")
        assert (store.settled, store.rejected) == ([one.id], [two.id])
