"""
The log of a shared directory as a simulated process has it: `SharedLog` without its thread.

Each call goes by the `Way`, within one directory, and waits for the disk for as long as that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.environment.disk import NoRoomError
from holdfast.errors import UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, Outcome
from holdfast.shared.directory_log import DirectoryLog
from holdfast.shared.places import Places
from holdfast.shared.settings import SharedSettings
from holdfast.shared.way import Way
from trials.simulation.simulated_share import ShareClient

Result = TypeVar("Result")


class LogByWay:
    """Each method is that of the contract (`LeasedLog`), without a bound of time."""

    def __init__(
        self,
        client: ShareClient,
        places: Places,
        settings: SharedSettings,
        *,
        clock: Callable[[], float],
        draw: Callable[[int], bytes],
    ) -> None:
        """Take what a `DirectoryLog` takes."""
        self._log = DirectoryLog(client, places, settings, monotonic=clock, draw=draw)
        forget = self._log.look_anew
        self._way = Way(client, places, judge=lambda: None, forget=forget)

    def open(self) -> Holding:
        """Find what the directory is, or lay it out."""
        return self._make(self._open)

    def _open(self) -> Holding:
        holding = self._log.open()
        self._way.note_opened(self._log.identity)
        return holding

    def observe(self) -> Holding:
        """Read the lease as it is now."""
        return self._make(self._log.observe)

    def take(self, seen: Holding, claimant: Claimant) -> Holding | None:
        """Begin the epoch after the one `seen`."""
        return self._make(lambda: self._log.take(seen, claimant))

    def append(self, entries: list[Entry]) -> Outcome:
        """Store these entries, all or none."""
        return self._make(lambda: self._log.append(entries))

    def renew(self) -> Outcome:
        """Give a sign of life."""
        return self._make(self._log.renew)

    def release(self) -> None:
        """Give the lease back if it is still ours."""
        self._make(self._log.release)

    def entries(self, after: int, through: int, bytes_max: int) -> list[Entry]:
        """Read entries in order from the one after `after`."""
        return self._make(lambda: self._log.entries(after, through, bytes_max))

    def drop_before(self, index: int) -> bool:
        """Forget entries before this one, some segments at a time."""
        return self._make(lambda: self._log.drop_before(index))

    def _make(self, call: Callable[[], Result]) -> Result:
        """Let want of room be told from what else may pass, which the way says in words only."""
        try:
            return self._way.make(call)
        except UnreachableError as error:
            if isinstance(error.__cause__, NoRoomError):
                raise error.__cause__ from error
            raise

    @property
    def low_room(self) -> str:
        """Why nothing more is to be published; or nothing."""
        return self._log.low_room
