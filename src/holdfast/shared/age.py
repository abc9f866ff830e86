"""
Whether a shared directory went back in time: an older copy of it may be in its place for a while.

What is durable only grows. So an older state is waited out first: what was there may come back.
Where it does not, a backup was brought back for good, and what this broker knows to be final
decides (`last-seen`). A beat that was seen before its sync, and went with a server's power, is
waited for as long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import UnreachableError

logger = logging.getLogger("holdfast.shared")

OLDER_SECONDS: Final = 15.0
"""So long a newer state is waited for."""


class Look(NamedTuple):
    """How far a log is."""

    epoch: int
    beat: int
    last: int
    """The index of an entry that it has."""


_NEVER: Final = Look(0, 0, 0)


class Age:
    """What one process has seen of one log."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        """Nothing was seen yet; `clock` is of this machine."""
        self._root = root
        self._clock = clock
        self._newest = _NEVER
        self._older_since: float | None = None

    def saw(self, look: Look) -> None:
        """Note what is durable there."""
        self._newest = max(self._newest, look)
        self._older_since = None

    def require_none_older(self, look: Look) -> None:
        """
        See that the log is no older than it was; the index is of the last entry it has.

        Raises:
            UnreachableError: It is older; told for so long.
        """
        if look >= self._newest:
            self._older_since = None
            return
        now = self._clock()
        if self._older_since is None:
            self._older_since = now
        known = self._newest
        told = (
            f"{self._root} went back in time: it is at epoch {look.epoch:,}, beat {look.beat:,},"
            f" entry {look.last:,}, and was at epoch {known.epoch:,}, beat {known.beat:,},"
            f" entry {known.last:,}"
        )
        if now < self._older_since + OLDER_SECONDS:
            raise UnreachableError(f"{told}; the newer state is waited for")
        logger.warning("%s; the newer one has not come back: what is in the log decides", told)
        self._newest, self._older_since = _NEVER, None
