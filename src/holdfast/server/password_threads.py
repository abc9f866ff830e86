"""
Two threads that look at passwords, so that the loop never does.

What they find is told on the loop. Python goes on meanwhile: argon2 gives its lock free.

Invariants:
    What was given out is told of, once, or the threads were closed before.
    Without a key no password is right, and it takes as long to say so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from holdfast.security.checking import Waiting
from holdfast.security.passwords import (
    NOBODYS,
    PEPPER_BYTES,
    SALT_BYTES,
    hash_password,
    is_password,
)

THREAD_COUNT: Final = 2


class Key(Protocol):
    """What passwords are hashed with."""

    @property
    def key(self) -> bytes | None:
        """What they are looked at with; None: there is none."""

    def need(self) -> bytes:
        """
        Give what a new one is hashed with.

        Raises:
            AccessError: There can be none.
        """


class PasswordThreads:
    """Looks at passwords, in the order in which they are given out."""

    __slots__ = ("_executor", "_pepper", "_post")

    def __init__(self, pepper: Key, post: Callable[[Callable[[], None]], object]) -> None:
        """Tell of everything by `post`, which may be called on any thread."""
        self._pepper = pepper
        self._post = post
        self._executor = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="holdfast-password")

    def look(self, waiting: Waiting, done: Callable[[Waiting, bool], None]) -> None:
        """Find out whether a password is right, and tell."""
        found = self._executor.submit(self._is_right, waiting.kept, waiting.secret)
        found.add_done_callback(partial(self._tell, waiting, done))

    def hash(self, password: str) -> Future[str]:
        """Work out what is kept of a new password; it may be one that there cannot be."""
        return self._executor.submit(self._hash, password)

    def _is_right(self, kept: str, secret: str) -> bool:
        key = self._pepper.key
        if key is None:
            is_password(NOBODYS, secret, pepper=bytes(PEPPER_BYTES))
            return False
        return is_password(kept, secret, pepper=key)

    def _hash(self, password: str) -> str:
        salt = secrets.token_bytes(SALT_BYTES)
        return hash_password(password, pepper=self._pepper.need(), salt=salt)

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
