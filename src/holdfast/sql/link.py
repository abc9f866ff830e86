"""
The one connection of a log: made when it is needed, at the first host that answers, and bounded.

After any error the connection is closed, and the next call makes another one: at the next host, if
this one could not be reached or does not write any more. What a driver raises comes out as the
errors of the contract; a password is in none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from holdfast.environment.kept_errors import without_frames
from holdfast.environment.remote_server import Host
from holdfast.errors import StoreError, UnreachableError
from holdfast.sql.faults import ROTATES, Fault, error_of
from holdfast.sql.session import Session, UncertainError
from holdfast.sql.url import StoreUrl

logger = logging.getLogger("holdfast.sql")

CONNECT_SECONDS_MAX: Final = 5.0
"""For one host, of several."""
SECONDS_MIN: Final = 0.05
MISSING_SECONDS: Final = 30.0
"""Two connections in turn that lack a table within so long lead to a database that has lost it."""
_MAY_PASS: Final = frozenset({Fault.CREDENTIALS, Fault.FORBIDDEN, Fault.NO_DATABASE})
"""Refusals that an operator puts right while the brokers wait; nothing was stored."""
_MAY_LEAD_ELSEWHERE: Final = frozenset({Fault.NO_TABLE, Fault.NO_COLUMN})
"""What was there: the address leads to another database for a while."""

Result = TypeVar("Result")


class UnsafeHostError(UnreachableError):
    """A host answers, and what it stores may be lost: another one is tried, if there is any."""


Connect = Callable[[StoreUrl, Host | None, float], Session]


class Link:
    """A connection that comes back."""

    def __init__(
        self,
        url: StoreUrl,
        session_type: type[Session],
        connect: Connect,
        *,
        greet: Callable[[Session], None],
        admit: Callable[[Session], None] = lambda _: None,
        approach: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        """
        Take where to connect to; nothing is reached yet.

        Args:
            greet: Judges each new connection before it is used; what it raises ends it.
            admit: The same each time before something is done by it.
            approach: Judges what can be seen before a connection is made; what it raises keeps it
                from being made.
        """
        self.url = url
        self._type = session_type
        self._errors: tuple[type[Exception], ...] = (
            *session_type.errors,
            UncertainError,
            OSError,
        )
        self._connect = connect
        self._greet = greet
        self._admit = admit
        self._approach = approach
        self._clock = clock
        self._session: Session | None = None
        self.made_count = 0
        """How many connections were made so far."""
        self.is_trusted = False
        """It has served: to be refused is no mistyped address any more, and may pass."""
        self._deadline = 0.0
        """Of the call that is under way."""
        self._missing = (-1, 0.0)
        """Which connection lacked a table in the middle last, and when."""
        self.may_begin = True
        """What is not there yet may be made, where that takes no more than a connection."""
        self._hosts: list[Host | None] = list(url.hosts) or [None]
        self.is_choosy = False
        """Whether one of several hosts is looked for that keeps what it stores."""
        self.may_leave = False
        """Whether there may be such a one beside the host that was found."""

    def run(self, seconds_max: float, action: Callable[[Session], Result]) -> Result:
        """
        Do this on the connection, within so many seconds.

        Raises:
            UnreachableError: It is not known what became of it, or nothing was reached.
            AppendRefusedError: There is no room; nothing was kept.
            StoreError: The database cannot be gone on with.
        """
        self._deadline = deadline = self._clock() + seconds_max
        session = self._session
        try:
            if session is None:
                session = self._connect_any(deadline)
                self._session = session
                self.made_count += 1
            session.bound(self._left(deadline))
            self._admit(session)
            result = action(session)
            session.require_there()
            return result
        except self._errors as error:
            raise self._lost(error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the connection go, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._session is not None

    @property
    def seconds_left(self) -> float:
        """Of the call that is under way; for whoever greets a connection for it."""
        return self._left(self._deadline)

    @property
    def has_others(self) -> bool:
        """Whether there are several hosts."""
        return len(self._hosts) > 1

    @property
    def host(self) -> Host | None:
        """The one that it is connected to, or tries to be."""
        return self._hosts[0]

    @property
    def others(self) -> list[Host]:
        """All other hosts."""
        return [it for it in self._hosts[1:] if it is not None]

    def glance(self, host: Host, seconds_max: float, action: Callable[[Session], Result]) -> Result:
        """
        Look at another host by a connection that ends with it; by any thread.

        Raises:
            UnreachableError: It does not answer, or refuses.
        """
        session = None
        errors: tuple[type[Exception], ...] = (*self._errors, StoreError)
        try:
            url = replace(self.url, is_begun=True, is_glanced_at=True)
            session = self._connect(url, host, seconds_max)
            session.bound(seconds_max)
            return action(session)
        except errors as error:
            said = self._type.said(error) if isinstance(error, self._type.errors) else str(error)
            # What a driver raises keeps its connection for as long as it is kept itself.
            without_frames(error)
            raise UnreachableError(f"{host}: {' '.join(said.split())}") from None
        finally:
            if session is not None:
                session.close()

    @property
    def place(self) -> str:
        """Where it is connected to, or tries to be; without a password."""
        return self._place(self._hosts[0])

    @property
    def warning(self) -> str:
        """What is to be told of its connection; may be asked by any thread."""
        session = self._session
        return "" if session is None else session.warning

    def leave(self) -> None:
        """Let the next host be tried first."""
        self.close()
        self._rotate()

    def was_answered(self, error: UnreachableError) -> bool:
        """Whether an error is one that the database itself answered, and nobody knows."""
        cause = error.__cause__
        if not isinstance(cause, self._type.errors):
            return False
        return self._type.fault(cause) is Fault.UNKNOWN

    def _left(self, deadline: float) -> float:
        return max(SECONDS_MIN, deadline - self._clock())

    def _connect_any(self, deadline: float) -> Session:
        """
        Try each host once, the one that is next first.

        If all that answer may lose what they store the first of those has to do.
        """
        failures: list[UnreachableError] = []
        for is_choosy in (True, False) if len(self._hosts) > 1 else (False,):
            self.is_choosy = is_choosy
            session = self._try_each(deadline, failures)
            if session is not None:
                self.may_leave = is_choosy
                return session
            if not any(isinstance(it, UnsafeHostError) for it in failures):
                break
        raise UnreachableError("; ".join(dict.fromkeys(map(str, failures))))

    def _try_each(self, deadline: float, failures: list[UnreachableError]) -> Session | None:
        """Connect to the first host that will do, if any does; note why the others do not."""
        for _ in range(len(self._hosts)):
            try:
                return self._connect_one(deadline)
            except UnreachableError as error:
                failures.append(without_frames(error))  # They have what was half connected.
            self._rotate()
            if self._clock() >= deadline:
                break
        return None

    def _connect_one(self, deadline: float) -> Session:
        """Connect to the next host, and see whether it will do."""
        host, session = self._hosts[0], None
        try:
            self._approach()
            left = min(self._left(deadline), CONNECT_SECONDS_MAX)
            session = self._connected(host, left)
            session.bound(self._left(deadline))
            self._greet(session)
        except BaseException as error:
            if session is not None:
                session.close()
            if isinstance(error, self._errors):
                raise self._not_greeted(error, host) from error
            raise
        return session

    def _connected(self, host: Host | None, seconds: float) -> Session:
        """Connect; what is in the way of who was let in once may pass."""
        try:
            return self._connect(replace(self.url, is_begun=not self.may_begin), host, seconds)
        except UnreachableError:
            raise
        except StoreError as error:
            if not self.is_trusted:
                raise
            raise UnreachableError(f"{error}; it is tried again") from error

    def _not_greeted(self, error: Exception, host: Host | None) -> StoreError:
        """What an error comes to before the connection was seen to lead to the right database."""
        if self.is_trusted and self._fault(error) in _MAY_LEAD_ELSEWHERE:
            return self._elsewhere(error, host)
        return self._refused(error, host)

    def _elsewhere(self, error: Exception, host: Host | None) -> UnreachableError:
        return UnreachableError(
            f"{self._place(host)} leads to a database that has not the tables of this log"
            f" ({self._type.said(error).strip()}); see where this address leads to, and a pool in"
            f" front of it; it is tried again"
        )

    def _lost(self, error: Exception) -> StoreError:
        """
        Close what failed; give the error to raise.

        A pool may change the database behind a connection that was greeted: what is not found there
        any more is missing only if the next connection, which is greeted anew, has it not either.
        """
        host, fault = self._hosts[0], self._fault(error)
        self.close()
        if fault in ROTATES:
            self._rotate()
        if self.is_trusted and fault in _MAY_LEAD_ELSEWHERE and not self._is_missing_again():
            return self._elsewhere(error, host)
        return self._refused(error, host)

    def _is_missing_again(self) -> bool:
        """Whether the connection before this one lacked something too, a moment ago."""
        count, at = self._missing
        self._missing = (self.made_count, self._clock())
        return self.made_count == count + 1 and self._clock() < at + MISSING_SECONDS

    def _refused(self, error: Exception, host: Host | None) -> StoreError:
        """What an error of the driver comes to; who was let in once waits to be let in again."""
        fault = self._fault(error)
        refused = error_of(fault, self._place(host), self._type.said(error))
        if self.is_trusted and fault in _MAY_PASS:
            return UnreachableError(str(refused))
        return refused

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, UncertainError):
            return Fault.UNKNOWN
        if isinstance(error, OSError):
            return Fault.LOST
        return self._type.fault(error)

    def _place(self, host: Host | None) -> str:
        return f"{self.url}" if host is None or len(self._hosts) == 1 else f"{self.url} (at {host})"

    def _rotate(self) -> None:
        self._hosts.append(self._hosts.pop(0))
