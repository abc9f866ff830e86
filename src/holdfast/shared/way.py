"""
The way to a shared directory: each call is made in the log that was opened, in one directory.

A path leads to what is mounted there, or has that name, at that moment. That may be nothing,
another log, or another directory with the same log: the same one mounted anew, or a copy. Each call
is made within the one that the path leads to when it begins; another one may be in its place before
it ends, and then what was asked is of one of them and never of both.

What the system says of a file is told here as what it means. Hardly anything that is missing is so
for good: a share that is away for a moment is missed by one call and there for the next.

Invariants:
    Nothing is read or made in another log.
    It is final only where what was laid out with the directory is missing in one that was there
    when it was missed, and is there still.
    Of what was read in another directory nothing is believed any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from holdfast.environment.disk import FileId, NoRoomError
from holdfast.environment.shared_disk import SharedDisk
from holdfast.errors import StoreError, UnreachableError
from holdfast.shared.places import Places
from holdfast.shared.store_file import read_identity

logger = logging.getLogger("holdfast.shared")

Result = TypeVar("Result")


class Way:
    """What one process knows of where its path leads to."""

    def __init__(
        self,
        disk: SharedDisk,
        places: Places,
        *,
        judge: Callable[[], None],
        forget: Callable[[], None],
    ) -> None:
        """
        Take the path.

        Args:
            judge: Raises StoreError where the directory is unsafe.
            forget: Called where another directory of this log is in the place of the last one.
        """
        self._disk = disk
        self._places = places
        self._judge = judge
        self._forget = forget
        self._identity = ""
        self._root: FileId = (0, 0)
        self._was_away = False

    def note_opened(self, identity: str) -> None:
        """
        This log is there now.

        Raises:
            OSError: Nothing is.
        """
        with self._disk.within(self._places.root) as found:
            self._identity, self._root = identity, found

    def make(self, call: Callable[[], Result]) -> Result:
        """
        Make a call in the log that was opened; before that, wherever the path leads.

        Raises:
            UnreachableError: Another log is there, or something else, or nothing; or it could not
                be asked.
            StoreError: A part of it is missing for good; or what the call raises.
        """
        root = self._places.root
        try:
            if not self._identity:
                return call()
            with self._disk.within(root) as found:
                if self._was_away or found != self._root:
                    self._see_again(found)
                return call()
        except FileNotFoundError as error:
            raise self._of_missing(error) from error
        except NoRoomError as error:
            raise UnreachableError(f"{root} has no room (make some): {error.strerror}") from error
        except OSError as error:
            advice = "see whether it is mounted, and whether this user may read and write it"
            raise UnreachableError(
                f"{root} cannot be reached: {error.strerror}; {advice}"
            ) from error

    def _of_missing(self, error: FileNotFoundError) -> StoreError:
        self._was_away = True
        root = self._places.root
        path = root if error.filename is None else Path(error.filename)
        is_gone = False
        with suppress(OSError, StoreError):  # What cannot be looked at may be there in a moment.
            is_gone = self._is_gone(path)
        if not is_gone:
            return UnreachableError(
                f"{path} is not there: see whether {root} is mounted; it is tried again"
            )
        return StoreError(
            f"{path} is gone, and the rest of {root} is there: somebody removed it. Stop all"
            f" brokers, and get the whole directory back from the newest copy there is: one file of"
            f" an older copy would let an earlier holder confirm again, and lose what came after"
        )

    def _is_gone(self, path: Path) -> bool:
        """Whether this part of the log is missing in the directory that was there, and still is."""
        places = self._places
        # All else may be named and not be seen yet, or be dropped by who then held the lease.
        if path not in (places.current, places.lease, places.journal, places.brokers):
            return False
        with self._disk.within(places.root) as found:
            identity = read_identity(self._disk, places)
            is_same = not self._identity or (found, identity) == (self._root, self._identity)
            return is_same and not self._disk.exists(path)

    def _see_again(self, found: FileId) -> None:
        """See that what has come back, or is in its place, is the same log."""
        root = self._places.root
        self._was_away = True
        try:
            identity = read_identity(self._disk, self._places)
            if identity == self._identity:
                self._judge()
        except StoreError as error:
            raise UnreachableError(f"{root} has what cannot be used now: {error}") from error
        if identity != self._identity:
            raise UnreachableError(
                f"{root} has another log now ({identity}) than the one that was opened"
                f" ({self._identity}): see what is mounted there; it is tried again"
            )
        if found != self._root:
            logger.warning(
                "%s leads to another directory than before, with the same log: it was mounted anew,"
                " or is a copy; whether it is older than what was there is looked at",
                root,
            )
            self._forget()
        self._was_away, self._root = False, found
