"""
What was looked at and stays: parked for those who want it, or left over.
"""

from __future__ import annotations

from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.kept import Kept
from tests.unit.broker.serving.router.wishes import Wish


def test_a_message_stands_where_those_have_it_who_want_it(desk) -> None:
    """Nobody, one, both; and those that are left once one is gone."""
    first, second = (ConsumerClass(Wish(word), 0, place) for place, word in enumerate("ab"))
    desk.broker.send_transient(desk.queue(), b"", b"x")
    kept = Kept(desk.queue())
    kept.put(1, 1, frozenset())
    kept.put(2, 2, frozenset((first,)))
    kept.put(-1, 0, frozenset())
    assert all(key in kept for key in (1, 2, -1))
    for key in (1, 2, -1, 9):
        kept.add(key, second)
    assert not (kept.left_over or kept.left_over_volatile)
    assert kept.parked.pour(frozenset((second,)), 1) == [-1]
    kept.put(-1, 0, frozenset((first, second)))
    first.is_over = True
    both = frozenset((first, second))
    assert kept.rehome(both, 5) == 2
    assert kept.parked.count_of(frozenset((second,))) == 3
    second.is_over = True
    assert kept.rehome(frozenset((second,)), 5) == 3
    assert [*kept.left_over, *kept.left_over_volatile] == [1, 2, -1]
    for key in (1, -1):
        kept.take(key)
        assert key not in kept
    assert kept
    kept.empty()
    assert not kept
