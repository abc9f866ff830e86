"""
What may have been seen beyond the mark: a few ranges, the same in whatever order they are said.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.seen_ranges import COUNT_MAX, gathered, united


def test_neighbours_are_one_and_what_touches_the_mark_is_part_of_it() -> None:
    """A mark moves on over what was seen behind it."""
    assert united(0, (), 0, 5) == (5, ())
    assert united(5, (), 0, 3) == (5, ())
    assert united(5, (), 6, 8) == (8, ())
    assert united(5, (), 7, 8) == (5, ((7, 8),))
    assert united(5, ((7, 8), (20, 30)), 9, 10) == (5, ((7, 10), (20, 30)))
    assert united(5, ((7, 8), (20, 30)), 9, 40) == (5, ((7, 40),))
    assert united(5, ((7, 8), (20, 30)), 0, 6) == (8, ((20, 30),))
    assert united(5, ((7, 8), (20, 30)), 0, 25) == (30, ())


def test_the_order_in_which_it_is_said_does_not_matter() -> None:
    """Who has but the cleaner's copies must agree."""
    said = ((0, 4), (8, 9), (6, 6), (20, 22), (7, 12))
    ends = set()
    for order in permutations(said):
        mark, ranges = 0, ()
        for first, last in order:
            mark, ranges = united(mark, ranges, first, last)
        ends.add((mark, ranges))
    assert ends == {(4, ((6, 12), (20, 22)))}


def test_there_are_never_too_many() -> None:
    """What is asked for reaches to a neighbour then: that is flagged, and was not seen."""
    random = Random(1)
    mark, ranges, covered = 0, (), set()
    for _ in range(2_000):
        sequence = random.randrange(1, 1_000_000)
        first, last = gathered(mark, ranges, sequence, sequence + 3)
        assert first <= sequence
        assert last >= sequence + 3
        mark, ranges = united(mark, ranges, first, last)
        covered |= {sequence, sequence + 3}
        assert len(ranges) <= COUNT_MAX
    queue = LastingQueue(1, "a")
    queue.dispatch_mark, queue.seen = mark, ranges
    assert all(queue.may_be_sent(each) for each in covered)
    assert not queue.may_be_sent(2_000_000)
