"""
A ring: turns of those who have room.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.ring import Ring


def consumers(new_client, count: int) -> list[Consumer]:
    return [
        Consumer(new_client(), str(number), mode=AcknowledgeMode.INDIVIDUAL, prefetch=1)
        for number in range(count)
    ]


def test_who_has_room_stands_in_it_once(new_client) -> None:
    """And who has none does not."""
    ring = Ring()
    one, full = consumers(new_client, 2)
    full.prefetch = 0
    assert ring.make_ready(one)
    assert not ring.make_ready(one)
    assert not ring.make_ready(full)
    assert (list(ring.ready), ring.has_ready) == ([one], True)
    ring.drop_first()
    assert (one.is_ready, ring.has_ready) == (False, False)


def test_the_closed_leave_together(new_client) -> None:
    """As soon as they are more than half; one that has its turn before is left out then."""
    ring = Ring()
    many = consumers(new_client, 4)
    for each in many:
        ring.make_ready(each)
        each.prefetch = 0
    seen = []
    for each in many:
        each.is_closed = True
        ring.leave(each)
        seen.append(len(ring.ready))
    assert seen == [4, 4, 1, 0]
    assert not any(each.is_ready for each in many)


def test_one_ring_takes_over_another(new_client) -> None:
    """In the order of their turns, and it knows of the closed ones."""
    ring, other = Ring(), Ring()
    one, two, three = consumers(new_client, 3)
    ring.make_ready(one)
    other.make_ready(two)
    other.make_ready(three)
    two.is_closed = True
    other.leave(two)
    ring.take_over(other)
    assert (list(ring.ready), list(other.ready)) == ([one, two, three], [])
    three.is_closed = True
    ring.leave(three)
    assert list(ring.ready) == [one]


def test_an_open_one_is_taken_out(new_client) -> None:
    """Whether it stands there or not."""
    ring = Ring()
    one, two = consumers(new_client, 2)
    ring.make_ready(one)
    ring.make_ready(two)
    ring.take(one)
    ring.take(one)
    assert (list(ring.ready), one.is_ready) == ([two], False)
