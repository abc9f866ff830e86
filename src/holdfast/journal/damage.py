"""
What is known of entries that were stored and cannot be read.

Values and a list only: scanning and reading find damage, repair.py mends it.

Invariants:
    A damaged entry keeps its index and its place until its repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import CorruptEntryError

MISSING: Final = "the entry is missing"
"""Nothing is left of it; where it ended is known only when its copy comes."""

MISSING_FILE: Final = "the entry is missing, perhaps with a whole segment file"
"""The same, and nothing shows that it ever stood here."""


@dataclass(frozen=True, slots=True)
class Damage:
    """An entry that was stored and cannot be read, and where it is."""

    segment: str
    byte: int
    index: int
    reason: str

    def __str__(self) -> str:
        return f"segment {self.segment} byte {self.byte:,} (entry {self.index:,}): {self.reason}"

    def error(self) -> CorruptEntryError:
        """Return this as an error to raise."""
        return CorruptEntryError(
            self.reason, segment=self.segment, byte=self.byte, index=self.index
        )
