"""
The consumers of one queue by their priority.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Claim, Consumer
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.ranks import Ranks


@pytest.fixture
def ranks() -> Ranks:
    return Ranks()


@pytest.fixture
def come(ranks, new_client):
    def come(priority: int, *, is_exclusive: bool = False) -> Consumer:
        consumer = Consumer(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1)
        consumer.claim = Claim(priority, is_exclusive)
        ranks.add(consumer)
        return consumer

    return come


def leave(ranks: Ranks, consumer: Consumer) -> None:
    consumer.is_closed = True
    ranks.discard(consumer)


def test_the_highest_with_room_are_first(ranks, come) -> None:
    """Whoever came first."""
    low, high, middle = come(-128), come(127), come(0)
    for each in (low, high, middle):
        ranks.ring_of(each).make_ready(each)
    seen = []
    while ring := ranks.first_ready():
        seen += ring.ready
        ring.drop_first()
    assert seen == [high, middle, low]


def test_the_best_is_of_the_highest_who_came_first_and_asked(ranks, come) -> None:
    """Those who do not want to be the only one are not asked."""
    come(9)
    one, two, three = (come(each, is_exclusive=True) for each in (1, 2, 2))
    assert ranks.best() is two
    leave(ranks, two)
    assert ranks.best() is three
    leave(ranks, three)
    assert ranks.best() is one
    leave(ranks, one)
    assert ranks.best() is None


def test_nothing_stays_of_a_priority_that_nobody_has(ranks, come) -> None:
    """Who subscribes with all of them one after the other leaves nothing behind."""
    for priority in range(-128, 128):
        consumer = come(priority)
        ranks.ring_of(consumer).make_ready(consumer)
        leave(ranks, consumer)
    assert ranks.are_none
    assert ranks.first_ready() is None


def test_those_who_were_there_before_claim_nothing(ranks, come) -> None:
    """They stand where those of no priority do, in the order of their turns, and so they leave."""
    before = Ring()
    others = [come(0) for _ in range(2)]
    for each in others:
        leave(ranks, each)
        each.is_closed = False
        before.make_ready(each)
    ranks.add_equal(0, Ring())
    assert ranks.are_none
    ranks.add_equal(2, before)
    high = come(1)
    ranks.ring_of(high).make_ready(high)
    together = Ring()
    ranks.merge_into(together)
    assert list(together.ready) == [high, *others]
    for each in (*others, high):
        leave(ranks, each)
    assert ranks.are_none


def test_rings_are_emptied_for_all(ranks, come) -> None:
    """What each says of itself is put right by whoever asks for it."""
    one = come(3)
    ranks.ring_of(one).make_ready(one)
    ranks.clear_rings()
    assert ranks.first_ready() is None
    assert one.is_ready
