"""
One line in the log for each client that is refused something or breaks a rule.

With its address, so that somebody can go there. Thousands of connections may do it in a second, all
for one reason: some lines of each second are written, the next one says how many were left out.

Owned by the loop.
"""

from __future__ import annotations

from typing import Final

import structlog

from holdfast.environment.clock import Clock
from holdfast.sessions.refusals import IGNORED
from holdfast.sessions.session import Session

log = structlog.get_logger("holdfast.server")

LINES_PER_SECOND_MAX: Final = 20
_REASON_CHARACTERS_MAX: Final = 300


class RefusalLog:
    """Called by the sessions, see `Refusals.tell`."""

    __slots__ = ("_clock", "_left_out", "_second", "_written")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._written = 0
        self._left_out = 0

    def __call__(self, session: Session, code: str, reason: str) -> None:
        """Write a line, or count it where there are too many."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._written = 0
        if self._written >= LINES_PER_SECOND_MAX:
            self._left_out += 1
            return
        self._written += 1
        more = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        what = "wish of a client ignored" if code in IGNORED else "client refused"
        reason = reason[:_REASON_CHARACTERS_MAX]
        log.info(
            what,
            client=session.connection.peer if session.connection is not None else "?",
            session=session.id,
            code=code,
            reason=reason,
            **more,
        )
