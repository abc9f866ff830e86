"""
What nobody can reach any more, let go of in steps.

To free half a million messages takes a third of a second. So whoever takes away much, for a purge,
a deletion or the end of a leadership, does it by putting an empty container in the place of the
full one, which comes here. From then on what is in it counts for nothing but memory. Whoever
conducts lets some of it go in each turn, on every node, whoever leads.

Invariants:
    A content is counted in memory until it is let go of here.
    What is here is changed by nobody, and nobody finds it any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Protocol


class Content(Protocol):
    """A message, as far as it counts."""

    @property
    def size(self) -> int:
        """The bytes of its headers and body."""


class Discards:
    """Containers to be emptied."""

    __slots__ = ("_contents", "_later", "_overhead", "_piles", "_volatile", "are_waiting")

    def __init__(self, overhead_bytes: int) -> None:
        self._overhead = overhead_bytes
        self._contents: deque[Any] = deque()
        """Messages, counted in memory."""
        self._volatile: deque[Any] = deque()
        """The same, counted as non-persistent."""
        self._piles: deque[Any] = deque()
        """Lists, sets, dictionaries, deques of what is counted nowhere."""
        self._later: deque[Iterator[Any]] = deque()
        """More of these, each found when its turn comes."""
        self.are_waiting = False
        """There is anything to be let go of."""

    def __bool__(self) -> bool:
        return self.are_waiting

    def add(self, *piles: Any) -> None:
        """Take containers of what is counted nowhere."""
        self._piles += [pile for pile in piles if pile]
        self._look()

    def add_later(self, piles: Iterator[Any]) -> None:
        """Take containers that are still to be found in something large."""
        self._later.append(piles)
        self.are_waiting = True

    def add_contents(self, contents: Mapping[int, Content]) -> None:
        """Take messages by sequence, which are counted in memory until they are gone."""
        if contents:
            self._contents.append(contents)
            self.are_waiting = True

    def add_volatile(self, messages: Mapping[int, Content]) -> None:
        """Take non-persistent messages by key, which are counted as such until they are gone."""
        if messages:
            self._volatile.append(messages)
            self.are_waiting = True

    def forget_leadership(self) -> None:
        """Count non-persistent messages no more: a new leadership counts its own."""
        self._piles += self._volatile
        self._volatile.clear()

    def contents(self) -> Iterator[Any]:
        """Give the messages that are still counted in memory."""
        for each in (*self._contents, *self._volatile):
            yield from each.values()

    def step(self, count: int) -> tuple[int, int]:
        """
        Let go of so many things.

        Gives how many bytes of stored and of non-persistent messages are counted no more.
        """
        freed = self._step(count)
        self._look()
        return freed

    def _look(self) -> None:
        self.are_waiting = bool(self._contents or self._volatile or self._piles or self._later)

    def _step(self, count: int) -> tuple[int, int]:
        if self._volatile:
            return 0, self._empty(self._volatile, count)
        if self._contents:
            return self._empty(self._contents, count), 0
        if self._piles:
            pile = self._piles[0]
            pop = pile.popitem if isinstance(pile, MutableMapping) else pile.pop
            for _ in range(count):
                if not pile:
                    break
                pop()
            if not pile:
                self._piles.popleft()
        elif self._later:
            pile = next(self._later[0], None)
            if pile is None:
                self._later.popleft()
            elif pile:
                self._piles.append(pile)
        return 0, 0

    def _empty(self, places: deque[Any], count: int) -> int:
        contents = places[0]
        size = 0
        for _ in range(count):
            if not contents:
                break
            size += contents.popitem()[1].size + self._overhead
        if not contents:
            places.popleft()
        return size
