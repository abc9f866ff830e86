"""
Queues that policies pause: what is sent there is stored, and nobody is given any of it.

A queue that would have its turn is asked for it here, and remembered if it is paused; once the
policies were changed all that are remembered have their turn again. What somebody has stays his,
and is acknowledged, given back, or runs out of time as ever.

Invariants:
    Every paused queue that had something for somebody is remembered, or has its turn coming.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue

_PER_STEP: Final = 64


class Pausing:
    """Knows which queues are paused, and lets them have their turn when they are no more."""

    __slots__ = ("_change_count", "_destinations", "_policies", "_resumed")

    def __init__(self, destinations: Destinations, policies: PolicyBook) -> None:
        self._destinations = destinations
        self._policies = policies
        self.follow()

    def follow(self) -> None:
        """Forget all: another leader asks anew."""
        self._change_count = 0
        """How often the policies had been changed when the first of those was remembered."""
        self._resumed: list[Queue] = []
        """Those that are still to have their turn because of a change."""

    @property
    def is_on(self) -> bool:
        """Whether any policy pauses any queue."""
        return self._policies.pauses_anything

    def is_paused(self, queue: Queue) -> bool:
        """Say whether a queue that has something for somebody is paused, and remember it then."""
        if not self._policies.of(queue).is_paused:
            return False
        paused = self._destinations.leadership.paused
        if not paused:
            self._change_count = self._policies.change_count
        paused[queue] = None
        return True

    @property
    def has_any(self) -> bool:
        """Whether queues are to have their turn again."""
        if self._resumed:
            return True
        paused = self._destinations.leadership.paused
        return bool(paused) and self._policies.change_count != self._change_count

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Let some have their turn; whether there are more. Who is still paused comes back."""
        leadership = self._destinations.leadership
        if not self._resumed:
            self._resumed, leadership.paused = list(leadership.paused), {}
        while self._resumed:
            for queue in self._resumed[-_PER_STEP:]:
                if not queue.is_deleted:
                    queue.touch()
            del self._resumed[-_PER_STEP:]
            if is_spent():
                break
        return bool(self._resumed)
