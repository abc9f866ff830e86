"""
Threads that look at passwords, and ask who knows people, so that the loop never does.

What they find is told on the loop. Python goes on meanwhile: argon2 gives its lock free.

Invariants:
    What was given out is told of, once, or the threads were closed before.
    Without a key no password is right, and it takes as long to say so.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import structlog

from holdfast.errors import AuthenticationError
from holdfast.security.checking import BUSY, Outcome, Waiting
from holdfast.security.line import Line
from holdfast.security.passwords import (
    NOBODYS,
    PEPPER_BYTES,
    SALT_BYTES,
    KeptPassword,
    hash_password,
    is_password,
)
from holdfast.security.scram_keys import NONCE_BYTES, keep_keys

THREAD_COUNT: Final = 2
"""For each kind of look."""

_NICENESS: Final = 10

_log = structlog.get_logger("holdfast.server")


class Key(Protocol):
    """What passwords are hashed with."""

    @property
    def keys(self) -> tuple[bytes, ...]:
        """What they are looked at with, each by each; there may be none."""

    def need(self) -> bytes:
        """
        Give what a new one is hashed with.

        Raises:
            AccessError: There can be none.
        """


class _Look(NamedTuple):
    waiting: Waiting
    reason_to_skip: Callable[[Waiting], str]
    done: Callable[[Waiting, Outcome], None]


class _Kind:
    """What is looked at in one way: threads of its own, and a line; one that hangs stands alone."""

    def __init__(self) -> None:
        self.line: Line[_Look] = Line()
        self.free_count = THREAD_COUNT
        self.executor = ThreadPoolExecutor(
            THREAD_COUNT, thread_name_prefix="holdfast-login", initializer=_be_nice
        )


class PasswordThreads:
    """Looks at what is shown; each kind of look in turn for each network. Owned by the loop."""

    __slots__ = ("_hashing", "_keeps_scram", "_kinds", "_pepper", "_post")

    def __init__(
        self,
        pepper: Key,
        post: Callable[[Callable[[], None]], object],
        *,
        keeps_scram: bool = False,
    ) -> None:
        """
        Tell of everything by `post`, which may be called on any thread.

        Of new passwords there are keys for SCRAM, too, where it `keeps_scram`.
        """
        self._pepper = pepper
        self._keeps_scram = keeps_scram
        self._post = post
        self._kinds: dict[str, _Kind] = {}
        """By who vouches; empty: the log."""
        self._hashing = ThreadPoolExecutor(
            1, thread_name_prefix="holdfast-password", initializer=_be_nice
        )

    def look(
        self,
        waiting: Waiting,
        reason_to_skip: Callable[[Waiting], str],
        done: Callable[[Waiting, Outcome], None],
    ) -> None:
        """
        Find out whether a password is right, or ask who knows, and tell.

        It stands in line for that. When its turn comes it is passed over where there is a reason,
        and where the line is too long somebody is told so; `done` hears of that, too, later.
        """
        label = "" if waiting.authority is None else waiting.authority.label
        kind = self._kinds.get(label)
        if kind is None:
            kind = self._kinds[label] = _Kind()
        dropped = kind.line.add(
            waiting.address,
            _Look(waiting, reason_to_skip, done),
            is_regular=waiting.is_regular,
        )
        if dropped is not None:
            self._post(partial(dropped.done, dropped.waiting, AuthenticationError(BUSY)))
        self._go_on(kind)

    def _go_on(self, kind: _Kind) -> None:
        """Give out what is next while there is somebody to do it."""
        while kind.free_count and (look := kind.line.take()) is not None:
            reason = look.reason_to_skip(look.waiting)
            if reason:
                self._post(partial(look.done, look.waiting, AuthenticationError(reason)))
                continue
            kind.free_count -= 1
            waiting = look.waiting
            found: Future[Any]
            if waiting.authority is None:
                found = kind.executor.submit(self._is_right, waiting.kept, waiting.secret)
            else:
                found = kind.executor.submit(waiting.authority.look, waiting.name, waiting.secret)
            found.add_done_callback(partial(self._found, kind, look))

    def keep(self, name: str, password: str) -> Future[KeptPassword]:
        """Work out what is kept of a user's new password; it may be one that there cannot be."""
        return self._hashing.submit(self._keep, name, password)

    def _is_right(self, kept: str, secret: str) -> bool:
        keys = self._pepper.keys
        if not keys:
            is_password(NOBODYS, secret, pepper=bytes(PEPPER_BYTES))
            return False
        # A wrong one takes as long whoever it is said to be of.
        return any(is_password(kept, secret, pepper=key) for key in keys)

    def _keep(self, name: str, password: str) -> KeptPassword:
        pepper = self._pepper.need()
        kept = hash_password(password, pepper=pepper, salt=secrets.token_bytes(SALT_BYTES))
        if not self._keeps_scram:
            return KeptPassword(kept)
        nonce = secrets.token_bytes(NONCE_BYTES)
        return KeptPassword(kept, keep_keys(name, password, kept, pepper=pepper, nonce=nonce))

    def _found(self, kind: _Kind, look: _Look, found: Future[Any]) -> None:
        """On a thread of the kind's: have it told on the loop, and the next one looked at."""
        if not found.cancelled():
            self._post(partial(self._tell, kind, look, _outcome_of(found)))

    def _tell(self, kind: _Kind, look: _Look, outcome: Outcome) -> None:
        kind.free_count += 1
        self._go_on(kind)
        look.done(look.waiting, outcome)

    def close(self) -> None:
        """Look at nothing more; nobody is told of what was not begun."""
        for each in (self._hashing, *(it.executor for it in self._kinds.values())):
            each.shutdown(wait=False, cancel_futures=True)


def _outcome_of(found: Future[Any]) -> Outcome:
    error = found.exception()
    if isinstance(error, AuthenticationError):
        return error
    if error is not None:
        # By its kind only: a trace may show what was shown. A mistake of ours lets nobody in.
        _log.error("login.failed", kind=type(error).__name__)
        return False
    outcome: Outcome | None = found.result()
    return False if outcome is None else outcome


def _be_nice() -> None:
    """Leave the processor to the loop: an election waits for it, and a login may wait."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
