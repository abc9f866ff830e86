"""
A log that is copied, and where it is copied to: what differs between a directory and a medium.

The entries are the same bytes everywhere. A source is held while it is read, so that nobody serves
it meanwhile; a target is nobody's before it is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from holdfast.journal.entry import Entry
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan
from holdfast.model.limits import MiB

CHUNK_BYTES: Final = 8 * MiB
"""Of entries that are read and written at once, unless one alone is longer."""


class Source(Protocol):
    """A log that nobody serves while this is open."""

    place: str
    """Where it is, for people, without any password."""

    plan: CopyPlan
    """What a copy of it is."""

    def entries(self, after: int) -> list[Entry]:
        """
        Read what follows on entry `after`, at most a chunk; nothing behind the last one.

        Raises:
            StoreError: An entry is damaged or gone.
        """
        ...

    def keep(self, *, at_once: bool = False) -> None:
        """
        Hold it still; to be called at least every few seconds.

        Args:
            at_once: See that it is still held now, however lately that was seen.

        Raises:
            StoreError: Somebody else serves it by now: what was read is not all.
        """
        ...

    def close(self) -> None:
        """Let it go, as it was."""
        ...


class Target(Protocol):
    """Where the copy is made."""

    place: str
    is_whole: bool
    """Whether there is a log already that needs no more; set by `begin`."""

    def begin(self, plan: CopyPlan) -> Place:
        """
        Take the place for this copy; give how far one is that was broken off.

        Raises:
            StoreError: It is not empty, or in use.
        """
        ...

    def append(self, entries: list[Entry]) -> None:
        """
        Store what follows, durably.

        Raises:
            StoreError: It is full, cannot be written, or is not ours any more.
        """
        ...

    def entries(self, after: int) -> list[Entry]:
        """Read back what follows on entry `after`, at most a chunk, as it is stored."""
        ...

    def keep(self) -> None:
        """Hold it still."""
        ...

    def finish(self, last_look: Callable[[], None]) -> str:
        """
        Let it be a log from now on; how a broker is started on it.

        Args:
            last_look: Called just before that; if it raises, this is no log.
        """
        ...

    def close(self) -> None:
        """Let it go, finished or not."""
        ...
