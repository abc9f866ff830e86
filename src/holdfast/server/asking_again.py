"""
Asks who vouches for those who are connected whether all of it is still so.

A directory tells nobody when somebody leaves it, or a group. So it is asked of each person who is
connected, once in a while, without his password, on a thread of its own. What it says by then is
taken as a change of the log would be: the clients whom it concerns are judged again. As soon as one
answer is there the next one is asked of, so that a round takes as long as the directory does.

Invariants:
    A person is asked of once at a time, however many clients he has.
    Who cannot be asked of stays as he is, and is asked of again.
    With ten thousand people nothing takes longer than with ten: who is connected is looked through
    a few at a time, and whose time has come stands first.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
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
SEEN_AT_ONCE: Final = 128
"""So many are looked at in one go: a fifth of a millisecond."""
LATE_SECONDS: Final = 60.0
"""That a directory does not keep up is told so often."""

_log = structlog.get_logger("holdfast.server")


class Present(Protocol):
    """Where clients are."""

    def principals(self) -> Iterable[Principal]:
        """Who is connected, each client's; some may come or go while they are gone through."""


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
        self._due: dict[str, dict[str, float]] = {each: {} for each in self._authorities}
        """
        When each is asked of next, by who vouches and his name; who is under way is not there.

        Each of them has the same time between two questions, so who is due first stands first.
        """
        self._met: dict[tuple[str, str], _Met] = {}
        self._asked: set[tuple[str, str]] = set()
        self._looking: Iterator[None] = iter(())
        self._is_looking = False
        self._told_late_at = float("-inf")
        self._is_closed = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="holdfast-again")

    def look(self) -> None:
        """Ask about those whose time has come; who they are is found out some at a time."""
        if not self._is_looking:
            self._is_looking = True
            self._looking = self._round()
            self._look_on()
        self._note_late()
        self._go_on()

    def close(self) -> None:
        """Ask nobody any more."""
        self._is_closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _look_on(self) -> None:
        """Look at some more, and leave the loop to others between."""
        for _ in self._looking:
            if not self._is_closed:
                self._post(self._look_on)
            return
        self._is_looking = False

    def _round(self) -> Iterator[None]:
        """Look through those who are connected, and forget who is not any more."""
        met: dict[tuple[str, str], _Met] = {}
        for count, each in enumerate(self._present.principals(), 1):
            if each.authority in self._authorities:
                who = (each.authority, each.name)
                met.setdefault(who, _Met(each.called, set())).roles.add(each.roles)
                self._note_present(who)
            if not count % SEEN_AT_ONCE:
                yield
        self._met = met
        for label, due in self._due.items():
            for count, name in enumerate(list(due), 1):
                if (label, name) not in met:
                    due.pop(name, None)
                if not count % SEEN_AT_ONCE:
                    yield
        for count, who in enumerate(self._checking.said_of(), 1):
            if who not in met:
                self._checking.forget_said(who)
            if not count % SEEN_AT_ONCE:
                yield

    def _note_present(self, who: tuple[str, str]) -> None:
        label, name = who
        if who not in self._asked and name not in self._due[label]:
            self._put_off(label, name)

    def _put_off(self, label: str, name: str) -> None:
        """Have somebody asked of behind all others of who vouches for him."""
        self._due[label][name] = self._clock() + self._authorities[label].again_seconds

    def _next_due(self) -> tuple[float, str, str] | None:
        """Give who is due first, and when; None: nobody is there."""
        first = [
            (due, label, name)
            for label, each in self._due.items()
            for name, due in islice(each.items(), 1)
        ]
        return min(first, default=None)

    def _note_late(self) -> None:
        """Say, once in a while, that a right that was taken back goes on for longer than told."""
        due, label, _ = self._next_due() or (float("inf"), "", "")
        now = self._clock()
        if due == float("inf") or now - due < self._authorities[label].again_seconds:
            return
        if now - self._told_late_at >= LATE_SECONDS:
            self._told_late_at = now
            _log.warning(
                "login.asked_again_late",
                authority=label,
                late_seconds=round(now - due),
                people=len(self._due[label]),
            )

    def _go_on(self) -> None:
        now = self._clock()
        while len(self._asked) < AT_ONCE_MAX and not self._is_closed:
            due, label, name = self._next_due() or (float("inf"), "", "")
            if due > now:
                return
            del self._due[label][name]
            if (label, name) in self._met:  # Else he is gone.
                self._ask((label, name))

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
        self._put_off(label, name)
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
