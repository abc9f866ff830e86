"""
Which messages stand together: those that the same classes want, of one priority and one group.
"""

from __future__ import annotations

from holdfast.broker.serving.lanes import USUAL_RANK
from holdfast.broker.serving.router.buckets import Ranked, Stream, rank_of, wanted_by


def test_streams_are_told_apart_by_their_groups_and_ranks() -> None:
    """Equal ones stand for the same place, whatever set of classes was written down for them."""
    assert Stream((), 1) == Stream((), 1)
    assert Stream((), 1) != Stream((), 2)
    assert Stream((), 1) != Stream((), 1, 0)
    assert Stream((), 1, 0) == Stream((), 1, 0)
    assert frozenset() != Stream((), 1)
    several = {Stream((), 1), Stream((), 1), Stream((), 2), Stream((), 1, 0), frozenset()}
    assert len(several) == 4


def test_what_has_not_the_usual_priority_stands_apart() -> None:
    """Neither with what has it nor with a stream."""
    assert wanted_by((), USUAL_RANK) == frozenset()
    assert wanted_by((), 0) == Ranked((), 0)
    assert wanted_by((), 0) != wanted_by((), 1)
    assert wanted_by((), 0) != frozenset()
    assert wanted_by((), 0) != Stream((), 1, 0)
    assert len({wanted_by((), 0), wanted_by((), 0), wanted_by((), 1), frozenset()}) == 3


def test_each_tells_its_rank() -> None:
    """Of a plain set it is the usual one."""
    assert rank_of(frozenset()) == rank_of(Stream((), 1)) == USUAL_RANK
    assert rank_of(Ranked((), 3)) == rank_of(Stream((), 1, 3)) == 3
