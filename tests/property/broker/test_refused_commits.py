"""
A COMMIT that fails in the middle, at whatever place, stores nothing; repeated, it stores all, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.broker.broker import Broker
from holdfast.broker.committing import Committing
from holdfast.broker.destinations import Destinations
from holdfast.broker.receipts import Receipts
from holdfast.broker.routing import Routing
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, SequenceGapError
from holdfast.model.records import MessageRecord

QUEUES = ("a", "b", "c", "d")
SETTINGS = BrokerSettings(queue_count_max=4, dispatch_mark_step_min=4, dispatch_mark_step_max=8)


class MistakeError(Exception):
    """A mistake of ours in the middle of a commit."""


class Client:
    id = sent_as = ""

    def __init__(self) -> None:
        self.room_bytes = 1 << 30
        self.subscriptions: dict[str, Subscription] = {}
        self.replies: list[bytes] = []

    def reply(self, receipt: bytes) -> None:
        self.replies.append(receipt)

    confirm = reply


class World:
    """A leader whose batches are committed at once."""

    def __init__(self) -> None:
        self.broker = Broker(SETTINGS)
        self.broker.lead()
        self.client = Client()
        self.next_record = 1
        self.delivered: list[tuple[str, bytes]] = []

    def turn(self) -> None:
        self.dispatch()
        while self.broker.receipts.has_batch():
            batch = self.broker.receipts.take_batch()
            self.broker.apply_batch(batch, self.next_record, 1)
            self.next_record += len(batch.records)
            for replier, receipt in batch.replies:
                replier.reply(receipt)
            self.dispatch()
        for publisher, receipt in self.broker.publishing.take_receipts(99):
            publisher.confirm(receipt)

    def dispatch(self) -> None:
        for subscription, _, message, _, _ in chain.from_iterable(self.broker.dispatch()):
            self.delivered.append((subscription.queue.name, message.body))

    def subscribe(self, name: str) -> Subscription:
        subscription = Subscription(self.client, name, mode=AcknowledgeMode.INDIVIDUAL, prefetch=99)
        self.client.subscriptions[name] = subscription
        self.broker.subscribe(subscription, self.broker.queue(name))
        return subscription


CALLS = (
    (Routing, "current_of"),
    (Committing, "_put_sends"),
    (Receipts, "record"),
    (Destinations, "advance_mark"),
)


def _counted(call: Any, whole: Any) -> Any:
    return lambda *arguments, **named: call(whole, *arguments, **named)


@contextmanager
def failing_at(step: int, calls: tuple[tuple[Any, str], ...]) -> Iterator[None]:
    """Fail at the n-th call of any of these, methods of the broker or what COMMIT is made of."""
    left = step

    def call(whole: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise MistakeError
        return whole(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in calls:
            patch.setattr(owner, name, _counted(call, getattr(owner, name)))
        yield


@given(
    sends=st.lists(st.tuples(st.sampled_from(QUEUES), st.booleans()), min_size=1, max_size=6),
    is_deleted=st.sets(st.sampled_from(QUEUES)),
    is_crowded=st.booleans(),
    is_numbered=st.booleans(),
    has_gap=st.booleans(),
    step=st.integers(0, 8),
)
@example(
    sends=[("a", True)] * 4,
    is_deleted=set(),
    is_crowded=False,
    is_numbered=False,
    has_gap=False,
    step=5,
)  # It failed as the dispatch mark was to be advanced: the mark must not count as asked for.
def test_a_commit_is_whole_or_nothing(
    sends, is_deleted, is_crowded, is_numbered, has_gap, step
) -> None:
    """
    Refused for a gap or for queues, or broken at any call: the receipt comes with everything.
    """
    world = World()
    broker = world.broker
    for name in QUEUES:
        broker.queue(name)
    source = world.subscribe("a") if "a" not in is_deleted else None
    if source is not None:
        broker.send(broker.queue("a"), b"", b"moved", world.client, None)
    world.turn()
    world.delivered.clear()
    transaction = Transaction("t", SETTINGS)
    for number, (name, persistent) in enumerate(sends):
        broker.hold(transaction, broker.queue(name), b"", b"%d" % number, persistent=persistent)
    if source is not None:
        transaction.add_settlement(source, [1])
    for name in is_deleted:
        broker.delete(name, world.client, b"deleted")
    world.turn()
    crowd = [f"crowd {number}" for number, _ in enumerate(is_deleted)] if is_crowded else []
    for name in crowd:
        broker.queue(name)
    world.turn()
    producer = ("p", 2 if has_gap else 1) if is_numbered else (None, 0)
    size = broker.receipts.uncommitted_bytes
    live = broker.state.live_count()
    try:
        with failing_at(step, CALLS):
            broker.commit(transaction, world.client, b"receipt", *producer)
        is_done = True
    except (DestinationError, SequenceGapError, MistakeError):
        is_done = False
        kept = broker.receipts.batch.records
        assert not any(isinstance(record, MessageRecord) for record in kept)
        assert not broker.receipts.batch.publications
        assert broker.receipts.uncommitted_bytes >= size
        world.turn()
        assert broker.state.live_count() == live, "a part of it is stored"
        assert b"receipt" not in world.client.replies
    world.turn()
    for name in crowd:
        broker.delete(name, world.client, b"deleted")
    world.turn()
    if not is_done:
        first = ("p", 1) if is_numbered else (None, 0)
        broker.commit(transaction, world.client, b"receipt", *first)
    world.turn()
    for name in QUEUES:
        if name not in world.client.subscriptions:
            world.subscribe(name)
    world.turn()
    expected = sorted((name, b"%d" % number) for number, (name, _) in enumerate(sends))
    assert sorted(world.delivered) == expected
    assert world.client.replies.count(b"receipt") == 1
    assert broker.receipts.uncommitted_bytes == 0
    assert broker.flow.held_bytes == 0


def test_a_rejection_that_is_refused_leaves_the_message_in_delivery() -> None:
    """
    No room for the dead-letter queue: the message is neither moved nor lost from sight.
    """
    world = World()
    for name in QUEUES:
        world.broker.queue(name)
    source = world.subscribe("a")
    world.broker.send(world.broker.queue("a"), b"", b"x", world.client, None)
    world.turn()
    record = world.broker.queue("a").cache[1]
    with pytest.raises(DestinationError):
        world.broker.reject(source, 1, record, world.client, b"r")
    assert list(source.unacknowledged) == [1]
    world.turn()
    assert world.broker.state.live_count() == 1
    world.broker.delete("d", world.client, b"d")
    world.turn()
    world.broker.reject(source, 1, record, world.client, b"r")
    world.turn()
    assert world.client.replies.count(b"r") == 1
    assert world.broker.queue("a").index.live_count == 0
    assert world.broker.queue(SETTINGS.dead_letter_queue).index.live_count == 1
