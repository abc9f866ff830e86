"""
Where a queue's numbers begin in each generation of the cluster.

A promotion by force begins a new generation on a copy that may lag, and so does a restore: what the
old generation gave away after the copy's end is not known there. So every generation has a range of
sequences of its own, and no message id is ever given twice. See docs/decisions/0010.

Invariants:
    A sequence tells its generation: `generation_of(sequence_floor(g) + n) == g` for 0 < n.
    Generations below 2^23 fit a signed 64-bit sequence.
"""

from __future__ import annotations

from typing import Final

_BITS: Final = 40
"""A queue has 2^40 numbers in each generation: a million a second for twelve days, or a thousand
for 34 years."""


def sequence_floor(generation: int) -> int:
    """Give the number below the first one that a queue gives in this generation."""
    return generation << _BITS


def generation_of(next_sequence: int) -> int:
    """Give the generation that a queue's next number is of."""
    return next_sequence >> _BITS
