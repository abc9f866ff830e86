"""
What the leader knows of single messages of a queue, beside who has them.

Made for a queue with traffic only: empty, it is more than all the rest of a queue.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from holdfast.broker.serving.comebacks import Comebacks
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.shelves import ShelvedSet, Shelves


class Custody:
    """What was given back, kept from everybody, or is on its way back."""

    __slots__ = (
        "comebacks",
        "damaged",
        "had_by",
        "redelivered",
        "releasing",
        "reserved",
        "returning",
        "withheld",
    )

    def __init__(self) -> None:
        self.redelivered = ShelvedSet()
        """What must be flagged, beside all that a former leader may have sent."""
        self.had_by: Shelves[str] = Shelves()
        """What was given back, by the client that had it last, where that can be known again."""
        self.withheld = ShelvedSet()
        """Live sequences not to dispatch: damaged on disk, reserved, or acknowledged late."""
        self.damaged = ShelvedSet()
        """Those withheld for no other reason than that they could not be read."""
        self.reserved = ShelvedSet()
        """Acknowledged in open transactions: nobody's, until those end."""
        self.releasing: dict[Hashable, None] = {}
        """Transactions' parts that are just being rolled back; as with `returning`."""
        self.returning: dict[Consumer, None] = {}
        """Closed subscriptions whose deliveries are just being given back; until they all are,
        nothing is dispatched, so that the old order is kept."""
        self.comebacks: Comebacks | None = None
        """What comes back by the log, and what rests; None before the first does."""

    @property
    def is_held(self) -> bool:
        """Whether nothing is dispatched now, as older messages are just being given back."""
        if self.returning or self.releasing:
            return True
        return self.comebacks is not None and self.comebacks.awaited_count > 0

    def made_comebacks(self) -> Comebacks:
        """Give what comes back and what rests, made at first use."""
        if self.comebacks is None:
            self.comebacks = Comebacks()
        return self.comebacks

    def is_coming(self, key: int) -> bool:
        """Whether a message is on its way back."""
        return self.comebacks is not None and key in self.comebacks.under_way

    def comes_at_once(self, key: int) -> bool:
        """Whether what is back on its queue neither rests nor is held by a transaction."""
        rests = self.comebacks is not None and key in self.comebacks.resting
        return not rests and key not in self.reserved

    def rest(self, key: int, due_ms: int) -> bool:
        """Keep a message from everybody until it is due; whether it is so before all others."""
        self.withheld.add(key)
        return self.made_comebacks().rest(key, due_ms)

    def forget(self, keys: Collection[int]) -> None:
        """Forget what is known of messages that are settled; what is reserved ends by itself."""
        if self.redelivered.shelves:
            self.redelivered.difference_update(keys)
        if self.withheld.shelves:
            self.withheld.difference_update(keys)
            self.damaged.difference_update(keys)
        if self.had_by.shelves:
            self.had_by.take_all(keys)
        if self.comebacks is not None:
            self.comebacks.forget(keys)

    def reserve(self, key: int) -> None:
        """
        Keep a message that nobody has from everybody, for a transaction that settles it.

        What rests goes on resting: the transaction may be rolled back before it is due.
        """
        self.reserved.add(key)
        self.withheld.add(key)
        self.damaged.discard(key)

    def settle_late(self, key: int) -> None:
        """Keep a message that nobody has from everybody: it is being settled, damaged or not."""
        self.withheld.add(key)
        self.damaged.discard(key)
        if self.comebacks is not None:
            self.comebacks.stay(key)

    def spoil(self, key: int) -> None:
        """Keep a message that cannot be read from everybody."""
        self.withheld.add(key)
        self.damaged.add(key)

    def mend(self, key: int) -> bool:
        """Let a message be tried again; whether it was kept from everybody as damaged alone."""
        if key not in self.damaged:
            return False
        self.damaged.discard(key)
        self.withheld.discard(key)
        return True

    def unreserve(self, keys: Collection[int]) -> None:
        """Let go of some of what is reserved."""
        self.reserved.difference_update(keys)

    def settle_reserved(self, keys: Collection[int]) -> None:
        """Let go of some of what is reserved, and settled: nothing of it comes when it is due."""
        self.reserved.difference_update(keys)
        if self.comebacks is not None:
            for key in keys:
                self.comebacks.stay(key)

    def come_due(self, keys: list[int]) -> list[int]:
        """Let go of what rested until now; gives it, but what a transaction holds."""
        if self.reserved.shelves:
            keys = [key for key in keys if key not in self.reserved]
        self.withheld.difference_update(keys)
        return keys

    def release(self, keys: list[int]) -> list[int]:
        """Let go of what a transaction held that is rolled back; gives it, but what still rests."""
        self.unreserve(keys)
        if self.comebacks is not None:
            keys = [key for key in keys if key not in self.comebacks.resting]
        self.withheld.difference_update(keys)
        return keys

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all that is known of single messages; gives it, to be let go of."""
        known: tuple[Collection[object], ...]
        known = (self.redelivered, self.had_by, self.withheld, self.damaged)
        self.redelivered, self.had_by = ShelvedSet(), Shelves()
        self.withheld, self.damaged = ShelvedSet(), ShelvedSet()
        if self.comebacks is not None:
            known = (*known, *self.comebacks.empty())
        return known
