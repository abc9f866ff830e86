"""
Threads that wait for the loop's thread, where signals may come.

What the standard library waits by (conditions, semaphores, events) is written in Python. An
exception from a signal handler between two lines of it leaves its lock taken, on which the loop's
thread would then wait for ever. Here each wait is for a plain lock that is nobody else's, and
whoever wakes never waits.

Invariants:
    A lock is released at most once, by whoever took it out of the list.
    A wait begins by being on the list, then looks once more: no wake is lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from holdfast.client.interruptible import acquire


class ThreadWaiters:
    """Threads that wait for one condition, which only rises between two calls of `wake`."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[threading.Lock] = []

    def wait(self, is_met: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until the condition is met or somebody wakes; gives whether it is met then."""
        if is_met():
            return True
        if seconds is not None and seconds <= 0:
            return False
        lock = threading.Lock()
        lock.acquire()
        self._waiting.append(lock)
        if is_met():
            return True
        if not acquire(lock, seconds):
            with contextlib.suppress(ValueError):
                self._waiting.remove(lock)
        return is_met()

    def wake(self) -> None:
        """Wake everybody; each looks for itself."""
        while self._waiting:
            with contextlib.suppress(IndexError):
                self._waiting.pop().release()


class ThreadEvent:
    """`threading.Event` by the same means."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters = ThreadWaiters()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake everybody, and let nobody wait from now on."""
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        """Let whoever comes wait again."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; gives whether it is."""
        return self._waiters.wait(self.is_set, timeout)
