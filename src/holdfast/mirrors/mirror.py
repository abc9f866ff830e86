"""
One mirror: a directory, the disk that it is on, and what has become of it.

Values and paths only; who may be written to, and when, is decided in `disk`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk
from holdfast.mirrors.mirror_set import MirrorState
from holdfast.mirrors.set_file import FILE_NAME

LOCK_NAME: Final = "lock"
OWN_NAMES: Final = frozenset({LOCK_NAME, FILE_NAME, "admin-token", "admin-token.tmp"})
"""Files of a data directory that are no copies: each mirror has its own, or only one has it."""


@dataclass(eq=False, slots=True)
class Mirror:
    """One of the directories that hold the same."""

    member: str
    directory: Path
    disk: Disk
    base: Path
    """The directory by which files are named; those of this mirror stand in its own."""

    state: MirrorState = "active"
    reason: str = ""
    """Why it is failed."""

    is_under_way: Callable[[], bool] = lambda: False
    """Whether something that was given up at the start is still being done there."""

    sequence: int = 0
    """Of what stands in its set file."""

    have: set[Path] = field(default_factory=set)
    """While it is joining: the files that it has, or is being given; all else is left out."""

    bytes_filled: int = 0
    bytes_to_fill: int = 0

    @property
    def is_active(self) -> bool:
        """It has all that was confirmed."""
        return self.state == "active"

    def here(self, path: Path) -> Path:
        """Where a file of the data directory stands on this mirror."""
        if self.directory == self.base:
            return path
        return self.directory / path.relative_to(self.base)

    def takes(self, path: Path) -> bool:
        """Whether what happens to this file happens here."""
        return self.state == "active" or path in self.have


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorView:
    """What there is to say of one mirror, for people and programs."""

    directory: str
    member: str
    state: MirrorState
    reason: str = ""
    bytes_filled: int = 0
    bytes_to_fill: int = 0
