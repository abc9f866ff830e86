"""
Room on a share that is kept for whoever takes the lease: files that a taker removes.

Taking the lease makes a claim, a beat and a segment. On a file system that others have filled to
its end nobody could, and so nobody could acknowledge anything, which makes room. A taker that finds
no room removes one of these files after the other, and goes on where it stood. There are several,
so that several takes go well before there is room again.

Invariants:
    What these files hold means nothing, and whether they are there says nothing of the log.
    It is no run of zeros, which a copy (rsync -S, a backup) or the file system itself may leave
    out: such a file has its size and no room. One that was left so is written anew.
    Only who holds the lease makes them, and only while there is room for more than them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from holdfast.environment.disk import DiskFile, NoRoomError, is_no_room
from holdfast.environment.shared_disk import SharedDisk
from holdfast.model.limits import KiB
from holdfast.shared.places import Places

_BESIDE_BYTES: Final = 32 * KiB
"""A claim, a beat, a page of `current`, and what directories grow by."""
_END_BYTES: Final = 64

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
            filling = self._filling(number)
            if self._is_filled(file, filling):
                return False
            file.write(filling, 0)
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
            return self._is_filled(file, self._filling(number))
        finally:
            file.close()

    def _filling(self, number: int) -> bytes:
        """What no two files have in common, and nothing makes smaller."""
        return hashlib.shake_256(b"holdfast reserve %d" % number).digest(self._file_bytes)

    def _is_filled(self, file: DiskFile, filling: bytes) -> bool:
        """Whether it was written to its end."""
        if file.size() < self._file_bytes:
            return False
        end = self._file_bytes - _END_BYTES
        return file.read(_END_BYTES, end) == filling[end:]

    def _give_up_one(self, left: list[int]) -> bool:
        while left:
            path = self._places.reserve(left.pop())
            if self._disk.exists(path):
                self._disk.unlink(path)
                # Some file systems give the room back only once that is durable.
                self._disk.sync_directory(self._places.root)
                return True
        return False
