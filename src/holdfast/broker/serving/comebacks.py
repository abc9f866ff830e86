"""
What on one queue is on its way back to it, and what rests there until it is due again.

A message comes back when the log says so, and not before: so its counts are the same on every node
by the time somebody gets it again. Made with a queue's first return: most have none.

Invariants:
    A key is either under way, or rests, or neither: nobody has it while it is under way, and it is
    withheld while it rests.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.serving.resting import Resting
from holdfast.broker.serving.shelves import Shelves


class Coming(NamedTuple):
    """Whose delivery it was that is on its way back."""

    client: str
    """By what the client can be known again; empty: by nothing."""
    is_awaited: bool
    """Its consumer is gone; nothing is dispatched before all of its messages are back."""


class Comebacks:
    """Of one queue: what comes back, and what rests."""

    __slots__ = ("awaited_count", "resting", "under_way", "volatile")

    def __init__(self) -> None:
        self.under_way: Shelves[Coming] = Shelves()
        """By key: what comes back as soon as the log says so."""
        self.awaited_count = 0
        """So many of those are awaited."""
        self.resting = Resting()
        self.volatile: Shelves[Returned] = Shelves()
        """How often non-persistent messages came back, which are not in the log."""

    def begin(self, keys: Collection[int], client: str, *, is_awaited: bool) -> None:
        """Note that these are on their way back."""
        coming = Coming(client, is_awaited)
        for key in keys:
            self.under_way[key] = coming
        self.awaited_count += is_awaited * len(keys)

    def await_from(self, before: Comebacks) -> None:
        """Take over what is on its way back; nothing is dispatched before all of it is there."""
        self.under_way = before.under_way
        for key, coming in [*self.under_way.items()]:
            self.under_way[key] = coming._replace(is_awaited=True)
        self.awaited_count = len(self.under_way)

    def arrived(self, key: int) -> Coming | None:
        """Take what is back, None if it was not on its way, as far as this leader knows."""
        coming = self.under_way.take(key)
        if coming is not None:
            self.awaited_count -= coming.is_awaited
        return coming

    def rest(self, key: int, due_ms: int) -> bool:
        """Let a key rest, which is withheld; whether it is due before all others."""
        return self.resting.put(key, due_ms)

    def volatile_again(self, key: int, *, failed: bool) -> None:
        """Note that a non-persistent message came back once more."""
        self.volatile[key] = (self.volatile.find(key) or NEVER).again(0, failed=failed)

    @property
    def soonest(self) -> int:
        """When the first of those that rest is due, in milliseconds; 0: nothing rests."""
        return self.resting.soonest

    def due(self, now_ms: int, count_max: int) -> list[int]:
        """Take those that are due, of so many; others may be due, too."""
        return self.resting.due(now_ms, count_max)

    def stay(self, key: int) -> None:
        """Note that a key is withheld for another reason than that it rests."""
        self.resting.take(key)

    def forget(self, keys: Iterable[int]) -> None:
        """Forget what is settled for good; what is under way ends by itself."""
        for key in keys:
            self.resting.take(key)
            if key < 0:
                self.volatile.take(key)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget what rests; gives it, to be let go of. What is under way ends by itself."""
        volatile, self.volatile = self.volatile, Shelves()
        return (*self.resting.empty(), volatile)
