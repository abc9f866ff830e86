"""
The line of what is to be looked at: sites and their networks take turns, in two lines.

To look at a password takes 20 ms on purpose, and a directory takes as long as it likes. So whoever
sends a thousand names in one burst stands behind himself and before nobody else: sites that
somebody may have are served in turn, and their networks (`Crowd`). And those from where somebody
came in lately (`Regulars`) have a line of their own, so that strangers of whatever number of
networks do not stand before them.

Invariants:
    Each site that waits in a line is served before another one of it is served twice.
    Of four turns one at least is the strangers', and one at least the regulars', if there are any.
    Nothing stands in it without bound, and what is too much is said to be so at once.
    Where a line is full whoever comes finds a place: of a site or network that has more, the last
    of its own goes, and where none has, who would be served next of its site, or of all.

Pure.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from holdfast.model.crowd import Crowd

COUNT_MAX: Final = 1_000
"""So many stand in each."""
TURNS_OF_REGULARS: Final = 3

Item = TypeVar("Item")


class Line(Generic[Item]):
    """What waits, by where it comes from."""

    __slots__ = ("_regulars", "_strangers", "_turn")

    def __init__(self) -> None:
        self._regulars: Crowd[Item] = Crowd()
        self._strangers: Crowd[Item] = Crowd()
        self._turn = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._regulars) + len(self._strangers)

    def add(self, address: str, item: Item, *, is_regular: bool = False) -> Item | None:
        """Let one wait; gives who waits no more for it, which may be the same."""
        line = self._regulars if is_regular else self._strangers
        dropped: Item | None = None
        if len(line) >= COUNT_MAX:
            group = line.greedier(address)
            if group:
                dropped = next(reversed(group))
                line.discard(dropped)
            elif line.of(address):
                return item
            elif fellows := line.fellows(address):
                dropped = next(iter(fellows))
                line.discard(dropped)
            else:
                dropped = line.take()
        line.add(item, address)
        return dropped

    def take(self) -> Item | None:
        """Give who is next; None: nobody waits."""
        self._turn = (self._turn + 1) % (TURNS_OF_REGULARS + 1)
        first, second = self._regulars, self._strangers
        if not self._turn:
            first, second = second, first
        found = first.take()
        return second.take() if found is None else found
