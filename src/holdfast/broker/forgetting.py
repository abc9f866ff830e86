"""
The bound on producers: of who has the most of them, those that have not sent for the longest go.

Clients that live for one message and bring an id of their own each are the normal case, so the
number of producers must not follow the number of messages. The leader chooses; what it chose is
records of the log, so every node forgets the same producers at the same entry. "The longest" is by
log time, which no clock of a machine turns back.

Each user's room (`model.producer_ids`) has a share of the bound: who has fewer loses none, however
many others make. Where one room has much more than its share, only its own are looked at; where it
is a crowd of them, theirs together.

All of it goes in pieces: one `step` looks at some thousands, and asks for some of them to be
forgotten. First the moments at which producers sent last are gathered, to find the one up to which
enough are older; then whoever sent last up to then goes. Numbers only: a heap of the oldest, which
takes and gives an object for each one looked at, had the collector of cycles go through all of them
at once. The bound may be passed by what arrives meanwhile: what is too many by the end of the
search is forgotten in the same round, so the more come the more go.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.producers import used_at
from holdfast.model.producer_ids import room_in
from holdfast.model.records import ForgetProducerRecord

_LOOKED_AT_PER_STEP: Final = 1_000
_FORGOTTEN_PER_STEP: Final = 500
_SHARE_AT_ONCE: Final = 8
"""One part in so many is forgotten beyond what is too many: a search looks at all producers."""


_ALONE_SHARE: Final = 16
"""A room that has one part in so many of what is to go gives that way alone."""


class ProducerLimit:
    """Keeps the producers of one broker to their number, while it leads."""

    __slots__ = (
        *("_broker", "_last_moment", "_left", "_moments", "_room", "_share", "_waits_for"),
        "_wanted",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._left: Iterator[tuple[str, bytes]] | None = None
        """Of the producers when the search or the forgetting began, those not looked at."""
        self._room: str | None = None
        """The only room that gives way; None: all that have more than the share."""
        self._share = 0
        """How many of each room are let alone."""
        self._moments: list[array[int]] = []
        """The search so far: log times of last messages, sorted within each step."""
        self._last_moment: int | None = None
        """Who sent last up to this log time is forgotten; None while it is searched."""
        self._wanted = 0
        """How many of that moment itself."""
        self._waits_for: tuple[str, bytes] | None = None
        """The last one asked to be forgotten: the next search waits until it is."""

    def stop(self) -> None:
        """Forget what was under way: another leader may choose otherwise."""
        self._end()
        self._waits_for = None

    def _end(self) -> None:
        self._left = self._last_moment = None
        self._moments = []

    def step(self) -> None:
        """Do a bounded piece of work, if there are too many."""
        if self._left is None:
            if self._is_settled():
                self._begin()
        elif self._last_moment is None:
            self._look_at_some(self._left)
        else:
            self._forget_some(self._left, self._last_moment)

    @property
    def is_under_way(self) -> bool:
        """Whether the next step goes on with something."""
        return self._left is not None

    def _is_settled(self) -> bool:
        if self._waits_for is not None:
            producer_id, value = self._waits_for
            if self._broker.state.producers.by_id.get(producer_id) == value:
                return False
            self._waits_for = None
        return True

    def _begin(self) -> None:
        if self._too_many() <= 0:
            return
        producers, rooms = self._broker.state.producers, self._broker.state.producers.rooms
        wanted = self._wanted_in_all()
        self._share = rooms.share(len(producers.by_id) - wanted)
        is_alone = (rooms.most - self._share) * _ALONE_SHARE >= wanted
        self._room = rooms.first if is_alone else None
        self._left = producers.as_they_are()

    def _wanted_in_all(self) -> int:
        return self._too_many() + self._broker.settings.producer_count_max // _SHARE_AT_ONCE

    def _wanted_of_these(self) -> int:
        """How many are to go of the rooms that are looked at, as they are now."""
        rooms = self._broker.state.producers.rooms
        beyond = rooms.beyond(self._share)
        if self._room is not None:
            beyond = rooms.of(self._room) - self._share
        return min(self._wanted_in_all(), beyond)

    def _gives_way(self, producer_id: str) -> bool:
        room = room_in(producer_id)
        if self._room is not None:
            return room == self._room
        return self._broker.state.producers.rooms.of(room) > self._share

    def _too_many(self) -> int:
        return len(self._broker.state.producers.by_id) - self._broker.settings.producer_count_max

    def _look_at_some(self, left: Iterator[tuple[str, bytes]]) -> None:
        some = list(islice(left, _LOOKED_AT_PER_STEP))
        moments = sorted(used_at(value) for each, value in some if self._gives_way(each))
        self._moments.append(array("Q", moments))
        if len(some) < _LOOKED_AT_PER_STEP:
            self._choose(self._wanted_of_these())

    def _choose(self, wanted: int) -> None:
        """Find the moment up to which so many have sent last."""
        moments, self._moments = self._moments, []
        wanted = min(wanted, sum(map(len, moments)))
        if wanted <= 0:
            self._end()
            return
        low = min(some[0] for some in moments if some)
        high = max(some[-1] for some in moments if some)
        while low < high:
            middle = (low + high) // 2
            if sum(bisect_right(some, middle) for some in moments) >= wanted:
                high = middle
            else:
                low = middle + 1
        self._last_moment = low
        self._wanted = wanted - sum(bisect_left(some, low) for some in moments)
        self._left = self._broker.state.producers.as_they_are()

    def _forget_some(self, left: Iterator[tuple[str, bytes]], last_moment: int) -> None:
        producers = self._broker.state.producers
        under_way = self._broker.destinations.leadership.numbers.under_way
        records: list[ForgetProducerRecord] = []
        looked_at = 0
        for producer_id, value in islice(left, _LOOKED_AT_PER_STEP):
            looked_at += 1
            moment = used_at(value)
            if moment > last_moment or not self._gives_way(producer_id):
                continue
            if moment == last_moment:
                if not self._wanted:
                    continue
                self._wanted -= 1
            # Not if it has sent since this was begun.
            if producers.by_id.get(producer_id) == value and producer_id not in under_way:
                records.append(ForgetProducerRecord(producer_id))
                self._waits_for = producer_id, value
                if len(records) == _FORGOTTEN_PER_STEP:
                    break
        else:
            if looked_at < _LOOKED_AT_PER_STEP:
                self._end()
        self._broker.receipts.add_records([*records])
