"""
The blocking face: the same promises without a loop in sight.

The scripted broker runs in a thread of its own, since nothing here may await.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from threaded_broker import Threaded, within

from holdfast.client import blocking
from holdfast.errors import ConfigError, LinkLostError, RefusedError, TransactionError

QUEUE = "/queue/a"


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


def test_after_close_every_call_ends(threaded: Threaded) -> None:
    """Inside its own blocks too: in an error, or in nothing where nothing is left to do."""
    threaded.broker.store.put(QUEUE, {"persistent": "true"}, b"0")
    connection = blocking.connect(threaded.broker.uri)
    with connection.subscribe(QUEUE) as subscription, connection.producer(QUEUE) as producer:
        message = within(subscription.receive)
        producer.send("1")
        transaction = connection.transaction()
        within(connection.close)
        calls: list[Callable[[], object]] = [
            lambda: connection.send(QUEUE, "x"),
            lambda: connection.producer(QUEUE),
            lambda: connection.subscribe(QUEUE),
            lambda: producer.send("x"),
            lambda: subscription.receive(1),
            message.acknowledge,
            lambda: message.reject(confirm=True),
        ]
        for call in calls:
            with pytest.raises(LinkLostError):
                within(call)
        with pytest.raises(ZeroDivisionError), transaction:
            raise ZeroDivisionError


def test_closing_ends_the_waits_of_other_threads(
    threaded: Threaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a message hears that there will be none; who waits for a receipt, too."""
    connection = blocking.connect(threaded.broker.uri)
    has_begun, waits = threading.Event(), threading.Event()
    begun = threading.Barrier(3, action=has_begun.set)
    ends: list[object] = []
    hand_over = connection._thread.call

    def handed_over(function: Callable[..., object], *arguments: object) -> None:
        hand_over(function, *arguments)
        if has_begun.is_set() and threading.current_thread() is threads[0]:
            waits.set()  # Whoever closes before that is in time, and there is no wait to end.

    def receiving() -> None:
        with connection.subscribe(QUEUE) as subscription:
            begun.wait(20)
            ends.append(list(subscription))

    def sending() -> None:
        begun.wait(20)
        try:
            connection.send("/queue/b", "x")
        except LinkLostError as error:
            ends.append(error)

    threads = [
        threading.Thread(target=receiving, daemon=True),
        threading.Thread(target=sending, daemon=True),
    ]
    monkeypatch.setattr(connection._thread, "call", handed_over)
    for thread in threads:
        thread.start()
    begun.wait(20)
    threaded.saw(lambda: len(threaded.broker.sends) == 1)
    assert waits.wait(20)
    within(lambda: connection.close(is_graceful=False))
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert [] in ends


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
