"""
Stretches of numbers against a plain set.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.lasting.intervals import Intervals

NUMBERS = st.integers(0, 12)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "discard_below"]), NUMBERS))


@given(STEPS)
def test_they_are_a_set_told_by_as_few_stretches_as_can_be(steps) -> None:
    """
    Whatever is taken in and out.
    """
    intervals = Intervals()
    model: set[int] = set()
    for step, number in steps:
        getattr(intervals, step)(number)
        if step == "add":
            model.add(number)
        elif step == "discard":
            model.discard(number)
        else:
            model = {each for each in model if each >= number}
    assert model == {each for start, end in intervals for each in range(start, end)}
    assert [each for each in range(20) if each in intervals] == sorted(model)
    assert len(intervals) == sum(each - 1 not in model for each in model)
    for number in range(20):
        beyond = number
        while beyond in model:
            beyond += 1
        assert intervals.end_of(number) == beyond
