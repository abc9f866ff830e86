"""
Where a queue's numbers begin when somebody begins to lead.

A promotion by force begins a new generation on a copy that may lag, and so does a restore: what the
old generation gave away after the copy's end is not known there. So every generation has a range of
sequences of its own. Nor is the copy's end always a part of what the others had: it may hold what a
deposed leader never got committed, while another one gave the same numbers away. So within a
generation each leader leaves out more numbers than a leader before it can have given in vain. No
message id is ever given twice, whichever copy goes on. See docs/decisions/0010 and 0016.

Invariants:
    A sequence tells its generation: `generation_of(sequence_floor(g) + n) == g` for 0 < n.
    Generations below 2^23 fit a signed 64-bit sequence.
    Of two leaders of a generation, the later one begins above all that the earlier one gave and
    that is not in the later one's log, as long as that is less than `LEADERS_STEP`. For a leader
    gives numbers only once an entry of its term is committed: whoever leads later has all that it
    began with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

_BITS: Final = 40
"""A queue has 2^40 numbers in each generation: a million a second for twelve days, or a thousand
for 34 years."""
RANGES_STEP: Final = 1024
"""Ranges that a promotion by force chooses from, each member of a cluster another one."""
LEADERS_STEP: Final = 1 << 23
"""More messages than wait to be committed: with what each costs, so many would be 300 MB."""
FIRST_TERM: Final = 2
"""Where there are several voters, nobody leads before this term: a cluster is founded in term 1."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Where queues' numbers begin under one leader."""

    generation: int = 0
    term: int = 0
    """Of the leader; 0 where nobody else ever had its log: then the numbers simply go on."""

    @property
    def floor(self) -> int:
        """The number below the first one of this generation."""
        return sequence_floor(self.generation)

    def first(self, next_sequence: int, numbered_term: int) -> int:
        """
        Give the first number for a queue whose log says that `next_sequence` is the next.

        `numbered_term` is the term of the entry that said so, `FIRST_TERM` where none did.
        """
        terms = max(self.term - numbered_term, 0)
        return max(next_sequence, self.floor + 1) + terms * LEADERS_STEP


def sequence_floor(generation: int) -> int:
    """Give the number below the first one that a queue gives in this generation."""
    return generation << _BITS


def generation_of(next_sequence: int) -> int:
    """Give the generation that a queue's next number is of."""
    return next_sequence >> _BITS


def range_of_promotion(known: int, identities: Collection[str], own: str) -> int:
    """
    Choose the range for a generation that one of these members begins by force.

    Another one of them that begins one from the same copy, and knows nothing of this, chooses
    another range: what only one of the two has must not have the ids of what the other one gives.
    `known`: the range until now.
    """
    places: dict[int, str] = {}
    for identity in sorted({*identities, own}):
        place = int.from_bytes(blake2b(identity.encode(), digest_size=8).digest()) % RANGES_STEP
        while place in places and len(places) < RANGES_STEP:
            place = (place + 1) % RANGES_STEP
        if identity == own:
            return (known // RANGES_STEP + 1) * RANGES_STEP + place
        places[place] = identity
    raise AssertionError("it is one of them")
