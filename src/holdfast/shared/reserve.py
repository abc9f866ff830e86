"""
Room on a share that is kept for whoever takes the lease: files of zeros, which a taker removes.

Taking the lease makes a claim, a beat and a segment. On a file system that others have filled to
its end nobody could, and so nobody could acknowledge anything, which makes room. A taker that finds
no room removes one of these files after the other, and goes on where it stood. There are several,
so that several takes go well before there is room again.

Invariants:
    What these files hold means nothing, and whether they are there says nothing of the log.
    Only who holds the lease makes them, and only while there is room for more than them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from holdfast.environment.disk import NoRoomError, fill_zeros, is_no_room
from holdfast.environment.shared_disk import SharedDisk
from holdfast.model.limits import KiB
from holdfast.shared.places import Places

_BESIDE_BYTES: Final = 32 * KiB
"""A claim, a beat, a page of `current`, and what directories grow by."""

Result = TypeVar("Result")


class Reserve:
    """The reserve of one share, as one process makes and uses it."""

    def __init__(self, disk: SharedDisk, places: Places, count: int, segment_bytes: int) -> None:
        """Take where it is, and for how many takes it is, each with a segment of such a size."""
        self._disk = disk
        self._places = places
        self._count = count
        self._file_bytes = segment_bytes + _BESIDE_BYTES
        self._missing: list[int] = []

    def note_taken(self) -> None:
        """The lease was just taken: what is missing is to be found out by us."""
        self._missing = list(range(self._count))

    def make_one(self) -> None:
        """Make one of what may be missing, durably; tried again with the next call if it fails."""
        with suppress(OSError):
            while self._missing:
                is_new = self._make(self._missing[-1])
                self._missing.pop()
                if is_new:
                    return

    def takes_left(self) -> int:
        """
        Count the takes for which room is kept.

        Raises:
            OSError: It could not be seen.
        """
        return sum(self._is_whole(it) for it in range(self._count))

    def use_for(self, call: Callable[[], Result]) -> Result:
        """
        Do what a take needs; where it has no room for that, make some, and do the same again.

        Raises:
            NoRoomError: There is none, and nothing is left to make any with.
        """
        left = list(range(self._count))
        while True:
            try:
                return call()
            except OSError as error:
                # A server may say it with the sync only: of what nobody reads yet it is the same.
                if not is_no_room(error):
                    raise
                if not self._give_up_one(left):
                    raise NoRoomError(error.errno, error.strerror) from error

    def _make(self, number: int) -> bool:
        """Whether it was not there as a whole."""
        file = self._disk.open(self._places.reserve(number), create=True)
        try:
            size = file.size()
            if size >= self._file_bytes:
                return False
            fill_zeros(file, size, self._file_bytes)
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self._places.root)
        return True

    def _is_whole(self, number: int) -> bool:
        try:
            file = self._disk.open(self._places.reserve(number), writable=False)
        except FileNotFoundError:
            return False
        try:
            return file.size() >= self._file_bytes
        finally:
            file.close()

    def _give_up_one(self, left: list[int]) -> bool:
        while left:
            path = self._places.reserve(left.pop())
            if self._disk.exists(path):
                self._disk.unlink(path)
                # Some file systems give the room back only once that is durable.
                self._disk.sync_directory(self._places.root)
                return True
        return False
