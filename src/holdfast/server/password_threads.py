"""
Two threads that look at passwords, so that the loop never does.

What they find is told on the loop. Python goes on meanwhile: argon2 gives its lock free.

Invariants:
    What was given out is told of, once, or the threads were closed before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from holdfast.security.checking import Waiting
from holdfast.security.passwords import is_password

THREAD_COUNT: Final = 2


class PasswordThreads:
    """Looks at passwords, in the order in which they are given out."""

    __slots__ = ("_executor", "_pepper", "_post")

    def __init__(self, pepper: bytes, post: Callable[[Callable[[], None]], object]) -> None:
        """Tell of everything by `post`, which may be called on any thread."""
        self._pepper = pepper
        self._post = post
        self._executor = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="holdfast-password")

    def look(self, waiting: Waiting, done: Callable[[Waiting, bool], None]) -> None:
        """Find out whether a password is right, and tell."""
        found = self._executor.submit(
            is_password, waiting.kept, waiting.secret, pepper=self._pepper
        )
        found.add_done_callback(partial(self._tell, waiting, done))

    def _tell(
        self, waiting: Waiting, done: Callable[[Waiting, bool], None], found: Future[bool]
    ) -> None:
        if not found.cancelled():
            # A mistake of ours lets nobody in.
            is_right = found.exception() is None and found.result()
            self._post(partial(done, waiting, is_right))

    def close(self) -> None:
        """Look at nothing more; nobody is told of what was not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
