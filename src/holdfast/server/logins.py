"""
Logins of clients: who may come in, found out without holding anybody up.

A session asks (`check`), and is told at once or, by `Clients.authenticated`, later: when a password
was looked at, or when a refusal is due. It waits meanwhile, and nobody else does.

Invariants:
    As long as there are no users, and nobody vouches for any, everybody is let in, whatever he
    shows.
    Whoever asked is told once, unless he is gone.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from holdfast.broker.serving.access_book import AccessBook
from holdfast.environment.clock import Clock
from holdfast.errors import AuthenticationError
from holdfast.security.checking import Checking, Outcome, Refusal, Shown, Waiting
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.credentials import Answer, Credential
from holdfast.sessions.session import Connection, Session

Tell = Callable[[Connection, Answer], None]


class Looking(Protocol):
    """Whoever looks at passwords."""

    def look(self, waiting: Waiting, done: Callable[[Waiting, Outcome], None]) -> None:
        """Find out whether a password is right, and tell on the loop."""


class Logins:
    """Everybody who logs in on one node."""

    __slots__ = ("_book", "_call_later", "_checking", "_clock", "_looking", "_tell")

    def __init__(
        self,
        book: AccessBook,
        checking: Checking,
        looking: Looking,
        clock: Clock,
        *,
        tell: Tell,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """
        Let users in as `book` has them.

        Args:
            book: Whether there are users.
            checking: Looks at what they show.
            looking: Looks at passwords for it.
            clock: By which refusals are due and tokens end.
            tell: Tells a connection's session who its client is.
            call_later: Does something in so many seconds.
        """
        self._book = book
        self._checking = checking
        self._looking = looking
        self._clock = clock
        self._tell = tell
        self._call_later = call_later

    @property
    def is_needed(self) -> bool:
        """Whether there is anybody to log in as: if not, everybody is let in."""
        return self._book.has_users or bool(self._checking.authorities)

    def check(self, session: Session, credential: Credential) -> Answer | None:
        """Say who a client is; None: he is told later."""
        connection = session.connection
        assert connection is not None, "who shows something is connected"
        shown = Shown(*credential, address=address_of(connection))
        return self.ask(shown, partial(self._tell, connection))

    def ask(self, shown: Shown, told: Callable[[Answer], None]) -> Answer | None:
        """Say who somebody is; None: that is told later, once, by `told`."""
        if not self.is_needed:
            return ANONYMOUS
        now, now_ms = self._clock.monotonic(), self._clock.wall_microseconds() // 1000
        answer = self._checking.check(shown, now, now_ms)
        if isinstance(answer, Principal):
            return answer
        if isinstance(answer, Refusal):
            return self._refuse(told, answer)
        answer.waiters.append(partial(self._found, shown.address, told))
        if len(answer.waiters) == 1:
            self._looking.look(answer, self._looked_at)
        return None

    def _looked_at(self, waiting: Waiting, outcome: Outcome) -> None:
        now, now_ms = self._clock.monotonic(), self._clock.wall_microseconds() // 1000
        found = self._checking.looked_at(waiting, outcome, now=now, now_ms=now_ms)
        for tell in waiting.waiters:
            tell(found)

    def _found(
        self, address: str, told: Callable[[Answer], None], found: Principal | Refusal | None
    ) -> None:
        answer: Answer | None
        if isinstance(found, Principal):
            answer = found
        else:
            now = self._clock.monotonic()
            answer = self._refuse(told, found or self._checking.refused(address, now))
        if answer is not None:
            told(answer)

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
