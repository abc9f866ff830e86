"""
Which clients are not read for now, and when each of them is looked at again.

A client is left unread for one or several of four reasons: what it brought waits to be served, what
it sent waits to be committed, SENDs of it found no room, or its words are held. To look at all of
them in each turn made a turn as long as there are clients: with a thousand producers it was most of
a message's cost. So each waits where its reason ends: one that waits for a commit is looked at with
the next commit, any other once something of it was served.

Invariants:
    Whoever does a client's work that waited says so (`served`): else it is never read again.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.broker.errands import IsSpent
from holdfast.server.connection import ClientConnection


class Pausing:
    """The connections that are not read for now."""

    __slots__ = ("_commit_count", "_others", "_uncommitted")

    def __init__(self) -> None:
        self._others: dict[ClientConnection, None] = {}
        self._uncommitted: dict[ClientConnection, None] = {}
        """Those that only wait for the commit after this one."""
        self._commit_count = 0

    def __bool__(self) -> bool:
        """Whether there is anybody to look at."""
        return bool(self._others or self._uncommitted)

    def add(self, connection: ClientConnection) -> None:
        """Stop reading from a client until there is room for more."""
        if not connection.is_paused and not connection.is_lost:
            connection.is_paused = True
            self._others[connection] = None
            connection.transport.pause_reading()

    def served(self, connection: ClientConnection) -> None:
        """Look again at a client whose words wait no more, if it is not read."""
        if connection.is_paused and not connection.is_lost:
            self._others[connection] = None

    def forget(self, connection: ClientConnection) -> None:
        """Leave out a client that is gone."""
        self._others.pop(connection, None)
        self._uncommitted.pop(connection, None)

    def clear(self) -> None:
        """Leave out everybody."""
        self._others.clear()
        self._uncommitted.clear()

    def resume(self, now: float, commit_count: int, is_spent: IsSpent, *, is_pending: bool) -> bool:
        """
        Read again from those who waited, where what they waited for has come; tell if that is all.

        `is_pending`: something is yet to be committed, so that there will be a next commit. That
        nothing was heard of a client which was not read is no sign against it.
        """
        if self._uncommitted and not (is_pending and commit_count == self._commit_count):
            self._others.update(self._uncommitted)
            self._uncommitted.clear()
        self._commit_count = commit_count
        for connection in list(self._others):
            del self._others[connection]
            if connection.is_ready or connection.session.is_full:
                continue  # First what it brought is served.
            if is_pending and connection.commit_count == commit_count:
                self._uncommitted[connection] = None
                continue
            connection.is_paused = False
            connection.uncommitted_bytes = 0
            connection.session.note_received(now)
            connection.transport.resume_reading()
            if is_spent():
                return False
        return True
