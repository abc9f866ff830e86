"""
The blocking face: the same promises without a loop in sight.

The scripted broker runs in a thread of its own, since nothing here may await.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_broker import ScriptedBroker

from holdfast.client import blocking
from holdfast.errors import ConfigError, LinkLostError, RefusedError, TransactionError

QUEUE = "/queue/a"


class Threaded:
    """A scripted broker in a thread; `do` runs a function over there."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.wait(self.broker.__aenter__())

    def wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def do(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return self.wait(called())

    def saw(self, condition: Callable[[], Any]) -> None:
        self.wait(self.broker.saw(condition))

    def close(self) -> None:
        async def drained() -> None:
            # Transports close in the turns after they are told to.
            for _ in range(5):
                await asyncio.sleep(0)

        self.do(self.broker.kill)
        self.wait(drained())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def threaded() -> Iterator[Threaded]:
    served = Threaded()
    yield served
    served.close()


def test_send_waits_for_the_receipt(threaded: Threaded) -> None:
    """When it returns the broker has the message; a refusal is raised here."""
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        connection.send(QUEUE, "1", headers={"colour": "red"})
        assert broker.store.bodies(QUEUE) == [b"1"]
        assert (connection.address, connection.term) == (broker.uri, 1)
        broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
        with pytest.raises(RefusedError):
            connection.send(QUEUE, "2")
    assert connection.is_closed
    connection.close()
    with pytest.raises(LinkLostError):
        connection.send(QUEUE, "3")


def test_a_connection_that_cannot_be_made_leaves_no_thread(threaded: Threaded) -> None:
    """The error of the attempt is raised, and the loop's thread is gone."""
    threads = threading.active_count()
    port = threaded.broker.port
    threaded.do(threaded.broker.kill)
    with pytest.raises(LinkLostError):
        blocking.connect(f"stomp://127.0.0.1:{port}")
    with pytest.raises(ConfigError):
        blocking.connect("stomp://h", colour="red")
    assert threading.active_count() == threads


def test_a_producer_keeps_order_and_window(threaded: Threaded) -> None:
    """A thousand messages through a window of ten, in order, each confirmed."""
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        with connection.producer(QUEUE, window=10) as producer:
            confirmations = [producer.send(str(n), persistent=n % 2 == 0) for n in range(1000)]
        assert all(confirmation.done() for confirmation in confirmations)
        assert broker.store.bodies(QUEUE) == [str(n).encode() for n in range(1000)]


def test_a_refusal_fails_what_was_handed_over_after_it(threaded: Threaded) -> None:
    """Told once, by flush; then the producer goes on."""
    broker = threaded.broker
    broker.refuse = lambda event: (
        ("refused", "no") if event in broker.sends and event.body == b"2" else None
    )
    with blocking.connect(broker.uri) as connection:
        producer = connection.producer(QUEUE)
        confirmations = [producer.send(str(n)) for n in range(1, 5)]
        with pytest.raises(RefusedError):
            producer.flush()
        assert [confirmation.exception() is None for confirmation in confirmations] == [
            *(True, False, False, False)
        ]
        producer.send("5")
        producer.flush()
        assert broker.store.bodies(QUEUE) == [b"1", b"5"]


def test_a_message_that_cannot_be_sent_fails_the_next_call(threaded: Threaded) -> None:
    """It is found out on the other thread, so it is told by the next call."""
    with blocking.connect(threaded.broker.uri) as connection:
        producer = connection.producer(QUEUE)
        confirmation = producer.send("1", headers={"receipt": "mine"})
        assert "receipt" in str(confirmation.exception(10))
        with pytest.raises(Exception, match="receipt"):
            producer.send("2")
        producer.send("3").result(10)


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


def test_transactions_commit_and_roll_back(threaded: Threaded) -> None:
    """All or nothing, with a message taken here."""
    store = threaded.broker.store
    store.put(QUEUE, {"persistent": "true"}, b"in")
    with (
        blocking.connect(threaded.broker.uri) as connection,
        connection.subscribe(QUEUE) as subscription,
    ):
        message = next(subscription)
        with pytest.raises(ValueError, match="mine"), connection.transaction() as transaction:
            transaction.send("/queue/out", "never")
            transaction.acknowledge(message)
            raise ValueError("mine")
        with connection.transaction() as transaction:
            transaction.send("/queue/out", "1")
            transaction.acknowledge(message)
        assert store.bodies("/queue/out") == [b"1"]
        assert store.settled == [message.id]
        transaction = connection.transaction()
        transaction.commit()
        with pytest.raises(TransactionError):
            transaction.commit()
        connection.transaction().roll_back()


def test_interruptions_are_told_and_survived(threaded: Threaded) -> None:
    """Listeners hear of them on the loop's thread; calls wait them out."""
    told: list[str] = []
    resumed = threading.Event()
    broker = threaded.broker
    with blocking.connect(broker.failover()) as connection:
        connection.on_interrupted(lambda event: told.append(event.address))
        connection.on_resumed(lambda event: (told.append(event.address), resumed.set()))
        threaded.do(broker.hang_up)
        connection.send(QUEUE, "1")
        assert resumed.wait(10)
    assert told == [broker.uri, broker.uri]
    assert broker.store.bodies(QUEUE) == [b"1"]


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
