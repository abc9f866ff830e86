"""
The line of what is to be looked at: one for each site, and the sites take turns.

To look at a password takes 20 ms on purpose, and a directory takes as long as it likes. So whoever
sends a thousand names in one burst stands behind himself and before nobody else: there is one line
for each network that one site is given, they are served in turn, and none is longer than its share.

Invariants:
    Each site that waits is served before another one is served twice.
    Nothing stands in it without bound, and what is too much is said to be so at once.
    Where all is full the site that has most loses the last of its own, and never one that has less.

Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

SITE_COUNT_MAX: Final = 100
"""So many of one site stand in it."""
COUNT_MAX: Final = 1_000

Item = TypeVar("Item")


class Line(Generic[Item]):
    """What waits, by the site it comes from."""

    __slots__ = ("_count", "_of_sites")

    def __init__(self) -> None:
        self._of_sites: dict[str, deque[Item]] = {}
        """The one that is served next stands first."""
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def add(self, site: str, item: Item) -> Item | None:
        """Let one wait; gives who waits no more for it, which may be the same."""
        own = self._of_sites.get(site)
        own_count = 0 if own is None else len(own)
        if own_count >= SITE_COUNT_MAX:
            return item
        dropped: Item | None = None
        if self._count >= COUNT_MAX:
            longest = max(self._of_sites, key=lambda it: len(self._of_sites[it]))
            if len(self._of_sites[longest]) <= own_count + 1:
                return item
            dropped = self._of_sites[longest].pop()
            self._count -= 1
        if own is None:
            own = self._of_sites[site] = deque()
        own.append(item)
        self._count += 1
        return dropped

    def take(self) -> Item | None:
        """Give who is next; None: nobody waits."""
        if not self._count:
            return None
        site = next(iter(self._of_sites))
        own = self._of_sites.pop(site)
        item = own.popleft()
        self._count -= 1
        if own:
            self._of_sites[site] = own
        return item
