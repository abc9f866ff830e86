"""
Whose turn it is, of those who want a message.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import NO_CLAIM, AcknowledgeMode, Claim
from holdfast.broker.serving.router.classes import Backlog, Classes, ConsumerClass
from holdfast.broker.serving.router.parked import Parked, Place
from holdfast.broker.serving.router.turns import Turns, is_next
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.suspects import Narrowing
from tests.unit.broker.serving.router.wishes import Ledger, Wish


class Queue:
    """Consumers of a queue that has no messages."""

    def __init__(self, new_client) -> None:
        self.new_client = new_client
        self.classes = Classes(Ledger())
        self.turns = Turns()
        self.turns.left = 100

    def add(self, word: str, claim: Claim = NO_CLAIM, prefetch: int = 1) -> ConsumerClass:
        consumer = Subscription(
            self.new_client(),
            word,
            mode=AcknowledgeMode.INDIVIDUAL,
            prefetch=prefetch,
            selector=Wish(word),
        )
        consumer.claim = claim
        self.classes.add(consumer, 0, 0)
        one = self.classes.of(consumer)
        one.ranks.ring_of(consumer).make_ready(consumer)
        self.turns.stand_ready(one)
        return one


def test_the_highest_priority_then_who_had_one_longest_ago(new_client) -> None:
    """Of a class that has no room any more nobody is chosen, and it is found out by that."""
    queue = Queue(new_client)
    low, high, equal = queue.add("a"), queue.add("b", Claim(1)), queue.add("c", Claim(1))
    place = Place(0, 1, 0)
    order = []
    for _ in range(3):
        chosen = queue.turns.choose((low, high, equal), place)
        assert chosen is not None
        one, consumer = chosen
        order.append(one)
        consumer.unacknowledged[1] = None
        queue.turns.had_one(one, consumer)
    assert order == [high, equal, low]
    assert queue.turns.choose((low, high, equal), place) is None
    assert not queue.turns.ready


def test_nobody_is_given_a_message_before_an_earlier_one_that_he_wants(new_client) -> None:
    """It is parked for him, or he has not looked through all that was there before."""
    queue = Queue(new_client)
    one = queue.add("a")
    parked = Parked(lambda _bucket: [one.heads])
    parked.put("b", 5, 5)
    assert not is_next(one, Place(0, 6, 0))
    assert is_next(one, Place(0, 5, 0))
    assert is_next(one, Place(0, 4, 1))
    one.backlog = Backlog(3, 9, ())
    assert not is_next(one, Place(0, 4, 1))
    assert queue.turns.choose((one,), Place(0, 4, 1)) is None


def test_rings_of_an_earlier_era_count_for_nothing(new_client) -> None:
    """Ten thousand classes are not gone through where only one consumer gets messages."""
    queue = Queue(new_client)
    one = queue.add("a")
    queue.turns.era += 1
    assert queue.turns.next_of(one) is None
    assert not queue.turns.ready


def test_looking_for_somebody_with_room_ends_with_the_step(new_client) -> None:
    """And goes on in the next one: nobody is forgotten."""
    queue = Queue(new_client)
    for _ in range(5):
        one = queue.add("a", prefetch=1)
    ring = one.ranks.first_ready()
    assert ring is not None
    for consumer in [*ring.ready][:4]:
        consumer.unacknowledged[1] = None
    queue.turns.left = 3
    assert queue.turns.next_of(one) is None
    assert one in queue.turns.ready
    queue.turns.left = 3
    assert queue.turns.next_of(one) is ring.ready[0]


def test_who_holds_nothing_is_found_behind_who_is_at_work(new_client) -> None:
    """Of the highest priority that wants it; nobody where all are at work, or have left."""
    queue = Queue(new_client)
    low, high = queue.add("a", prefetch=2), queue.add("b", Claim(1), prefetch=2)
    assert queue.turns.idle_of((low, high)) == (high, at_work(high))
    assert queue.turns.idle_of((low, high)) == (low, at_work(low))
    assert queue.turns.idle_of((low, high)) is None
    queue.add("a", prefetch=2)
    found = queue.turns.idle_of((low, high))
    assert found is not None
    assert found[0] is low
    assert not found[1].held_count
    low.is_over = True
    assert queue.turns.idle_of((low, high)) is None


def at_work(one: ConsumerClass) -> Subscription:
    """Let somebody of a class hold a message, and have room for another."""
    ring = one.ranks.first_ready()
    assert ring is not None
    consumer = ring.ready[0]
    consumer.unacknowledged[1] = None
    return consumer


def test_a_class_is_wary_while_something_is_to_be_sent_alone_to_one_of_it(new_client) -> None:
    """Once one of it has room; no more when nobody has."""
    queue = Queue(new_client)
    one = queue.add("a")
    alone = Parked(lambda _bucket: [one.alone])
    alone.put("bucket", 1, 1)
    queue.turns.stand_ready(one)
    assert not queue.turns.wary, "nobody has said that it is to be"
    one.narrowing = Narrowing()
    queue.turns.stand_ready(one)
    assert [*queue.turns.wary] == [one]
    queue.turns.lie_down(one)
    assert not queue.turns.wary
    queue.turns.stand_ready(one)
    queue.turns.clear()
    assert not queue.turns.wary
