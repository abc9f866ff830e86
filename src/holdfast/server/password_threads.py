"""
Threads that look at passwords, and ask who knows people, so that the loop never does.

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
from typing import Any, Final, Protocol

import structlog

from holdfast.errors import AuthenticationError
from holdfast.security.authority import Authority
from holdfast.security.checking import Outcome, Waiting
from holdfast.security.passwords import (
    NOBODYS,
    PEPPER_BYTES,
    SALT_BYTES,
    hash_password,
    is_password,
)

THREAD_COUNT: Final = 2

_log = structlog.get_logger("holdfast.server")


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

    __slots__ = ("_executor", "_of_authorities", "_pepper", "_post")

    def __init__(self, pepper: Key, post: Callable[[Callable[[], None]], object]) -> None:
        """Tell of everything by `post`, which may be called on any thread."""
        self._pepper = pepper
        self._post = post
        self._executor = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="holdfast-password")
        self._of_authorities: dict[str, ThreadPoolExecutor] = {}

    def look(self, waiting: Waiting, done: Callable[[Waiting, Outcome], None]) -> None:
        """Find out whether a password is right, or ask who knows, and tell."""
        found: Future[Any]
        if waiting.authority is None:
            found = self._executor.submit(self._is_right, waiting.kept, waiting.secret)
        else:
            executor = self._asking(waiting.authority)
            found = executor.submit(waiting.authority.look, waiting.name, waiting.secret)
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

    def _asking(self, authority: Authority) -> ThreadPoolExecutor:
        """Give an authority's own threads: one that hangs holds up nobody of the others."""
        executor = self._of_authorities.get(authority.label)
        if executor is None:
            executor = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="holdfast-authority")
            self._of_authorities[authority.label] = executor
        return executor

    def _tell(
        self, waiting: Waiting, done: Callable[[Waiting, Outcome], None], found: Future[Any]
    ) -> None:
        if found.cancelled():
            return
        error = found.exception()
        outcome: Outcome = False  # A mistake of ours lets nobody in, and so does nobody's word.
        if isinstance(error, AuthenticationError):
            outcome = error
        elif error is not None:
            # By its kind only: a trace may show what was shown.
            _log.error("login.failed", kind=type(error).__name__)
        elif found.result() is not None:
            outcome = found.result()
        self._post(partial(done, waiting, outcome))

    def close(self) -> None:
        """Look at nothing more; nobody is told of what was not begun."""
        for each in (self._executor, *self._of_authorities.values()):
            each.shutdown(wait=False, cancel_futures=True)
