"""
Long work in short steps: what a turn may begin and later turns go on with.

An errand is an iterator; each step of it takes well under a millisecond and leaves all whole.
Whoever conducts runs errands for a while in each turn, so that nobody else waits for them.

Errands take turns: one that is left off goes behind the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

IsSpent = Callable[[], bool]
"""Whether the time for this kind of work is over in this turn."""


class Errands:
    """Errands under way."""

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        self.under_way: deque[Iterator[object]] = deque()
        """In turns; looked at in every turn of the loop, so by itself and not through a call."""

    def __bool__(self) -> bool:
        return bool(self.under_way)

    def begin(self, errand: Iterator[object]) -> None:
        """Do the first step of an errand now; what is left is done when errands are run."""
        if next(errand, self) is not self:
            self.under_way.append(errand)

    def run(self, is_spent: IsSpent) -> None:
        """Do steps until all errands are done or the time is spent; at least one step."""
        under_way = self.under_way
        while under_way:
            errand = under_way.popleft()
            for _ in errand:
                if is_spent():
                    under_way.append(errand)
                    return

    def finish(self) -> None:
        """Do all that is left, however long it takes."""
        self.run(lambda: False)

    def clear(self) -> None:
        """Drop what is under way: what it was for is gone."""
        self.under_way.clear()
