"""
Whose turn it is, of the classes of one queue's consumers; see `sifting`.

Invariants:
    A class of which somebody with room stands in a ring is ready. Of a ready one all may have lost
    their room meanwhile: that is found out when it is looked for somebody.
    Where only one consumer gets messages, no other class than his is ready.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar, cast

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.lanes import BEFORE_ALL
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.parked import Parked, Place
from holdfast.broker.serving.suspects import find_idle

_FOREMOST_OF: Final = 16
"""Of so many hungry ones the foremost is found, others come in turns: selectors may be many."""

_NOTHING: Final = Place(BEFORE_ALL, 0, 0)

K = TypeVar("K")


class Turns:
    """Who may get something now."""

    __slots__ = ("_count", "behind", "blocked", "era", "hungry", "left", "ready", "sole", "wary")

    def __init__(self) -> None:
        self.ready: dict[ConsumerClass, None] = {}
        """Classes of which somebody may have room."""
        self.hungry: dict[ConsumerClass, None] = {}
        """Those for which something may be parked that they may be sent."""
        self.blocked: dict[ConsumerClass, None] = {}
        """Those whose next one may not be sent yet: by the mark, or before others are found."""
        self.behind: dict[ConsumerClass, None] = {}
        """Those that have to look through what was there before them, in turns."""
        self.wary: dict[ConsumerClass, None] = {}
        """Those of which somebody may be given what is to be sent alone."""
        self.era = 0
        """Rings of an earlier one count for nothing."""
        self.left = 0
        """So much more may be done in this step."""
        self.sole: Ring | None = None
        """In which the only one stands who gets messages, where only one does."""
        self._count = 0

    def renew_rings(self, one: ConsumerClass) -> None:
        """Let nobody stand in a class's rings who stood there in an earlier era."""
        if one.era != self.era:
            one.era = self.era
            one.ranks.clear_rings()

    def stand_ready(self, one: ConsumerClass) -> None:
        """Note that somebody of a class may have room."""
        self.ready[one] = None
        self.hungry[one] = None
        self.blocked.pop(one, None)
        if one.backlog is not None:
            self.behind[one] = None
        if one.narrowing is not None and one.alone.first() is not None:
            self.wary[one] = None

    def look_at(self, some: Iterable[ConsumerClass]) -> None:
        """Note that there may be something for some of the classes."""
        for one in some:
            if one in self.ready:
                self.hungry[one] = None

    def clear(self) -> None:
        """Note that nobody has room, as far as is known."""
        self.ready, self.hungry, self.blocked, self.behind = {}, {}, {}, {}
        self.wary = {}

    def lie_down(self, one: ConsumerClass) -> None:
        """Note that nobody of a class has room."""
        for some in (self.ready, self.hungry, self.blocked, self.behind, self.wary):
            some.pop(one, None)

    def first_hungry(self, parked: Parked) -> ConsumerClass:
        """Give a class to be fed: no other one that wants its next message has an earlier one."""
        return self._first_with(next(iter(self.hungry)), parked)

    def _first_with(self, one: ConsumerClass, parked: Parked) -> ConsumerClass:
        hungry = self.hungry
        while (place := one.heads.first()) is not None:
            bucket = cast("Iterable[ConsumerClass]", parked.bucket_of(place.key))
            others = [(first, it) for it in bucket if it in hungry and (first := it.heads.first())]
            earliest, other = min(others, key=itemgetter(0), default=(place, one))
            if earliest >= place:
                break
            one = other
        return one

    def foremost_hungry(self, parked: Parked) -> ConsumerClass:
        """Give the same by priority: of some that are hungry the one whose next stands first."""
        some = islice(self.hungry, _FOREMOST_OF)
        foremost = min(some, key=_first_place)
        if len(self.hungry) > _FOREMOST_OF:
            let_others_first(self.hungry)
        return self._first_with(foremost, parked)

    def next_of(self, one: ConsumerClass) -> Consumer | None:
        """Give whose turn it is of a class, None if nobody has room, or this step is over."""
        if self.sole is not None:
            consumer = self._with_room(self.sole) if one in self.ready else None
        else:
            consumer = None
            self.renew_rings(one)
            while consumer is None and self.left > 0:
                ring = one.ranks.first_ready()
                if ring is None:
                    break
                consumer = self._with_room(ring)
        if consumer is None and self.left > 0:
            self.lie_down(one)
        return consumer

    def _with_room(self, ring: Ring) -> Consumer | None:
        while ring.ready and self.left > 0:
            consumer = ring.ready[0]
            has_room = consumer.receiver.room_bytes > 0
            if has_room and len(consumer.unacknowledged) < consumer.prefetch:
                return consumer
            ring.drop_first()
            self.left -= 1
        return None

    def choose(
        self, bucket: Iterable[ConsumerClass], place: Place
    ) -> tuple[ConsumerClass, Consumer] | None:
        """Give who gets a message: of the highest priority whose class had one longest ago."""
        ready = self.ready
        best: tuple[int, int] | None = None
        chosen: tuple[ConsumerClass, Consumer] | None = None
        for one in bucket:
            if one not in ready or one.is_over or not is_next(one, place):
                continue
            consumer = self.next_of(one)
            if consumer is None:
                continue
            rank = (-consumer.claim.priority, one.turn)
            if best is None or rank < best:
                best, chosen = rank, (one, consumer)
        return chosen

    def idle_of(self, bucket: Iterable[ConsumerClass]) -> tuple[ConsumerClass, Consumer] | None:
        """Give who holds nothing and is of the highest priority, of those who are near by."""
        chosen: tuple[ConsumerClass, Consumer] | None = None
        for one in bucket:
            consumer = self.next_of(one) if one in self.ready and not one.is_over else None
            if consumer is None:
                continue
            ring = self.sole or one.ranks.first_ready()
            if consumer.held_count:
                consumer = None if ring is None else find_idle(ring)
            if consumer is None:
                continue
            if chosen is None or consumer.claim.priority > chosen[1].claim.priority:
                chosen = (one, consumer)
        return chosen

    def had_one(self, one: ConsumerClass, consumer: Consumer) -> None:
        """Note that somebody was given a message: others come first now."""
        ring = self.sole or one.ranks.ring_of(consumer)
        if len(ring.ready) > 1:
            ring.ready.rotate(-1)
        self._count += 1
        one.turn = self._count
        self.left -= 1


def _first_place(one: ConsumerClass) -> Place:
    return one.heads.first() or _NOTHING


def let_others_first(some: dict[K, None]) -> None:
    """Let the first of some be the last."""
    if len(some) > 1:
        one = next(iter(some))
        del some[one]
        some[one] = None


def is_next(one: ConsumerClass, place: Place) -> bool:
    """Whether nothing that a class wants stands before a message, as it has looked through all."""
    if one.backlog is not None and not one.has_looked(place):
        return False
    first = one.heads.first()
    return first is None or place <= first
