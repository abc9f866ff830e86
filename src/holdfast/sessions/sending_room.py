"""
Whether there is room for what a client sends, at each of the places it goes to.

What is kept takes room on the disk and of its queue's limits; what is not, in memory, and on a
topic as its slowest subscriber has it. What is full passes, so it may be waited for; but for no
other client's temporary destination: whoever reads there may be behind for ever.

Nothing is changed by asking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Publisher
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import QueueFullError, RefusedError, StoreFullError
from holdfast.sessions.context import SessionContext
from holdfast.sessions.requirements import no_room
from holdfast.sessions.target import Outgoing, Question, Target

MEMORY: Final = "memory"
DISK: Final = "disk"


class Lack(NamedTuple):
    """That there is no room at a place."""

    place: Queue | Topic
    what: object
    """What is full: it, by its name, or what all share."""
    error: RefusedError

    @property
    def is_final(self) -> bool:
        """Whether nothing is waited for: whose reader is behind may stay so."""
        return self.place.is_temporary and isinstance(self.error, QueueFullError)


def named(place: Queue | Topic) -> tuple[bool, str]:
    """Give by what a place is known: a queue may be deleted meanwhile, and be another one then."""
    return isinstance(place, Topic), place.name


def what_has_room(target: Target) -> Iterator[object]:
    """Give what was not full, as a message could go to all places that it goes to."""
    for each in target.destinations or (target.destination,):
        yield named(each)
        if isinstance(each, Queue):
            yield DISK if target.persistent and not each.is_temporary else MEMORY


class SendingRoom:
    """What one connection asks before it sends."""

    __slots__ = ("_broker", "_context")

    def __init__(self, broker: Broker, context: SessionContext) -> None:
        self._broker = broker
        self._context = context

    def lacking(self, sender: Publisher, target: Target, sending: Outgoing) -> Lack | None:
        """Say which of a message's destinations has no room for it now; None: all have."""
        return next(self.all_lacking(sender, target, sending), None)

    def all_lacking(self, sender: Publisher, target: Target, sending: Outgoing) -> Iterator[Lack]:
        """Give each destination of a message that has no room for it now."""
        size = total = len(target.lines) + len(sending.body)
        if target.destinations is not None:
            total *= sum(each.is_temporary for each in target.destinations)
        for each in target.destinations or (target.destination,):
            lack = self.lack_there(sender, each, target, size, total)
            if lack is not None:
                yield lack

    def lack_there(
        self,
        sender: Publisher,
        place: Queue | Topic | Question,
        target: Target,
        size: int,
        total: int,
    ) -> Lack | None:
        """Say that one destination has no room for a message of this size; None: it has."""
        if place.is_temporary:
            behind = self._broker.sending.refused_answer(place, sender, size, total)
            if behind is not None:
                return Lack(place, named(place), behind)
        is_kept = target.persistent and isinstance(place, Queue) and not place.is_temporary
        if not (is_kept or self._broker.has_room(place)):
            return self._memory_lack(place)
        if is_kept and self._context.refusal is not None and self.waits_for_disk(place):
            return Lack(place, DISK, StoreFullError(self._context.refusal))
        if target.is_limited and isinstance(place, Queue):
            full = self._broker.limiting.refusal(place, 1, size, is_stored=is_kept)
            return None if full is None else Lack(place, named(place), full)
        return None

    def waits_for_disk(self, place: Queue | Topic) -> bool:
        """Whether what is to be stored somewhere may wait until there is room on the disk."""
        if self._broker.settings.send_fail_if_no_space or not isinstance(place, Queue):
            return False
        limits = self._broker.limiting.limits_of(place)
        return limits is None or not limits.fails_at_once

    def _memory_lack(self, place: Queue | Topic) -> Lack:
        """Say that there is no room in memory, and how long may be waited for it."""
        text = no_room(place)
        if not isinstance(place, Queue):
            return Lack(place, named(place), StoreFullError(text))
        limits = None if place.is_temporary else self._broker.limiting.limits_of(place)
        if limits is None:
            return Lack(place, MEMORY, StoreFullError(text))
        can_wait = not limits.fails_at_once
        full = QueueFullError(text, can_wait=can_wait, wait_ms=limits.wait_ms)
        return Lack(place, named(place), full)
