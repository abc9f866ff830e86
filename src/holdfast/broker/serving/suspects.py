"""
Messages that were lost with connection after connection, each sent alone until it is known why.

Who has many messages and dies of one takes all of them along, and none can be blamed. What went so
too often is a suspect: it stands outside the order, and is given to a consumer that holds nothing,
who gets nothing else before it is settled. If that one dies too the message failed, and only that.

A consumer that is to have one alone is *narrowed*: its prefetch is 1 until no suspect waits any
more. So one of them runs empty, whatever it has, and the others go on.

Invariants:
    Whoever acknowledges at all has nothing beside a suspect.
    No more than one consumer is narrowed that still holds what it had before, unless it takes long.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.ring import Ring

_PATIENCE_MIN: Final = 64
"""So many deliveries at least go to others before a second consumer is to run empty."""

_NARROWED_MIN: Final = 64

_LOOKED_AT_MAX: Final = 64
"""So many are looked at for one who holds nothing; whoever is next of all others is, too."""


class Narrowing:
    """Of some consumers: who has less room than it had, so that it has one message alone."""

    __slots__ = ("_emptying", "_looked_at", "_narrowed", "_patience")

    def __init__(self) -> None:
        self._narrowed: dict[Consumer, None] = {}
        """Those of them who may be closed by now."""
        self._looked_at = _NARROWED_MIN
        """At so many it is seen which of them are closed."""
        self._emptying: Consumer | None = None
        """Who is narrowed and still holds what it had before."""
        self._patience = 0

    def is_turn_of(self, consumer: Consumer) -> bool:
        """
        Whether somebody who has room is to have a suspect now; one waits.

        If not it may have less room than before, as it is to run empty.
        """
        if not consumer.held_count:
            return True
        emptying = self._emptying
        is_over = emptying is None or emptying.is_closed or not emptying.held_count
        self._patience -= 1
        if is_over or self._patience <= 0:
            self._emptying = consumer
            self._patience = max(_PATIENCE_MIN, 2 * consumer.held_count)
            self._narrow(consumer)
        return False

    def give(self, consumer: Consumer) -> None:
        """Note that somebody gets a suspect, and nothing beside it."""
        if consumer.mode is not AcknowledgeMode.AUTO:
            self._narrow(consumer)

    def _narrow(self, consumer: Consumer) -> None:
        if consumer not in self._narrowed:
            self._narrowed[consumer] = None
            if len(self._narrowed) > self._looked_at:
                self._narrowed = {each: None for each in self._narrowed if not each.is_closed}
                self._looked_at = max(_NARROWED_MIN, 2 * len(self._narrowed))
        consumer.narrow(self)

    def widen(self, consumer: Consumer) -> None:
        """Give somebody the room that it had."""
        if self._emptying is consumer:
            self._emptying = None  # What it holds from now on is not what it had before.
        if consumer in self._narrowed:
            del self._narrowed[consumer]
            consumer.widen(self)

    @property
    def narrowed(self) -> list[Consumer]:
        """Those who have less room than they had."""
        return [consumer for consumer in self._narrowed if not consumer.is_closed]

    def take_over(self, before: Narrowing, consumer: Consumer) -> None:
        """Let somebody have one message at a time who did so far: he may have one alone."""
        self._narrow(consumer)
        before.widen(consumer)


class Suspects(Narrowing):
    """Of one queue: what is to be sent alone, outside the order, and to whom."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        super().__init__()
        self.waiting = Returned()
        """In the order of the queue."""

    def is_turn_of(self, consumer: Consumer) -> bool:
        """Say the same; where nothing waits any more it has all the room that it had."""
        if not self.waiting:
            self.widen(consumer)
            return False
        return super().is_turn_of(consumer)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all that waits; gives it, to be let go of."""
        return self.waiting.empty()


def is_awaited(queue: Queue, consumer: Consumer) -> bool:
    """Whether a consumer of a queue holds nothing, and something waits there for such a one."""
    return not consumer.held_count and queue.choice.is_idle_awaited


def find_idle(ring: Ring) -> Consumer | None:
    """Give somebody in a ring who has room and holds nothing, None if there is none near by."""
    for consumer in islice(ring.ready, _LOOKED_AT_MAX):
        if not consumer.held_count and consumer.has_room():
            return consumer
    return None
