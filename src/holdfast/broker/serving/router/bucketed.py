"""
In which bucket the group of a message is, and what of a bucket is parked; see `grouping`.

What is parked of a bucket has a place for each priority, so that all of a place have one rank.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from holdfast.broker.serving.lanes import BEFORE_ALL, NO_RANK, USUAL_RANK
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.isolated import Isolated
from holdfast.broker.serving.router.owners import Owners, bucket_of
from holdfast.broker.serving.router.parked import Parked
from holdfast.broker.serving.shelves import ShelvedSet
from holdfast.broker.serving.suspects import Suspects

RANKS: Final = NO_RANK
"""What is parked of a bucket has so many places, one for each priority."""


class Bucketed(Plain):
    """An order in which messages of groups are parked by bucket and rank."""

    __slots__ = ("_held_before", "_isolated", "_parked", "owners")

    _parked: Parked
    owners: Owners
    _isolated: Isolated
    """Buckets of which the next message is to be sent alone."""

    @property
    def ungrouped(self) -> type[Plain]:
        """Say that anything may: it is not for long."""
        return Plain

    def hand_over(self) -> Hands:
        """Let somebody else go on who asks who wants a message: with what is out, and parked."""
        hands = Hands(self._queue, self.owners)
        hands.begin_with(self._parked, self._held_before)
        return hands

    def _note_held(self, held: ShelvedSet) -> None:
        self._held_before = ShelvedSet()
        """What transactions held as this was made: those behind it wait, as if it came later."""
        self._held_before.shelves = dict(held.shelves)

    def _set_held_aside(self) -> None:
        """Let what is behind one of those in its group wait for it."""
        key = self._held_before.pop()
        if key in self._custody.reserved and self._is_there(key):
            self.set_aside([key])

    def set_aside(self, keys: Iterable[int]) -> None:
        """Note that messages come again, later; what is behind one in its group waits for it."""
        raise NotImplementedError

    def _places_of(self, bucket: int, rank: int = NO_RANK) -> range:
        """Give where messages of a bucket may be parked, as far as before or of a rank."""
        return range(bucket * RANKS, bucket * RANKS + min(rank, RANKS - 1) + 1)

    def _has_parked(self, bucket: int, rank: int = NO_RANK) -> bool:
        """Whether something of a bucket is parked before, or of, a rank."""
        if self.lanes is None:
            return self._parked.count_of(bucket * RANKS + USUAL_RANK) > 0
        return any(self._parked.count_of(place) for place in self._places_of(bucket, rank))

    def _first_rank(self, bucket: int) -> int:
        """Give the rank of the first that is parked of a bucket; before all if nothing is."""
        places = [place for place in self._places_of(bucket) if self._parked.count_of(place)]
        return places[0] % RANKS if places else BEFORE_ALL

    def _first_parked(self, bucket: int) -> int:
        """Give the first that is parked of a bucket, 0 if nothing is."""
        return next(filter(None, map(self._parked.first, self._places_of(bucket))), 0)

    def _begins_with_suspect(self, bucket: int) -> bool:
        """Whether the first that is parked of a bucket is to be sent alone, whoever owns it."""
        if not self._queue.suspect_after:
            return False
        first = self._first_parked(bucket)
        return first != 0 and self._is_suspect(first)

    def _bucket_of(self, key: int) -> int | None:
        """Give the bucket of a message's group, None if it is in none."""
        return bucket_of(self._queue, key, self.owners.bucket_count)

    def _put_alone(self, bucket: int) -> None:
        """Note that the next message of a bucket is to be sent alone."""
        if self.suspects is None:
            self.suspects = Suspects()
        self._isolated.add(bucket)
        for place in self._places_of(bucket):
            self._parked.ask_again(place)  # Nobody.

    def _take(self, key: int) -> None:
        """Take what is parked out, if it is."""
        place = cast("int | None", self._parked.take(key))
        if place is None:
            return
        bucket = place // RANKS
        if bucket in self._isolated:
            self._isolated.look_again(bucket)
            self._queue.touch()
        elif self._begins_with_suspect(bucket):
            self._put_alone(bucket)
            self._queue.touch()

    def _is_there(self, key: int) -> bool:
        return key in self._queue.transients if key < 0 else not self._queue.has_ended(key)
