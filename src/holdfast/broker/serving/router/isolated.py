"""
Buckets of one queue of which the next message is to be sent alone; see `grouping` and `suspects`.

It keeps its place in its group: those behind it wait. So each such bucket is looked at when
something has changed of it: whether its next message may go to somebody now.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.suspects import Narrowing, Suspects, find_idle


class Isolated:
    """Buckets of which nobody gets anything beside something else."""

    __slots__ = ("_all", "_of_owners", "_worth_a_look")

    def __init__(self) -> None:
        self._all: set[int] = set()
        self._worth_a_look: dict[int, None] = {}
        """Those of them of which something may go to somebody now."""
        self._of_owners: dict[Consumer, dict[int, None]] = {}
        """Those, of the rest, that may be looked at again once their owner holds nothing."""

    def __contains__(self, bucket: int) -> bool:
        return bucket in self._all

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, bucket: int) -> None:
        """Note that the next message of a bucket is to be sent alone."""
        self._all.add(bucket)
        self._worth_a_look[bucket] = None

    def discard(self, bucket: int) -> None:
        """Note that it is not, or that it was sent."""
        self._all.discard(bucket)
        self._worth_a_look.pop(bucket, None)

    def look_again(self, bucket: int) -> None:
        """Note that something has changed of one of them."""
        if bucket in self._all:
            self._worth_a_look[bucket] = None

    def first(self) -> int | None:
        """Give one of which something may go to somebody now, None if there is none."""
        return next(iter(self._worth_a_look), None)

    def wait(self, bucket: int, owner: Consumer | None) -> None:
        """Note that nothing may go until something changes, or its owner holds nothing."""
        del self._worth_a_look[bucket]
        if owner is not None:
            self._of_owners.setdefault(owner, {})[bucket] = None

    def runs_empty(self, owner: Consumer) -> None:
        """Note that somebody holds nothing."""
        for bucket in self._of_owners.pop(owner, ()):
            self.look_again(bucket)

    def left(self, owner: Consumer) -> None:
        """Note that somebody is closed; of what was his is told bucket by bucket."""
        self._of_owners.pop(owner, None)

    def empty(self) -> None:
        """Forget all of them."""
        self._all, self._worth_a_look, self._of_owners = set(), {}, {}


def find_empty(suspects: Suspects, ring: Ring) -> Consumer | None:
    """Give somebody who holds nothing, or let somebody run empty."""
    if Narrowing.is_turn_of(suspects, ring.ready[0]):
        return ring.ready[0]
    return find_idle(ring)
