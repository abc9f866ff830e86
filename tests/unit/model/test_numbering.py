"""
Every generation has a range of sequences of its own.
"""

from __future__ import annotations

import pytest

from holdfast.model.numbering import generation_of, sequence_floor


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
