"""
The consumers of one queue by their priority, and who of them has room.

Made where somebody's priority counts, or where only one may have messages. There are at most as
many priorities as a byte has values.

Invariants:
    Each open consumer that has come stands in one rank.
    A rank is there as long as somebody who is open stands in it.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from bisect import insort

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.ring import Ring


class Rank:
    """The consumers of one priority."""

    __slots__ = ("candidates", "count", "priority", "ring")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.ring = Ring()
        self.count = 0
        """Open ones."""
        self.candidates: dict[Consumer, None] = {}
        """Those who may be the only one, in the order in which they came."""


def _from_the_highest(rank: Rank) -> int:
    return -rank.priority


class Ranks:
    """All consumers of one queue."""

    __slots__ = ("_by_priority", "_ordered")

    def __init__(self) -> None:
        self._by_priority: dict[int, Rank] = {}
        self._ordered: list[Rank] = []

    @property
    def are_none(self) -> bool:
        """Whether nobody has come."""
        return not self._ordered

    def add(self, consumer: Consumer) -> None:
        """Note one who has come."""
        rank = self._rank(consumer.claim.priority)
        rank.count += 1
        if consumer.claim.is_exclusive:
            rank.candidates[consumer] = None

    def add_equal(self, count: int, ring: Ring) -> None:
        """Note so many who claim nothing, and who of them has room."""
        if not count:
            return
        rank = self._rank(0)
        rank.count += count
        rank.ring.take_over(ring)

    def discard(self, consumer: Consumer) -> None:
        """Note that one is closed."""
        rank = self._by_priority[consumer.claim.priority]
        rank.candidates.pop(consumer, None)
        rank.ring.leave(consumer)
        rank.count -= 1
        if not rank.count:
            del self._by_priority[rank.priority]
            self._ordered.remove(rank)

    def _rank(self, priority: int) -> Rank:
        rank = self._by_priority.get(priority)
        if rank is None:
            rank = self._by_priority[priority] = Rank(priority)
            insort(self._ordered, rank, key=_from_the_highest)
        return rank

    def ring_of(self, consumer: Consumer) -> Ring:
        """Give where an open one stands if it has room."""
        return self._by_priority[consumer.claim.priority].ring

    @property
    def count(self) -> int:
        """How many have come and are open."""
        return sum(rank.count for rank in self._ordered)

    def hand_over(self, other: Ranks) -> None:
        """Let all be in others, too, and stand in their rings."""
        for rank in self._ordered:
            theirs = other._rank(rank.priority)
            theirs.count += rank.count
            theirs.ring.take_over(rank.ring)

    def hand_rings_over(self, other: Ranks) -> None:
        """Let all who have room stand in the rings of others, where they are as well."""
        for rank in self._ordered:
            other._rank(rank.priority).ring.take_over(rank.ring)

    def clear_rings(self) -> None:
        """Let nobody stand in a ring; what each says of itself is to be put right."""
        for rank in self._ordered:
            rank.ring = Ring()

    def first_ready(self) -> Ring | None:
        """Give the ring of the highest priority in which somebody may have room."""
        for rank in self._ordered:
            if rank.ring.ready:
                return rank.ring
        return None

    def best(self) -> Consumer | None:
        """Give who is to be the only one: of the highest priority whoever came first."""
        for rank in self._ordered:
            if rank.candidates:
                return next(iter(rank.candidates))
        return None

    def merge_into(self, ring: Ring) -> None:
        """Let all who have room stand in one ring."""
        for rank in self._ordered:
            ring.take_over(rank.ring)
