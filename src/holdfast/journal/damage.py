"""
What is known of entries that were stored and cannot be read.

Values and a list only: scanning and reading find damage, repair.py mends it.

Invariants:
    A damaged entry keeps its index and its place until its repair.
"""

from __future__ import annotations

from collections.abc import Callable
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


class DamageList:
    """The damage of one log that is known and not repaired. Owned by the loop thread."""

    __slots__ = ("_by_index", "_tell")

    def __init__(self, found: list[Damage], tell: Callable[[int], None]) -> None:
        """`tell` is called at once with every entry found damaged, whoever looked at it and why."""
        self._by_index = {it.index: it for it in found}
        self._tell = tell

    def __contains__(self, index: int) -> bool:
        return index in self._by_index

    def find(self, index: int) -> Damage | None:
        """Give the damage of an entry, None if it is good as far as is known."""
        return self._by_index.get(index)

    def sorted(self) -> list[Damage]:
        """Return all of it, oldest first. `index` 0 is a segment's header."""
        return [self._by_index[index] for index in sorted(self._by_index)]

    def report(self, damage: Damage) -> None:
        """Note damage, and tell of it; what was known of that entry before stands."""
        self._by_index.setdefault(damage.index, damage)
        self._tell(damage.index)

    def forget(self, index: int) -> None:
        """Take an entry out that is good again, if it is here."""
        self._by_index.pop(index, None)

    def forget_after(self, index: int) -> None:
        """Forget what was cut."""
        self._by_index = {key: it for key, it in self._by_index.items() if key <= index}

    def forget_before(self, index: int) -> None:
        """Forget what was dropped."""
        self._by_index = {key: it for key, it in self._by_index.items() if key >= index}
