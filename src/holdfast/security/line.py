"""
The line of what is to be looked at: one for each network, and the networks take turns.

To look at a password takes 20 ms on purpose, and a directory takes as long as it likes. So whoever
sends a thousand names in one burst stands behind himself and before nobody else: there is one line
for each network that somebody may have (`network_of`), they are served in turn, and none is longer
than its share.

Invariants:
    Each network that waits is served before another one is served twice.
    Nothing stands in it without bound, and what is too much is said to be so at once.
    Where all is full the network that has most loses the last of its own, and never one that has
    less.

Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

NETWORK_COUNT_MAX: Final = 100
"""So many of one network stand in it."""
COUNT_MAX: Final = 1_000

Item = TypeVar("Item")


class Line(Generic[Item]):
    """What waits, by the network it comes from."""

    __slots__ = ("_count", "_of_networks")

    def __init__(self) -> None:
        self._of_networks: dict[str, deque[Item]] = {}
        """The one that is served next stands first."""
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def add(self, network: str, item: Item) -> Item | None:
        """Let one wait; gives who waits no more for it, which may be the same."""
        own = self._of_networks.get(network)
        own_count = 0 if own is None else len(own)
        if own_count >= NETWORK_COUNT_MAX:
            return item
        dropped: Item | None = None
        if self._count >= COUNT_MAX:
            longest = max(self._of_networks, key=lambda it: len(self._of_networks[it]))
            if len(self._of_networks[longest]) <= own_count + 1:
                return item
            dropped = self._of_networks[longest].pop()
            self._count -= 1
        if own is None:
            own = self._of_networks[network] = deque()
        own.append(item)
        self._count += 1
        return dropped

    def take(self) -> Item | None:
        """Give who is next; None: nobody waits."""
        if not self._count:
            return None
        network = next(iter(self._of_networks))
        own = self._of_networks.pop(network)
        item = own.popleft()
        self._count -= 1
        if own:
            self._of_networks[network] = own
        return item
