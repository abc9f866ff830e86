"""
Who has how many: who has the most, and what each may keep where there is room for so many.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.counts import Counts


def counted(numbers: list[int]) -> Counts:
    counts = Counts()
    for key, number in enumerate(numbers):
        for _ in range(number):
            counts.add(str(key), 1)
    return counts


def test_who_has_the_most_is_known_as_they_come_and_go() -> None:
    """
    Also when the one that had the most has fewer.
    """
    counts = counted([3, 1])
    assert (counts.most, counts.first, counts.of("0"), counts.of("2")) == (3, "0", 3, 0)
    counts.add("0", -1)
    assert (counts.most, counts.of("0")) == (2, 2)
    for _ in range(2):
        counts.add("1", 1)
    assert (counts.most, counts.first) == (3, "1")


@given(st.lists(st.integers(1, 12), max_size=8), st.integers(0, 60))
def test_a_share_is_the_most_for_which_there_is_room(numbers, room) -> None:
    """
    All keep as much as the share, or what they have if that is less; with one more it were too
    much.
    """
    counts = counted(numbers)
    share = counts.share(room)
    assert sum(min(each, share) for each in numbers) <= room
    if share < max(numbers, default=0):
        assert sum(min(each, share + 1) for each in numbers) > room
    assert counts.beyond(share) == sum(max(each - share, 0) for each in numbers)
