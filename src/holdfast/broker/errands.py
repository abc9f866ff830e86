"""
Long work in short steps: what a turn may begin and later turns go on with.

An errand is an iterator; each step of it takes well under a millisecond and leaves all whole.
Whoever conducts runs errands for a while in each turn, so that nobody else waits for them.

What settles, gives back or lets join goes first. What only tells somebody something, answers and
advisories, has the time that this leaves, and a step in each turn whatever is left.

Invariants:
    Owners take turns, a step each: who has many errands is not served more than who has one.
    An errand that fails is over; it costs its owner, and no other.
    Of what tells one owner something only the first goes on: the next begins when it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

IsSpent = Callable[[], bool]
"""Whether the time for this kind of work is over in this turn."""

Lane = dict[object, deque[Iterator[object]]]
"""Errands by owner; the first owner has the next step."""


class Errands:
    """Errands under way."""

    __slots__ = ("broken", "telling", "under_way")

    def __init__(self) -> None:
        self.under_way: Lane = {}
        """What goes first; looked at in every turn of the loop, so by itself, without a call."""
        self.telling: Lane = {}
        """What only tells somebody something."""
        self.broken: list[tuple[object, Exception]] = []
        """Whose errands have failed, and how; whoever runs them lets it cost these."""

    def __bool__(self) -> bool:
        return bool(self.under_way or self.telling)

    def begin(self, errand: Iterator[object], owner: object = None) -> None:
        """
        Do the first step of an errand now; what is left is done when errands are run.

        Args:
            owner: The session or queue that has the time for it, and is closed or built anew if it
                fails; None: the broker's own.
        """
        if next(errand, self) is not self:
            self.under_way.setdefault(owner, deque()).append(errand)

    def tell(self, errand: Iterator[object], owner: object) -> None:
        """Tell an owner something when there is time, behind what is told to it already."""
        self.telling.setdefault(owner, deque()).append(errand)

    def begin_to_tell(self, errand: Iterator[object], owner: object) -> None:
        """Tell the first of it now, and what is left when there is time."""
        if next(errand, self) is not self:
            self.tell(errand, owner)

    def drop(self, owner: object) -> None:
        """Tell an owner nothing more: it is gone."""
        self.telling.pop(owner, None)

    def fail(self, owner: object, error: Exception) -> None:
        """Let a mistake cost an owner when errands are run: here others are served."""
        self.broken.append((owner, error))
        self.under_way.setdefault(None, deque()).append(iter(()))

    def run(self, is_spent: IsSpent) -> None:
        """Do steps until all errands are done or the time is spent; at least one of each kind."""
        while self.under_way:
            self._step(self.under_way)
            if is_spent():
                break
        while self.telling:
            self._step(self.telling, is_in_order=True)
            if is_spent():
                return

    def _step(self, lane: Lane, *, is_in_order: bool = False) -> None:
        """Do a step for the owner whose turn it is; of several errands it may do each in turn."""
        owner = next(iter(lane))
        errands = lane.pop(owner)
        errand = errands.popleft()
        try:
            is_over = next(errand, self) is self
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs its owner
            self.broken.append((owner, error))
            is_over = True
        if not is_over and is_in_order:
            errands.appendleft(errand)
        elif not is_over:
            errands.append(errand)
        errands.extend(lane.pop(owner, ()))  # Begun by the step itself.
        if errands:
            lane[owner] = errands

    def finish(self) -> None:
        """Do all that is left, however long it takes."""
        while self:
            self.run(lambda: False)

    def clear(self) -> None:
        """Drop what is under way: what it was for is gone."""
        self.under_way.clear()
        self.telling.clear()
        self.broken.clear()
