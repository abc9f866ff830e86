"""
The bound on producers: who has not sent for the longest is forgotten first.

Clients that live for one message and bring an id of their own each are the normal case, so the
number of producers must not follow the number of messages. The leader chooses; what it chose is
records of the log, so every node forgets the same producers at the same entry. "The longest" is by
log time, which no clock of a machine turns back.

Both the search and the records go in pieces: one `step` looks at some thousands, or asks for some
of them to be forgotten. The bound may be passed by what arrives meanwhile: what is too many by then
is forgotten in the same round, so the more come the more go.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.producers import used_at
from holdfast.model.records import ForgetProducerRecord

_LOOKED_AT_PER_STEP: Final = 5_000
_FORGOTTEN_PER_STEP: Final = 2_000
_SHARE_AT_ONCE: Final = 8
"""One part in so many is forgotten beyond what is too many: a search looks at all producers."""


class ProducerLimit:
    """Keeps the producers of one broker to their number, while it leads."""

    __slots__ = ("_broker", "_doomed", "_found", "_left", "_wanted", "_waits_for")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._left: Iterator[tuple[str, bytes]] | None = None
        """Of the producers when the search began, those not looked at; None outside of one."""
        self._wanted = 0
        self._found: list[tuple[int, str, bytes]] = []
        """Heap of the least recently used so far: (minus log time, id, value)."""
        self._doomed: list[tuple[int, str, bytes]] = []
        self._waits_for: tuple[str, bytes] | None = None
        """The last one asked to be forgotten: the next search waits until it is."""

    def stop(self) -> None:
        """Forget what was under way: another leader may choose otherwise."""
        self._left = self._waits_for = None
        self._found, self._doomed = [], []

    def step(self) -> None:
        """Do a bounded piece of work, if there are too many."""
        if self._doomed:
            self._forget_some()
        elif self._left is not None:
            self._look_at_some()
        elif self._is_settled():
            self._begin()

    def _is_settled(self) -> bool:
        if self._waits_for is not None:
            producer_id, value = self._waits_for
            if self._broker.state.producers.by_id.get(producer_id) == value:
                return False
            self._waits_for = None
        return True

    def _begin(self) -> None:
        by_id = self._broker.state.producers.by_id
        count_max = self._broker.settings.producer_count_max
        if len(by_id) <= count_max:
            return
        self._left = self._broker.state.producers.as_they_are()
        self._wanted = len(by_id) - count_max + count_max // _SHARE_AT_ONCE

    def _look_at_some(self) -> None:
        assert self._left is not None, "a search is under way"
        found = self._found
        producer_id = None
        for producer_id, value in islice(self._left, _LOOKED_AT_PER_STEP):
            key = -used_at(value)
            if len(found) < self._wanted:
                heapq.heappush(found, (key, producer_id, value))
            elif key >= found[0][0]:
                # Of those of one moment, too, the same ones whatever the order.
                heapq.heappushpop(found, (key, producer_id, value))
        if producer_id is None:
            self._doomed, self._found = found, []
            self._left = None

    def _forget_some(self) -> None:
        producers = self._broker.state.producers
        chosen = self._doomed[-_FORGOTTEN_PER_STEP:]
        del self._doomed[-_FORGOTTEN_PER_STEP:]
        records: list[ForgetProducerRecord] = []
        for _, producer_id, value in chosen:
            # Not if it has sent since it was chosen.
            if producers.by_id.get(producer_id) == value and producer_id not in producers.assigned:
                records.append(ForgetProducerRecord(producer_id))
                self._waits_for = producer_id, value
        self._broker.add_records([*records])
