"""
What is let go of in steps.
"""

from __future__ import annotations

from collections import deque

from holdfast.broker.lasting.discards import Discards
from holdfast.broker.serving.message import TransientMessage
from holdfast.model.records import MessageRecord


def messages(count: int) -> dict[int, TransientMessage]:
    return {-each: TransientMessage(-each, b"", b"x", 0) for each in range(1, count + 1)}


def test_contents_are_counted_until_they_are_gone() -> None:
    """
    Each with what it costs beside its bytes; non-persistent ones are counted as such too.
    """
    discards = Discards(10)
    assert not discards
    discards.add_contents({1: MessageRecord(1, 1, b"", b"xyz", 3)})
    discards.add_volatile(messages(3))
    assert len(list(discards.contents())) == 4
    assert discards.step(2) == (0, 22)
    assert discards.step(2) == (0, 11)
    assert discards.step(2) == (13, 0)
    assert not discards


def test_another_leadership_does_not_count_what_the_last_one_had() -> None:
    """
    Its non-persistent messages count for nothing any more.
    """
    discards = Discards(10)
    discards.add_volatile(messages(2))
    discards.forget_leadership()
    assert not list(discards.contents())
    assert discards.step(5) == (0, 0)
    assert not discards


def test_any_container_is_emptied_in_steps() -> None:
    """
    Some are only found when their turn comes; empty ones cost nothing.
    """
    discards = Discards(10)
    piles = ([1, 2, 3], {1, 2}, {1: 2}, deque([1, 2]))
    later = [{}, [4, 5]]
    discards.add(*piles, [])
    discards.add_contents({})
    discards.add_volatile({})
    discards.add_later(iter(later))
    seen = []
    while discards:
        seen.append(sum(map(len, (*piles, *later))))
        assert discards.step(2) == (0, 0)
    assert not any((*piles, *later))
    assert seen == [10, 8, 7, 5, 4, 2, 2, 2, 0]
