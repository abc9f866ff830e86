"""
What was given back on one queue: it goes out again before anything new, in its old order.

Of stored messages their sequences are the order, a bit for each. Non-persistent ones have their
place behind the persistent one that was sent before them, so of these the order stands beside.

Invariants:
    Each key is there once.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

from holdfast.broker.serving.shelves import OrderedKeys, ShelvedSet


class Returned:
    """Keys in the order of their messages."""

    __slots__ = ("_volatile_keys", "stored", "volatile")

    def __init__(
        self, stored: OrderedKeys | None = None, volatile: Collection[tuple[int, int]] = ()
    ) -> None:
        """Begin with what is known of it: sequences, and orders with serials."""
        self.stored = OrderedKeys() if stored is None else stored
        """Sequences of stored messages."""
        self.volatile = [(order, serial, -serial) for order, serial in volatile]
        """Heap of (order, serial, key): non-persistent ones."""
        self._volatile_keys = ShelvedSet([-serial for _, serial in volatile])

    def __contains__(self, key: int) -> bool:
        return key in (self.stored if key > 0 else self._volatile_keys)

    def __len__(self) -> int:
        return len(self.stored) + len(self.volatile)

    def __bool__(self) -> bool:
        return bool(self.stored.shelves or self.volatile)

    def put(self, order: int, serial: int, key: int) -> None:
        """Put a key there, if it is not."""
        if key > 0:
            self.stored.add(key)
        elif key not in self._volatile_keys:
            self._volatile_keys.add(key)
            heapq.heappush(self.volatile, (order, serial, key))

    def first(self) -> int:
        """Give the first of them, 0 if there is none."""
        stored = self.stored.first()
        # Sent behind the persistent message of the same order.
        if self.volatile and (not stored or self.volatile[0][0] < stored):
            return self.volatile[0][2]
        return stored

    def pop(self) -> int:
        """Take the first of them, 0 if there is none."""
        key = self.first()
        if key > 0:
            self.stored.discard(key)
        elif key:
            heapq.heappop(self.volatile)
            self._volatile_keys.discard(key)
        return key

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of."""
        known = (self.stored, self.volatile, self._volatile_keys)
        self.stored, self.volatile, self._volatile_keys = OrderedKeys(), [], ShelvedSet()
        return known
