"""
A log as a scan found it: where everything is, what is wrong, and how it ends.

Values only: a scan fills them, recovery mends the files by them, and the journal begins with them.
Owned by whoever asked for the scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from holdfast.journal.damage import Damage
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.journal.segment import Segment

TailState = Literal["clean", "torn", "unknown"]

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) after every segment."""


@dataclass(slots=True)
class Tail:
    """
    What stands behind the last good entry.

    `start` and `end` bound the bytes in the last segment. `through` is the highest index this
    node may have stored, where the state is unknown. `term` is its term, or else the highest that
    anything lost here can have had (0: not known).
    """

    state: TailState = "clean"
    start: int = 0
    end: int = 0
    through: int = 0
    term: int = 0
    reason: str = ""
    kept: Path | None = None


@dataclass(slots=True)
class LogScan:
    """The log as it was found: where every entry is, and everything that is wrong."""

    segments: list[Segment] = field(default_factory=list)
    term_starts: list[int] = field(default_factory=list)
    term_values: list[int] = field(default_factory=list)
    last_index: int = 0
    last_term: int = 0
    last_chain: bytes = FIRST_CHAIN
    next_record: int = 1
    last_timestamp: int = 0
    damage: list[Damage] = field(default_factory=list)
    headers_worked_out: list[Segment] = field(default_factory=list)
    stray_bytes: list[tuple[Segment, int]] = field(default_factory=list)
    tail: Tail = field(default_factory=Tail)
    bytes_read: int = 0
    left_over: list[Path] = field(default_factory=list)
    """Files that were to be removed, oldest first; no part of the log any more."""

    def note_term(self, index: int, term: int) -> None:
        """Note that entry `index` has this term."""
        if self.term_starts and self.term_starts[-1] == index:
            self.term_values[-1] = self.last_term = term
        elif term != self.last_term or not self.term_starts:
            self.term_starts.append(index)
            self.term_values.append(term)
            self.last_term = term
