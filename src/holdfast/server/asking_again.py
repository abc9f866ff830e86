"""
Asks who vouches for those who are connected whether all of it is still so.

A directory tells nobody when somebody leaves it, or a group. So it is asked of each person who is
connected, once in a while, without his password, on a thread of its own. What it says by then is
taken as a change of the log would be: the clients whom it concerns are judged again. As soon as one
answer is there the next one is asked of, so that a round takes as long as the directory does.

Invariants:
    A person is asked of once at a time, however many clients he has.
    Who cannot be asked of stays as he is, and is asked of again.

Owned by the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import structlog

from holdfast.errors import AuthenticationError
from holdfast.security.authority import AskedAgain, Vouched
from holdfast.security.checking import Checking
from holdfast.security.principal import Principal

LOOK_SECONDS: Final = 1.0
"""Between two looks at who is connected."""
AT_ONCE_MAX: Final = 4
"""So many wait for the thread at a time; a directory is asked of one after the other."""
LATE_SECONDS: Final = 60.0
"""That a directory does not keep up is told so often."""

_log = structlog.get_logger("holdfast.server")


class Present(Protocol):
    """Where clients are."""

    def principals(self) -> Iterable[Principal]:
        """Who is connected, each client's."""


class _Met(NamedTuple):
    """Somebody who was connected at the last look."""

    called: str
    roles: set[frozenset[str]]
    """What his clients may; different ones where some came in between two answers."""


class AskingAgain:
    """Asks about those who are connected."""

    def __init__(
        self,
        authorities: Sequence[AskedAgain],
        present: Present,
        checking: Checking,
        *,
        clock: Callable[[], float],
        concern: Callable[[str], None],
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        """
        Ask these about the clients there are.

        Args:
            authorities: Who can be asked again.
            present: Who is connected.
            checking: Is told what they say.
            clock: By which it is time.
            concern: Has the clients of a name judged again.
            post: Has something done on the loop, from any thread.
        """
        self._authorities = {each.label: each for each in authorities}
        self._present = present
        self._checking = checking
        self._clock = clock
        self._concern = concern
        self._post = post
        self._due: dict[tuple[str, str], float] = {}
        """When each is asked of next, by who vouches and his name."""
        self._met: dict[tuple[str, str], _Met] = {}
        self._waiting: deque[tuple[str, str]] = deque()
        """Whose time has come, the longest waiting first."""
        self._asked: set[tuple[str, str]] = set()
        self._told_late_at = float("-inf")
        self._is_closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="holdfast-again")

    def look(self) -> None:
        """Ask about those whose time has come."""
        now = self._clock()
        self._met = self._present_now()
        self._checking.forget_said(self._met)
        self._due = {
            each: self._due.get(each, now + self._authorities[each[0]].again_seconds)
            for each in self._met
        }
        late = sorted(
            (it for it, due in self._due.items() if due <= now and it not in self._asked),
            key=self._due.__getitem__,
        )
        self._waiting = deque(late)
        if late:
            self._note_late(late[0], now)
        self._go_on()

    def close(self) -> None:
        """Ask nobody any more."""
        self._is_closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _present_now(self) -> dict[tuple[str, str], _Met]:
        met: dict[tuple[str, str], _Met] = {}
        for each in self._present.principals():
            if each.authority in self._authorities:
                who = (each.authority, each.name)
                met.setdefault(who, _Met(each.called, set())).roles.add(each.roles)
        return met

    def _note_late(self, who: tuple[str, str], now: float) -> None:
        """Say, once in a while, that a right that was taken back goes on for longer than told."""
        label, late_by = who[0], now - self._due[who]
        if late_by < self._authorities[label].again_seconds:
            return
        if now - self._told_late_at >= LATE_SECONDS:
            self._told_late_at = now
            _log.warning(
                "login.asked_again_late",
                authority=label,
                late_seconds=round(late_by),
                waiting=len(self._waiting),
            )

    def _go_on(self) -> None:
        while self._waiting and len(self._asked) < AT_ONCE_MAX and not self._is_closed:
            self._ask(self._waiting.popleft())

    def _ask(self, who: tuple[str, str]) -> None:
        self._asked.add(who)
        label, name = who
        called = self._met[who].called or name
        found = self._executor.submit(self._authorities[label].again, name, called)
        found.add_done_callback(partial(self._found, who))

    def _found(self, who: tuple[str, str], found: Future[Any]) -> None:
        if not found.cancelled():
            self._post(partial(self._told, who, found))

    def _told(self, who: tuple[str, str], found: Future[Any]) -> None:
        self._asked.discard(who)
        label, name = who
        self._due[who] = self._clock() + self._authorities[label].again_seconds
        error = found.exception()
        if error is None:
            self._heard(who, found.result())
        else:
            reason = str(error) if isinstance(error, AuthenticationError) else type(error).__name__
            _log.warning("login.not_asked_again", user=name, authority=label, reason=reason)
        self._go_on()

    def _heard(self, who: tuple[str, str], said: Vouched | None) -> None:
        roles = None if said is None else said.roles
        met = self._met.get(who)
        if met is not None and met.roles != {roles}:
            self._checking.say(*who, roles)
            self._concern(who[1])
