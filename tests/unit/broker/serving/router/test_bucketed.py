"""
Messages of a group that have priorities: where they are parked, and which of a bucket goes first.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.lanes import BEFORE_ALL, NO_RANK
from holdfast.broker.serving.router.bucketed import RANKS
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord, ReturnCause


@pytest.fixture(autouse=True)
def by_priority(desk) -> None:
    """Let the policy say so; who was lost with others is sent alone from then on."""
    values = {"prioritizedMessages": "true", "suspectAfter": 1, "initialRedeliveryDelay": 0}
    values["maximumRedeliveries"] = 1
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.broker.receipts.record(PolicyRecord("queue://orders", as_text(values)))
    desk.turn()


def send(desk, *messages: tuple[int, int]) -> None:
    """Send a message of each of these groups, with these priorities."""
    for group_hash, priority in messages:
        attributes = Attributes(group_hash=group_hash, priority=priority)
        facts = MessageFacts(attributes=attributes)
        desk.broker.send(desk.queue(), b"", b"x", desk.client, None, facts=facts)
    desk.turn()


def grouping_of(desk) -> Grouping:
    found = desk.queue().grouping
    assert isinstance(found, Grouping)
    return found


def acknowledge(desk, subscription, key: int) -> None:
    desk.broker.acknowledge(subscription, key, subscription.receiver, None)
    desk.turn()


def test_what_is_parked_of_a_bucket_has_a_place_for_each_priority(desk, new_client) -> None:
    """All that stands before or of a rank is counted, and the first of it is known."""
    client = new_client()
    consumer = desk.subscribe(client=client, prefetch=1)
    send(desk, (7, 4))
    spare = desk.subscribe(client=new_client())  # Who has room, so that all are looked at.
    send(desk, (7, 1), (7, 8), (7, 1))
    order = grouping_of(desk)
    assert client.keys == [1]
    assert [order._parked.bucket_of(key) for key in (2, 3, 4)] == [
        7 * RANKS + rank for rank in (8, 1, 8)
    ]
    assert order._first_rank(7) == 1
    assert order._first_rank(6) == BEFORE_ALL
    assert [order._has_parked(7, rank) for rank in (0, 1, NO_RANK)] == [False, True, True]
    assert not order._has_parked(6)
    desk.broker.unsubscribe(spare)
    for key in (1, 3, 2, 4):
        assert client.keys[-1] == key
        acknowledge(desk, consumer, key)
    assert not desk.queue().index.live_count


def test_poison_of_a_group_is_found_out_whatever_the_priorities(desk, new_client) -> None:
    """Whoever gets it dies with all he has: it alone is to blame, and all others are done."""
    send(desk, (7, 4), (7, 9), (7, 1), (0, 4), (8, 5), (7, 4))
    queue, poison, deaths = desk.queue(), 1, 0
    done: list[int] = []
    while queue.index.live_count:
        client = new_client()
        consumer = desk.subscribe(client=client, prefetch=4)
        desk.turn()
        while consumer.unacknowledged and poison not in consumer.unacknowledged:
            key = next(iter(consumer.unacknowledged))
            done.append(key)
            acknowledge(desk, consumer, key)
        is_over = not consumer.unacknowledged
        deaths += not is_over
        if not is_over and desk.broker.returning.dies_with(consumer) == poison:
            acknowledge(desk, consumer, poison)  # As its session moves what is dead.
        assert deaths <= 3, "it is known by then"
        assert not (is_over and queue.index.live_count), "it stays, and somebody has room"
        desk.broker.unsubscribe(consumer, ReturnCause.LOST)
        desk.turn()
    assert sorted(done) == [2, 3, 4, 5, 6]
    assert [done.index(key) for key in (2, 6, 3)] == sorted(done.index(key) for key in (2, 6, 3))
    assert deaths == 3


def test_a_higher_one_that_came_back_goes_before_one_that_is_sent_alone(desk, new_client) -> None:
    """Both are of one bucket: what is to be sent alone has its place there, by priority."""
    send(desk, (7, 4), (7, 9), (7, 1))
    first = new_client()
    lost = desk.subscribe(client=first, prefetch=3)
    desk.turn()
    assert first.keys == [2, 1, 3]
    desk.broker.unsubscribe(lost, ReturnCause.LOST)
    desk.turn()
    pair = [desk.subscribe(client=new_client(), prefetch=3) for _ in range(2)]
    desk.turn()
    holder, other = sorted(pair, key=lambda each: not each.unacknowledged)
    assert [*holder.unacknowledged] == [2]
    assert 1 in grouping_of(desk)._parked, "the other has room, and may not have it"
    desk.broker.unsubscribe(holder, ReturnCause.LOST)
    desk.turn()
    for key in (2, 1, 3):
        assert [*other.unacknowledged] == [key], "alone, the highest first"
        acknowledge(desk, other, key)


def test_one_in_no_group_is_sent_alone_in_the_turn_in_which_it_is_come_by(desk, new_client) -> None:
    """Nothing else is there for which somebody would come by again."""
    send(desk, (0, 9), (0, 4))
    lost = desk.subscribe(client=new_client(), prefetch=3)
    desk.turn()
    desk.broker.unsubscribe(lost, ReturnCause.LOST)
    consumer = desk.subscribe(client=new_client(), prefetch=3)
    desk.turn()
    assert len(consumer.unacknowledged) == 1
    acknowledge(desk, consumer, next(iter(consumer.unacknowledged)))
    assert len(consumer.unacknowledged) == 1
