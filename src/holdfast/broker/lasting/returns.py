"""
How often the messages of one chunk came back to their queue, and until when each of them rests.

A chunk has this only while one of its live messages came back: most never do. Kept by slot, in
arrays that grow to the highest slot that has something: 2 bytes a slot, and 8 more where one rests.

Invariants:
    The slots of dead messages are zero, so equal states have equal bytes on every node.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from holdfast.model.records import MessageRecord

COUNT_MAX: Final = 255
"""Counts stay there: whoever came back so often is known well enough."""


class Returned(NamedTuple):
    """What became of one message so far."""

    attempts: int = 0
    """How often it came back, for whatever reason."""
    failures: int = 0
    """How often of these it is to blame itself."""
    due_ms: int = 0
    """Nobody gets it before, in milliseconds since the epoch."""

    def again(self, due_ms: int, *, failed: bool) -> Returned:
        """Give what it is after it came back once more."""
        attempts = min(self.attempts + 1, COUNT_MAX)
        return Returned(attempts, min(self.failures + failed, COUNT_MAX), due_ms)


NEVER: Final = Returned()
"""Of a message that never came back."""


class Returns:
    """What came back of one chunk, by slot."""

    __slots__ = ("attempts", "count", "dues", "failures")

    def __init__(self) -> None:
        self.attempts = bytearray()
        self.failures = bytearray()
        self.dues: array[int] | None = None
        self.count = 0
        """So many slots have something."""

    def copy(self) -> Returns:
        """Give one that is the same, and stays so."""
        twin = Returns()
        twin.attempts, twin.failures = self.attempts[:], self.failures[:]
        twin.dues = None if self.dues is None else self.dues[:]
        twin.count = self.count
        return twin

    def of(self, slot: int) -> Returned:
        """Give what a slot has."""
        if slot >= len(self.attempts):
            return NEVER
        due = self.dues[slot] if self.dues is not None and slot < len(self.dues) else 0
        return Returned(self.attempts[slot], self.failures[slot], due)

    def put(self, slot: int, returned: Returned) -> None:
        """Let a slot have this, and nothing else."""
        self.count += (returned != NEVER) - (self.of(slot) != NEVER)
        missing = slot + 1 - len(self.attempts)
        if missing > 0:
            self.attempts.extend(bytes(missing))
            self.failures.extend(bytes(missing))
        self.attempts[slot], self.failures[slot] = returned.attempts, returned.failures
        if self.dues is None:
            if not returned.due_ms:
                return
            self.dues = array("Q")
        missing = slot + 1 - len(self.dues)
        if missing > 0:
            self.dues.frombytes(bytes(8 * missing))
        self.dues[slot] = returned.due_ms

    @property
    def rest_until(self) -> int:
        """The latest that one of them is due, in milliseconds; 0: none of them ever rested."""
        return max(self.dues, default=0) if self.dues is not None else 0


def returned_of(record: MessageRecord) -> Returned:
    """Give what came of a message so far that the cleaner wrote again."""
    facts = record.facts
    if facts is None or not (record.rewritten and record.redelivery_count):
        return NEVER
    failures = 0 if facts.attributes is None else facts.attributes.failures
    attempts = min(record.redelivery_count, COUNT_MAX)
    return Returned(attempts, failures, facts.due_ms or 0)
