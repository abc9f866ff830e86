"""
Purging and deleting queues: one record each, whatever is on them and on its way to them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.errors import DestinationError


def test_a_purge_is_one_record_and_takes_everything(desk, new_client) -> None:
    """
    Waiting, in delivery, on its way, given back, non-persistent; nothing sent after it.
    """
    client, other = new_client(), new_client()
    broker = desk.broker
    for _ in range(5):
        desk.send(b"old")
    broker.send_transient(desk.queue(), b"", b"np")
    first = desk.subscribe(client=client, prefetch=2)
    desk.turn()
    broker.unsubscribe(first)
    desk.subscribe(client=other, prefetch=1)
    desk.turn()
    desk.send(b"on its way")
    desk.seal()
    desk.send(b"on its way too")
    assert broker.purge("orders", desk.client, b"p") == 6
    desk.send(b"new")
    broker.send_transient(desk.queue(), b"", b"new np")
    desk.turn()
    assert other.keys == [1]
    third = new_client()
    desk.subscribe(client=third)
    desk.turn()
    assert third.deliveries == [(8, False), (-2, False)]
    assert desk.client.replies == [b"p"]
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_a_purge_frees_the_memory(desk, new_client) -> None:
    """
    And what consumers still hold of it may be acknowledged or given back without effect.
    """
    client = new_client()
    for _ in range(5):
        desk.send(b"x")
        desk.broker.send_transient(desk.queue(), b"", b"np")
    subscription = desk.subscribe(client=client)
    desk.turn()
    desk.broker.purge("orders", desk.client, b"p")
    desk.turn()
    assert desk.broker.flow.memory_bytes == 0
    for key in (1, -1):
        desk.broker.acknowledge(subscription, key, client, None)
    desk.broker.unsubscribe(subscription)
    other = new_client()
    desk.subscribe(client=other)
    desk.turn()
    assert other.keys == []
    assert not desk.queue().custody.redelivered


def test_a_queue_with_consumers_is_not_deleted(desk) -> None:
    """
    The sentence says how many there are.
    """
    desk.subscribe()
    with pytest.raises(DestinationError, match="1 consumers"):
        desk.broker.delete("orders", desk.client, b"d")


@pytest.mark.parametrize("operation", ["purge", "delete"])
def test_an_unknown_queue_is_refused(desk, operation) -> None:
    """
    An operator's typing error must not declare anything.
    """
    with pytest.raises(DestinationError, match="no queue"):
        getattr(desk.broker, operation)("nothing", desk.client, b"d")
    assert not desk.broker.receipts.has_batch()


def test_a_deleted_queue_takes_everything_with_it(desk) -> None:
    """
    Messages, memory and name; its number is never used again.
    """
    for _ in range(3):
        desk.send(b"x")
        desk.broker.send_transient(desk.queue(), b"", b"np")
    desk.turn()
    assert desk.broker.delete("orders", desk.client, b"d") == 6
    desk.turn()
    assert (desk.state.queues, desk.state.by_name, desk.broker.flow.memory_bytes) == ({}, {}, 0)
    assert desk.queue().number == 2
    desk.turn()
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_a_queue_deleted_and_declared_again_before_anything_is_committed(desk, new_client) -> None:
    """
    While both declarations and the deletion are on their way, the newest is what the name means.
    """
    broker = desk.broker
    desk.send(b"old")
    desk.seal()
    broker.delete("orders", desk.client, b"d")
    desk.seal()
    desk.send(b"new 1")
    new = desk.queue()
    client = new_client()
    desk.subscribe(client=client)
    desk.seal()
    first, timestamp, batch = desk.in_flight.pop(0)
    broker.apply_batch(batch, first, timestamp)
    assert desk.queue() is new
    desk.send(b"new 2")
    desk.turn()
    assert desk.queue() is new
    assert client.keys == [1, 2]
    assert list(desk.state.queues) == [2]
    assert digest_of(desk.state) == digest_of(desk.replayed())
