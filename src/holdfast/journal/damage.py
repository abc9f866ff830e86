"""
What is known of entries that were stored and cannot be read.

Values and a list only: scanning and reading find damage, repair.py mends it.

Invariants:
    A damaged entry keeps its index and its place until its repair.
    What belongs to no entry (a segment's header, the bytes behind its last one) has index 0, is
    known by its place, and goes with its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.errors import CorruptEntryError
from holdfast.journal.segment import base_index_of

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

    __slots__ = ("_by_index", "_of_files", "_tell")

    def __init__(self, found: list[Damage], tell: Callable[[int], None]) -> None:
        """`tell` is called at once with every entry found damaged, whoever looked at it and why."""
        self._by_index = {it.index: it for it in found if it.index}
        self._of_files = sorted(
            (it for it in found if not it.index), key=lambda it: (it.segment, it.byte)
        )
        self._tell = tell

    def __contains__(self, index: int) -> bool:
        return index in self._by_index

    def find(self, index: int) -> Damage | None:
        """Give the damage of an entry, None if it is good as far as is known."""
        return self._by_index.get(index)

    def has_any(self, first: int, last: int) -> bool:
        """Tell whether any entry from the one to the other is damaged."""
        if last - first < len(self._by_index):
            return any(index in self._by_index for index in range(first, last + 1))
        return any(first <= index <= last for index in self._by_index)

    def sorted(self) -> list[Damage]:
        """Return all of it, oldest first; what belongs to no entry before the entries."""
        return [*self._of_files, *(self._by_index[index] for index in sorted(self._by_index))]

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
        self._of_files = [it for it in self._of_files if _base(it) <= index]

    def forget_before(self, index: int) -> None:
        """Forget what was dropped: all before this entry, which is the first of its file."""
        self._by_index = {key: it for key, it in self._by_index.items() if key >= index}
        self._of_files = [it for it in self._of_files if _base(it) >= index]


def _base(damage: Damage) -> int:
    return base_index_of(damage.segment) or 0
