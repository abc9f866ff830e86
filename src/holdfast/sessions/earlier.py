"""
Earlier connections of a client, which have left before anything is done for its new one.

One that is lost is read to its end before: what its client sent last is wanted all the same. Where
the new one leaves meanwhile, the earlier ones go on leaving by themselves, and whoever comes next
waits for all of them: each is asked for its own, never through another.

Owned by the holdings of the new connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.broker.errands import IsSpent
from holdfast.sessions.session import Session


class EarlierConnections:
    """Those that are waited for, oldest first."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: deque[Session] = deque()

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, sessions: Iterable[Session]) -> None:
        """Wait for these as well."""
        self._sessions.extend(sessions)

    def have_left(self, is_spent: IsSpent) -> bool:
        """Let them leave, as far as the time goes; True if all of them have."""
        while self._sessions:
            other = self._sessions[0]
            if not (other.is_leaving or other.is_closing):
                return False  # It is still read.
            for _ in other.leaving():
                if is_spent():
                    return False
            self._sessions.popleft()
        return True
