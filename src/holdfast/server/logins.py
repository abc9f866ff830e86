"""
Logins of clients: who may come in, found out without holding anybody up.

A session asks (`check`), and is told at once or, by `Clients.authenticated`, later: when a password
was looked at, or when a refusal is due. It waits meanwhile, and nobody else does.

Invariants:
    As long as there are no users, and nobody vouches for any, everybody is let in, whatever he
    shows.
    What others on the way could read is not looked at, unless the operator wants that.
    Whoever asked is told once, unless he is gone.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from holdfast.broker.serving.access_book import AccessBook
from holdfast.environment.clock import Clock
from holdfast.errors import AuthenticationError
from holdfast.security.certificate_names import name_of
from holdfast.security.checking import (
    WRONG,
    Checking,
    Outcome,
    Refusal,
    Shown,
    Waiter,
    Waiting,
)
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.credentials import Answer, Credential
from holdfast.sessions.session import Connection, Session

IN_CLEAR: Final = (
    "passwords and tokens are not taken in clear from other machines: connect by TLS"
    " (stomp+ssl://), or let the node have plain_without_tls"
)

_TOLD_AT_ONCE: Final = 32
"""Whoever is let in is written to, and what he sent meanwhile is read: some milliseconds."""

Tell = Callable[[Connection, Answer], None]


class Looking(Protocol):
    """Whoever looks at passwords."""

    def look(
        self,
        waiting: Waiting,
        reason_to_skip: Callable[[Waiting], str],
        done: Callable[[Waiting, Outcome], None],
    ) -> None:
        """Find out whether a password is right when its turn comes, and tell on the loop."""


class Logins:
    """Everybody who logs in on one node."""

    __slots__ = (
        *("_book", "_call_later", "_checking", "_clock", "_is_there", "_looking"),
        *("_takes_clear", "_tell"),
        "notice",
    )

    def __init__(
        self,
        book: AccessBook,
        checking: Checking,
        looking: Looking,
        clock: Clock,
        *,
        takes_clear: bool,
        tell: Tell,
        is_there: Callable[[Connection], bool],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """
        Let users in as `book` has them.

        Args:
            book: Whether there are users.
            checking: Looks at what they show.
            looking: Looks at passwords for it.
            clock: By which refusals are due and tokens end.
            takes_clear: Whether passwords and tokens are taken in clear from other machines.
            tell: Tells a connection's session who its client is.
            is_there: Whether a connection is not lost yet.
            call_later: Does something in so many seconds.
        """
        self._book = book
        self._checking = checking
        self._looking = looking
        self._clock = clock
        self._takes_clear = takes_clear
        self._tell = tell
        self._is_there = is_there
        self._call_later = call_later
        self.notice: Callable[[Shown, Answer], None] = lambda _shown, _answer: None
        """Takes notice of each client that is found out, or not let in."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anybody to log in as: if not, everybody is let in."""
        return self._book.is_guarded

    def check(self, session: Session, credential: Credential) -> Answer | None:
        """Say who a client is; None: he is told later."""
        connection = session.connection
        assert connection is not None, "who shows something is connected"
        address = address_of(connection)
        certified = name_of(connection.certificate) if self.is_needed else ""
        shown = Shown(*credential, certified=certified, address=address)
        answer: Answer | None
        is_overheard = not (self._takes_clear or connection.is_private)
        if credential.secret and self.is_needed and is_overheard:
            answer = AuthenticationError(IN_CLEAR)
        else:
            told = partial(self._tell_noticed, connection, shown)
            answer = self.ask(shown, told, partial(self._is_there, connection))
        if answer is not None and self.is_needed:
            self.notice(shown, answer)
        return answer

    def _tell_noticed(self, connection: Connection, shown: Shown, answer: Answer) -> None:
        self.notice(shown, answer)
        self._tell(connection, answer)

    def ask(
        self,
        shown: Shown,
        told: Callable[[Answer], None],
        is_there: Callable[[], bool] = lambda: True,
    ) -> Answer | None:
        """
        Say who somebody is; None: that is told later, once, by `told`.

        Where he `is_there` no more when it is his turn, it may not be found out at all.
        """
        if not self.is_needed:
            return ANONYMOUS
        now, now_ms = self._clock.monotonic(), self._clock.wall_microseconds() // 1000
        answer = self._checking.check(shown, now, now_ms, anonymous=self._book.anonymous)
        if isinstance(answer, Principal):
            self._came_in(shown, answer)
            return answer
        if isinstance(answer, Refusal):
            return self._refuse(told, answer)
        answer.waiters.append(Waiter(partial(self._found, shown, told), is_there))
        if len(answer.waiters) == 1:
            self._looking.look(answer, self._reason_to_skip, self._looked_at)
        return None

    def _reason_to_skip(self, waiting: Waiting) -> str:
        return self._checking.reason_to_skip(waiting, self._clock.monotonic())

    def _looked_at(self, waiting: Waiting, outcome: Outcome) -> None:
        now, now_ms = self._clock.monotonic(), self._clock.wall_microseconds() // 1000
        found = self._checking.looked_at(waiting, outcome, now=now, now_ms=now_ms)
        self._tell_all(waiting.waiters, found)

    def _tell_all(
        self,
        waiters: Sequence[Waiter],
        found: Principal | Refusal | None,
        begin: int = 0,
    ) -> None:
        """Tell some of them now, and the others after the sockets had their turn."""
        end = begin + _TOLD_AT_ONCE
        for each in waiters[begin:end]:
            each.tell(found)
        if end < len(waiters):
            self._call_later(0.0, partial(self._tell_all, waiters, found, end))

    def _found(
        self, shown: Shown, told: Callable[[Answer], None], found: Principal | Refusal | None
    ) -> None:
        answer: Answer | None
        now = self._clock.monotonic()
        if isinstance(found, Principal):
            # Others were told first: who is judged again by a change meanwhile is not among them.
            found = self._checking.still(found) or Refusal(WRONG, now)
        if isinstance(found, Principal):
            self._came_in(shown, found)
            answer = found
        else:
            answer = self._refuse(told, found or self._checking.refused(shown, now))
        if answer is not None:
            told(answer)

    def _came_in(self, shown: Shown, principal: Principal) -> None:
        if principal.name:
            self._checking.regulars.came_in(shown.address, self._clock.monotonic())

    def _refuse(
        self, told: Callable[[Answer], None], refusal: Refusal
    ) -> AuthenticationError | None:
        """Give a refusal that is due; another one is told when it is."""
        error = AuthenticationError(refusal.reason)
        delay = refusal.due - self._clock.monotonic()
        if delay <= 0:
            return error
        self._call_later(delay, lambda: told(error))
        return None


def address_of(connection: Connection) -> str:
    """Give from where a client comes, without the port."""
    return connection.peer.rpartition(":")[0]
