"""
What was looked at and stays: parked for those who want it, or left over.
"""

from __future__ import annotations

from holdfast.broker.serving.lanes import USUAL_RANK
from holdfast.broker.serving.router.buckets import Ranked
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.kept import Kept
from holdfast.broker.serving.router.parked import Place
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


def test_what_is_to_be_sent_alone_stands_apart(desk) -> None:
    """By who wants it, whatever its priority; it goes where others go when one of those is gone."""
    first, second = (ConsumerClass(Wish(word), 0, place) for place, word in enumerate("ab"))
    desk.broker.send_transient(desk.queue(), b"", b"x")
    kept = Kept(desk.queue())
    one, both = frozenset((first,)), frozenset((first, second))
    kept.set_apart(3, 3, frozenset())
    assert [*kept.left_over] == [3], "nobody wants it"
    kept.set_apart(1, 1, Ranked(one, 0))
    kept.set_apart(-1, desk.queue().transients[-1].order, both)
    kept.put(2, 2, one)
    assert (kept.count_of(one), kept.count_of(both)) == (2, 1)
    assert first.alone.first() == Place(0, desk.queue().transients[-1].order, 1)
    assert second.alone.first() == first.alone.first()
    assert first.heads.first() == Place(USUAL_RANK, 2, 0)
    kept.add(1, second)
    assert 1 in kept.alone, "somebody more wants it"
    assert kept.alone.count_of(both) == 2
    second.is_over = True
    assert kept.rehome(both, 1) == 1
    assert kept.rehome(both, 5) == 1
    assert kept.alone.count_of(one) == 2
    kept.take(1)
    kept.take(2)
    assert kept, "one is left of them"
    assert (1 in kept, -1 in kept) == (False, True)
    assert kept.empty()[0] is not None
    assert not kept
