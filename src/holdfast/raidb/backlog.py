"""
What one of several databases is yet to store, where a log is confirmed without waiting for it.

Each gets the same entries in the same order, at its own pace. What was sent once is sent again as
it was until it is known to be stored: only then comes what was offered meanwhile, as one batch.

Invariants:
    What is stored is all that was offered before what is kept here.
    Of one member one batch is under way at a time.
"""

from __future__ import annotations

from collections import deque

from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Place
from holdfast.raidb.databases import BoundAct

BATCH_BYTES_MAX = 1 << 20
"""Of what is sent at once, unless one entry alone is longer."""


class Backlog:
    """One member's."""

    __slots__ = (
        "_offered_through",
        "_pending",
        "act",
        "before",
        "bytes",
        "call",
        "far_since",
        "is_storing",
        "sent",
        "sent_at",
    )

    def __init__(self, end: Place) -> None:
        """It lacks nothing yet, and ends there."""
        self.before = end
        """Where it ends, without what it lacks."""
        self.bytes = 0
        """How many bytes it lacks."""
        self.sent: list[Entry] = []
        """The batch of which it is not known whether it is stored."""
        self.act: BoundAct = None
        """What is under way, to store that or as a sign of life; None if nothing is."""
        self.is_storing = False
        """Whether it is to store what was sent."""
        self.call = 0
        """In which call of its owner the act was begun."""
        self.sent_at = 0.0
        self.far_since = 0.0
        """Since when it lacks more than it may; 0 while it does not."""
        self._pending: deque[list[Entry]] = deque()
        self._offered_through = 0

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have all that was offered."""
        return not self.sent and not self._pending

    @property
    def is_behind(self) -> bool:
        """Whether there is more than what was sent."""
        return bool(self._pending)

    @property
    def first_index(self) -> int:
        """The first entry that it may lack; 0 if there is none."""
        if self.sent:
            return self.sent[0].index
        return self._pending[0][0].index if self._pending else 0

    def offer(self, entries: list[Entry]) -> None:
        """Have it store these; the very same may be offered again."""
        if entries[-1].index <= self._offered_through:
            return
        self._pending.append(entries)
        self.bytes += bytes_of(entries)
        self._offered_through = entries[-1].index

    def batch(self) -> list[Entry]:
        """What is to be sent now: the same until `stored`; empty if it lacks nothing."""
        if not self.sent and self._pending:
            self.sent = list(self._pending.popleft())
            size = bytes_of(self.sent)
            while self._pending and size + bytes_of(self._pending[0]) <= BATCH_BYTES_MAX:
                size += bytes_of(self._pending[0])
                self.sent += self._pending.popleft()
        return self.sent

    def begin(self, act: BoundAct, call: int, now: float) -> None:
        """Something is asked of it."""
        self.act, self.call, self.sent_at = act, call, now

    def stored(self) -> None:
        """What was sent is stored."""
        if self.sent:
            self.before = Place(self.sent[-1].index, self.sent[-1].chain)
        self.bytes -= bytes_of(self.sent)
        self.sent = []

    def withdraw(self, entries: list[Entry]) -> None:
        """Nobody has stored these, which it lacks and nothing else."""
        assert self.first_index == entries[0].index, "it lacks others"
        self.sent, self.bytes = [], 0
        self._pending.clear()
        self._offered_through = entries[0].index - 1
