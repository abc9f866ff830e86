"""
File descriptors: how many this process may have, and some set aside for files.

Sockets and files share one limit. Whoever opens sockets must not be able to keep the log from
opening its next file, so ports are bounded below the limit, and a few descriptors are held back
here: when the system has none left, one of these is given up for the file.

Where that does not help either, a thread that is not the loop's waits, for a bounded time: nothing
is claimed meanwhile, and a file that could not be opened is not a disk that failed.

Safe to use from any thread.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

WAIT_SECONDS_MAX: Final = 60.0
"""How long a thread waits for a descriptor before it gives up."""

_PAUSE_SECONDS: Final = 0.05
_UNLIMITED: Final = 1 << 20

logger = logging.getLogger("holdfast.environment")


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether a file was not opened because this process or the system has too many open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def raise_limit() -> int:
    """Raise the limit of open files as far as this process may; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a sandbox that forbids it
            return soft
        return wanted
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class DescriptorReserve:
    """Descriptors held back for files."""

    __slots__ = ("_held", "_is_told", "_lock", "_pause", "_wanted")

    def __init__(self, pause: Callable[[float], object] | None = None) -> None:
        """Hold nothing yet; `pause` waits for some seconds."""
        self._held: list[int] = []
        self._wanted = 0
        self._is_told = False
        self._lock = threading.Lock()
        self._pause = pause or threading.Event().wait

    @property
    def held_count(self) -> int:
        """How many are held back now."""
        return len(self._held)

    def hold(self, count: int) -> None:
        """Hold back so many from now on; 0 gives all up."""
        self._wanted = count
        self.refill()
        with self._lock:
            while len(self._held) > count:
                os.close(self._held.pop())

    def refill(self) -> None:
        """Take back what was given up, as far as there are any."""
        if len(self._held) >= self._wanted:
            return
        with self._lock:
            try:
                while len(self._held) < self._wanted:
                    self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise

    def open(
        self, path: Path | str, flags: int, mode: int = 0o640, *, within: int | None = None
    ) -> int:
        """
        Open a file, at the cost of the reserve if need be.

        A path that is relative goes from the directory `within`, if that is given.

        On the main thread, the loop's, this never waits; on any other for WAIT_SECONDS_MAX.

        Raises:
            OSError: As `os.open`.
        """
        waited = 0.0
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=within)
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                self._tell(error)
                if self._give_one_up():
                    continue
                is_loop = threading.current_thread() is threading.main_thread()
                if is_loop or waited >= WAIT_SECONDS_MAX:
                    raise
            self._pause(_PAUSE_SECONDS)
            waited += _PAUSE_SECONDS

    def close(self, descriptor: int) -> None:
        """Close a file; what it took from the reserve goes back there."""
        os.close(descriptor)
        if len(self._held) < self._wanted:
            self.refill()

    def _give_one_up(self) -> bool:
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            return True

    def _tell(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            logger.warning("no file descriptor is left, one set aside is used: %s", error)


RESERVE: Final = DescriptorReserve()
"""The one of this process; it holds nothing until a node starts."""
