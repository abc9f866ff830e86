"""
Every generation has a range of sequences of its own.
"""

from __future__ import annotations

import pytest

from holdfast.model.numbering import (
    RANGES_STEP,
    generation_of,
    range_of_promotion,
    sequence_floor,
)


@pytest.mark.parametrize("generation", [0, 1, 2, 8191, (1 << 22) - 1])
def test_a_sequence_tells_its_generation(generation) -> None:
    """
    From the first number after the floor on; and it fits a signed 64-bit integer.
    """
    first = sequence_floor(generation) + 1
    assert generation_of(first) == generation
    assert generation_of(first + 1_000_000_000_000) == generation
    assert sequence_floor(generation + 1) < 1 << 63
    assert sequence_floor(0) == 0


def test_each_member_of_a_copy_chooses_another_range() -> None:
    """
    Two that go on by force, one after the other or each for itself, know nothing of each other.
    """
    members = [f"{number:032x}" for number in range(300)]
    for known in (0, 1, 1023, 300_000):
        chosen = {range_of_promotion(known, members, own) for own in members}
        assert len(chosen) == len(members)
        assert min(chosen) > known
        assert max(chosen) < known + 2 * RANGES_STEP
    assert sequence_floor(max(chosen)) < 1 << 63


def test_a_range_is_the_same_whoever_else_is_a_member() -> None:
    """
    But where two would meet: a copy that lags may know other members.
    """
    alone = {own: range_of_promotion(0, [own], own) for own in ("aa", "bb", "cc")}
    together = {own: range_of_promotion(0, ["aa", "bb", "cc"], own) for own in alone}
    assert alone == together
