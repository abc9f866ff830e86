"""
Many at once, or one alone: who writes to all mirrors, and who copies a piece to one of them.

What is copied must not change between its reading and its writing. So whoever copies a piece is
alone; whoever writes shares the gate with all others that do.

Safe to use from any thread; nobody may enter twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Held shared or alone."""

    __slots__ = ("_changed", "_inside", "_is_taken")

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_taken = False

    def enter(self) -> None:
        """Come in beside others; waits while somebody is alone."""
        with self._changed:
            while self._is_taken:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        """Go out again."""
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody is inside, and keep all others out."""
        with self._changed:
            while self._is_taken:
                self._changed.wait()
            self._is_taken = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()
