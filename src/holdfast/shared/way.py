"""
The way to a shared directory: each call is made in the log that was opened, in one directory.

A path leads to what is mounted there, or has that name, at that moment. That may be nothing,
another log, or another directory with the same log: the same one mounted anew, or a copy. Each call
is made within the one that the path leads to when it begins; another one may be in its place before
it ends, and then what was asked is of one of them and never of both.

Invariants:
    Nothing is read or made in another log.
    Of what was read in another directory nothing is believed any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from holdfast.environment.shared_disk import FileId, SharedDisk
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

    def note_away(self) -> None:
        """Something was not as it should be: look what is there before the next call."""
        self._was_away = True

    def make(self, call: Callable[[], Result]) -> Result:
        """
        Make a call in the log that was opened; before that, wherever the path leads.

        Raises:
            UnreachableError: Another log is there, or something else.
            OSError: It cannot be reached.
        """
        if not self._identity:
            return call()
        with self._disk.within(self._places.root) as found:
            if self._was_away or found != self._root:
                self._see_again(found)
            return call()

    def look(self) -> None:
        """See that the log is there; raises as `make` does."""
        self.make(lambda: None)

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
