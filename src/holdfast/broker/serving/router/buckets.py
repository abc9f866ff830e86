"""
Who may have what is parked, on a queue on which consumers want some messages, not others.

A bucket is the set of the classes that want what stands there; all of it has one rank (a higher
priority has a lower one). Where messages are in groups it is a *stream*: see `hands`.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeAlias

from holdfast.broker.serving.lanes import USUAL_RANK
from holdfast.broker.serving.router.classes import ConsumerClass

Bucket: TypeAlias = frozenset[ConsumerClass]
"""Who may have what is parked: those that want it."""


class Ranked(frozenset[ConsumerClass]):
    """The same of messages that have not the usual priority."""

    __slots__ = ("rank",)
    rank: int

    def __new__(cls, wanted: Iterable[ConsumerClass], rank: int) -> Self:
        """Make one of a rank."""
        self = super().__new__(cls, wanted)
        self.rank = rank
        return self

    def __eq__(self, other: object) -> bool:
        """Tell two ranks apart of which the same classes want something."""
        return isinstance(other, Ranked) and self.rank == other.rank and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        """Say the opposite."""
        return not self == other

    def __hash__(self) -> int:
        """Give the same in each run."""
        return hash((self.rank, super().__hash__()))


class Stream(frozenset[ConsumerClass]):
    """What the same classes want of one bucket of groups, and of one rank."""

    __slots__ = ("group", "rank")
    group: int
    rank: int

    def __new__(cls, wanted: Iterable[ConsumerClass], group: int, rank: int = USUAL_RANK) -> Self:
        """Make one of a bucket."""
        self = super().__new__(cls, wanted)
        self.group = group
        self.rank = rank
        return self

    def __eq__(self, other: object) -> bool:
        """Tell two buckets or ranks apart of which the same classes want something."""
        if not (isinstance(other, Stream) and self.group == other.group):
            return False
        return self.rank == other.rank and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        """Say the opposite."""
        return not self == other

    def __hash__(self) -> int:
        """Give the same in each run."""
        return hash((self.group, self.rank, super().__hash__()))


def wanted_by(classes: Iterable[ConsumerClass], rank: int) -> Bucket:
    """Give the bucket of messages of a rank that these classes want."""
    return frozenset(classes) if rank == USUAL_RANK else Ranked(classes, rank)


def rank_of(bucket: Bucket) -> int:
    """Give the rank of what stands in a bucket."""
    return bucket.rank if isinstance(bucket, (Ranked, Stream)) else USUAL_RANK
