"""
Which producer sends a replayed message: numbers that do not shift when the source begins later.

A cluster takes a producer's numbers one after the other, so they are places among the chosen. Were
they places in the whole choice, a source that begins later than the first time would give every
message another's number, and the target would drop it as repeated. So a queue's messages are
numbered in blocks of sequences, each with a producer of its own: a block that the source has whole
has the same numbers from every source.

A block that the source may not have whole is numbered for just what this source lacks before it: a
hole that is mended moves the places of all behind it. From a source that lacks something else there
its messages come again; they are never taken for others. What stands before a hole has the numbers
that it had before there was one.

Two logs of one cluster may hold different messages under one sequence: copies of a node that both
went on. Whoever leads does so in a term of its own, and what is of one term begins alike in every
log that has it. So the messages of a block that are of one term have a producer of their own, and
its name has when the first of them was stored: two that led in one term, on copies that knew
nothing of each other, did not store their first messages in the same microsecond.

Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

BLOCK_SEQUENCES: Final = 10_000
"""A cluster remembers 200,000 producers: a replay of a thousand million messages of a few queues
takes half. Each queue has one at least, each term in which it was sent to begins another."""

PRODUCERS_MAX: Final = 150_000
"""So many a replay may have where nobody says more: the target's applications have theirs, too."""


_SEEN_BYTES: Final = 1_250
"""A bit for each of ten thousand sequences."""


class SeenSequences:
    """
    Which messages came already: a bit each.

    What a source lacks may be near its end; then all that it has before it is noted here. A pair of
    numbers in a set takes 130 bytes, so ten million messages would have taken 1.3 GB.
    """

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: dict[tuple[int, int], bytearray] = {}

    def is_first(self, queue_number: int, sequence: int) -> bool:
        """Note a message; tell whether it was not noted before."""
        stretch, place = divmod(sequence, 8 * _SEEN_BYTES)
        bits = self._bits.get((queue_number, stretch))
        if bits is None:
            bits = self._bits[queue_number, stretch] = bytearray(_SEEN_BYTES)
        byte, bit = place >> 3, 1 << (place & 7)
        if bits[byte] & bit:
            return False
        bits[byte] |= bit
        return True


def own_producers(job: str) -> str:
    """Give what the id of every producer of this replay begins with."""
    return f"replay-{job}-"


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a stretch of entries begins that a source has without a hole."""

    index: int = 1
    """Its first entry."""

    sequences: Mapping[int, int] = field(default_factory=dict)
    """By queue the first sequence stored in it, where something is missing before it."""

    lacking: tuple[tuple[int, int], ...] = ()
    """All that is missing before it, as (first, last) entry: it decides what a cut block has. Empty
    where that is only what is before the first entry of all."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing before it."""
        return self.index <= 1

    def has_all_from(self, queue_number: int, sequence: int) -> bool:
        """Whether the original of this message of the queue stands behind its beginning."""
        first = self.sequences.get(queue_number)
        return self.is_whole or (first is not None and first <= sequence)

    def block(self, queue_number: int, sequence: int) -> str:
        """Name the block of a message in this stretch, for a producer's id."""
        number = sequence // BLOCK_SEQUENCES
        name = f"{queue_number}-{number}"
        if self.has_all_from(queue_number, max(number * BLOCK_SEQUENCES, 1)):
            return name
        return f"{name}-from-{self.index}{self._lack}"

    @property
    def _lack(self) -> str:
        """Tell sources apart that begin at one entry and lack others before it."""
        if not self.lacking:
            return ""
        text = ",".join(f"{first}-{last}" for first, last in self.lacking)
        return "-" + blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class Stretches:
    """All that a source has, as stretches with holes between them."""

    beginnings: tuple[Beginning, ...] = (Beginning(),)
    """Ascending; one at least."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return len(self.beginnings) == 1 and self.beginnings[0].is_whole

    def has_all_from(self, queue_number: int, sequence: int) -> bool:
        """Whether the source has the original of this message of the queue and of all behind it."""
        return self.beginnings[-1].has_all_from(queue_number, sequence)

    def block(self, log_index: int, queue_number: int, sequence: int) -> str:
        """
        Name the block of a message that stands in this entry, for a producer's id.

        What a stretch has of a block from its begin on is what every source has first of it; where
        the block goes on behind a hole, it is cut there, and has another name.
        """
        place = bisect_right(self.beginnings, log_index, key=lambda it: it.index)
        return self.beginnings[max(place - 1, 0)].block(queue_number, sequence)
