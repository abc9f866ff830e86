"""
Deliveries that end without being done. What clients see of it is tested through their sessions.
"""

from __future__ import annotations

from itertools import chain

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin, Place
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord


@pytest.mark.parametrize("mode", list(AcknowledgeMode))
def test_a_withheld_delivery_is_neither_lost_nor_served(desk, new_client, mode) -> None:
    """
    Damaged bytes: it leaves the window, also of a consumer in auto mode, and the others go on.
    """
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    client = new_client()
    subscription = desk.subscribe(client=client, mode=mode, prefetch=2)
    for found, key, *_ in chain.from_iterable(desk.broker.dispatch()):
        if key == 1:
            desk.broker.withhold(found, key)
        else:
            client.deliveries.append((key, False))
    desk.turn()
    assert client.keys == [2, 3]
    assert 1 not in subscription.unacknowledged
    queue = desk.queue()
    assert queue.index.is_live(1)
    queue.custody.withheld.discard(1)
    queue.give_back([1], redelivered=False)
    queue.touch()
    for key in list(subscription.unacknowledged):
        desk.broker.acknowledge(subscription, key, client, None)
    desk.turn()
    assert client.keys == [2, 3, 1]


# The dead-letter queue ----------------------------------------------------------------------------


def delivered(desk, queue: str = "orders") -> tuple[Subscription, int]:
    """A message in delivery to a new consumer."""
    desk.send(b"x", queue)
    desk.turn()
    subscription = desk.subscribe(queue)
    desk.turn()
    return subscription, next(iter(subscription.unacknowledged))


def reject(desk, subscription: Subscription, key: int) -> None:
    record = subscription.queue.cache.get(key)
    desk.broker.reject(subscription, key, record, desk.client, b"r")


def test_what_is_moved_to_the_dead_letter_queue_is_counted(desk) -> None:
    """
    Once it is stored there, and for as long as the process lives, whoever leads meanwhile.
    """
    reject(desk, *delivered(desk))
    desk.seal()
    assert desk.broker.receipts.dead_lettered_total == 0
    desk.turn()
    assert desk.broker.receipts.dead_lettered_total == 1
    assert desk.queue("ActiveMQ.DLQ").index.live_count == 1
    desk.broker.follow()
    desk.broker.begin_anew()
    assert desk.broker.receipts.dead_lettered_total == 1


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ('{"deadLetterQueue":"theirs"}', "theirs"),
        ('{"deadLetterStrategy":"individual","queuePrefix":"D."}', "D.orders"),
        ('{"deadLetterStrategy":"discard"}', ""),
    ],
)
def test_a_policy_says_where_rejected_messages_go(desk, values, target) -> None:
    """
    Also from one moment to the next, and to a queue that is declared for it; discarded, they end.
    """
    subscription, key = delivered(desk)
    desk.broker.receipts.record(PolicyRecord("queue://orders", values))
    desk.turn()
    reject(desk, subscription, key)
    desk.turn()
    assert desk.queue("orders").index.live_count == 0
    assert desk.broker.receipts.dead_lettered_total == bool(target)
    live = {queue.name: queue.index.live_count for queue in desk.state.by_name.values()}
    assert live == {"orders": 0} | ({target: 1} if target else {})
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_a_dead_letter_keeps_what_it_was_and_says_where_it_was(desk) -> None:
    """
    Its headers as they were sent, which nobody looked into, beside the origin as a fact. How often
    it failed before, which a copy by the cleaner says, was on that queue.
    """
    desk.broker.receipts.record(FormatRecord(2))
    desk.broker.send(desk.queue(), b"own:1\n", b"x", desk.client, None)
    desk.broker.receipts.batch.records[-1].facts = MessageFacts(
        attributes=Attributes(priority=9, failures=2), places=(Place(9, 9),), skips=b"\1"
    )
    desk.turn()
    subscription = desk.subscribe()
    desk.turn()
    record = subscription.queue.cache[1]
    desk.broker.reject(subscription, 1, record, desk.client, b"r", "ID:c-1-1")
    desk.turn()
    (dead,) = desk.queue("ActiveMQ.DLQ").cache.values()
    assert (dead.headers, dead.body) == (b"own:1\n", b"x")
    assert dead.facts == MessageFacts(
        attributes=Attributes(priority=9), origin=Origin(Cause.REJECTED, "orders", "ID:c-1-1")
    )
    assert desk.broker.receipts.uncommitted_bytes == 0
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_below_the_level_of_facts_the_lines_are_stored(desk) -> None:
    """
    A member of before that takes over must show the same.
    """
    subscription, key = delivered(desk)
    reject(desk, subscription, key)
    desk.turn()
    (dead,) = desk.queue("ActiveMQ.DLQ").cache.values()
    assert dead.facts is None
    assert dead.headers.endswith(b"dlqDeliveryFailureCause:rejected\n")


def test_what_ends_without_being_moved_is_no_dead_letter(desk) -> None:
    """
    Only in memory, or purged while it was in delivery.
    """
    desk.broker.send_transient(desk.queue(), b"", b"np")
    subscription = desk.subscribe()
    desk.turn()
    reject(desk, subscription, next(iter(subscription.unacknowledged)))
    subscription, key = delivered(desk, "purged")
    desk.broker.purge("purged", desk.client, b"p")
    desk.turn()
    reject(desk, subscription, key)
    desk.turn()
    assert desk.client.replies.count(b"r") == 2
    assert desk.broker.receipts.dead_lettered_total == 0


def test_what_cannot_be_moved_is_not_counted(new_desk) -> None:
    """
    There is no room for one more queue: it stays in delivery.
    """
    desk = new_desk(BrokerSettings(queue_count_max=1))
    subscription, key = delivered(desk)
    with pytest.raises(DestinationError):
        reject(desk, subscription, key)
    desk.turn()
    assert key in subscription.unacknowledged
    assert desk.broker.receipts.dead_lettered_total == 0


def test_a_late_acknowledgement_of_something_withheld_counts(desk, new_client) -> None:
    """
    It was delivered by another leader; damaged here or not, it is done with.
    """
    desk.send(b"x")
    desk.turn()
    desk.fail_over()
    desk.queue().custody.withheld.add(1)
    desk.broker.acknowledge_identity(1, 1, desk.client, b"r")
    desk.turn()
    assert desk.state.live_count() == 0
    assert not desk.queue().custody.withheld


@pytest.mark.parametrize("way", ["acknowledged", "moved"])
def test_a_roll_back_gives_nobody_what_is_about_to_leave(desk, new_client, way) -> None:
    """What is settled late, or moved, is over for whoever says so again in a transaction."""
    desk.state.format_level = MOVES_LEVEL
    desk.send(b"x")
    desk.turn()
    first = desk.subscribe()
    desk.turn()
    desk.broker.unsubscribe(first)
    desk.turn()
    queue = desk.queue()
    if way == "moved":
        desk.broker.moving.take(queue, [desk.queue("b")], [1], Cause.MOVED, moved_at=1)
        desk.broker.moving.keep_from_all(queue, [1])
    else:
        desk.broker.acknowledge_identity(queue.number, 1, desk.client, None)
    transaction = desk.broker.begin("t")
    desk.broker.hold_identity(transaction, queue.number, 1)
    for _ in desk.broker.abort(transaction):
        pass
    other = new_client()
    desk.subscribe(client=other)
    desk.dispatch()
    desk.turn()
    assert other.keys == []
    assert not queue.index.is_live(1)
