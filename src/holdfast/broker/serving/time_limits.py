"""
What of one queue is in delivery for too long: a deadline for each step of dispatch and consumer.

Whoever subscribed where the policy has a limit has each delivery for so long only. A queue without
such a consumer has none of this. What one consumer got in one step is due together, so a delivery
takes two words here, and nothing is said when it is acknowledged: it is looked at when it is due,
or as others come.

Time is what this leader has seen pass (`passed_ms`), tick by tick: a clock that is set, or a
process that stood still, takes nothing from anybody.

Invariants:
    A deadline counts for a delivery only as long as the same message was not delivered again.
    Nothing is taken from a window that a transaction just puts together.
    Only consumers have a limit that acknowledge each delivery by itself.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, Protocol

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.deadlines import Deadlines
from holdfast.broker.serving.delivery import Delivery

_AGAIN_MS: Final = 100
"""Until a window is looked at again that a transaction just puts together."""


class SeesTimePass(Protocol):
    """A leadership, as far as this needs it."""

    now_ms: int
    """What time it was when it looked last."""
    overdue: deque[tuple[Consumer, list[int]]]
    """What is to be taken from consumers."""

    @property
    def passed_ms(self) -> int:
        """How long it has seen time pass."""


class _Given(NamedTuple):
    """What one consumer got in one step."""

    due_ms: int
    """In the time that has passed."""
    number: int
    """Which one this is: no two are equal, as consumers have no order."""
    consumer: Consumer
    keys: array[int]


class TimeLimits:
    """Deadlines of the deliveries of one queue."""

    __slots__ = ("_count", "_deadlines", "_given_by", "_leadership", "_rouse")

    def __init__(self, leadership: SeesTimePass, rouse: Callable[[int], None]) -> None:
        self._leadership = leadership
        self._rouse = rouse
        """Lets the queue be woken at a time, if it is not sooner."""
        self._deadlines: Deadlines[_Given] = Deadlines()
        self._given_by: dict[int, int] = {}
        """By key, in which step it was given last: the number of that."""
        self._count = 0

    def begin(self, step: Iterable[Delivery]) -> None:
        """Note what is delivered."""
        given: dict[Consumer, array[int]] = {}
        for delivery in step:
            consumer = delivery[0]
            if not consumer.delivery_ms_max:
                continue
            if consumer in given:
                given[consumer].append(delivery[1])
            else:
                given[consumer] = array("q", [delivery[1]])
        for consumer, keys in given.items():
            self.give(consumer, keys)

    def give(self, consumer: Consumer, keys: array[int]) -> None:
        """Note what a consumer has from now on."""
        self._count += 1
        for key in keys:
            consumer.answered(key)  # It has it once more: that is what it says something of now.
            self._given_by[key] = self._count
        due_ms = self._leadership.passed_ms + consumer.delivery_ms_max
        self._deadlines.add(_Given(due_ms, self._count, consumer, keys), self._counts)
        self._rouse(self._leadership.now_ms + consumer.delivery_ms_max)

    def _counts(self, given: _Given) -> bool:
        """Whether any of it is still in delivery; what is not is forgotten."""
        window = given.consumer.unacknowledged
        if any(key in window and self._given_by.get(key) == given.number for key in given.keys):
            return True
        self._forget(given)
        return False

    def _forget(self, given: _Given) -> None:
        for key in given.keys:
            if self._given_by.get(key) == given.number:
                del self._given_by[key]

    def wake(self, count_max: int) -> tuple[int, int]:
        """
        Find what is in delivery for too long, looking at about so many.

        Gives at how many it has looked, and when to go on, or 0.
        """
        passed_ms, now_ms = self._leadership.passed_ms, self._leadership.now_ms
        count = 0
        while count < count_max and 0 < self._deadlines.soonest <= passed_ms:
            given = self._deadlines.pop()
            count += len(given.keys)
            consumer = given.consumer
            if consumer.is_closed:
                self._forget(given)
            elif consumer.prefetch < 0:
                self._deadlines.add(given._replace(due_ms=passed_ms + _AGAIN_MS), self._counts)
            else:
                number, window = given.number, consumer.unacknowledged
                keys = [it for it in given.keys if it in window]
                keys = [it for it in keys if self._given_by.get(it) == number]
                self._forget(given)
                if keys:
                    self._leadership.overdue.append((consumer, keys))
        soonest = self._deadlines.soonest
        return count, soonest and now_ms + max(0, soonest - passed_ms)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of."""
        known, self._given_by = self._given_by, {}
        return (known, *self._deadlines.empty())
