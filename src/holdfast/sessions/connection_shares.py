"""
Which connections of the clients' port are whose, and how many each user may have.

A connection that is used is closed for nobody. So places for it have to be left over for who comes:
each user has a share (`model.shares`), and one alone three quarters of all at most. Those who come
as nobody in particular are one user. Before there are users there are no shares.

A place is its connection's, and of nothing else: it is asked for as the client is let in, and given
back as the socket is gone, however that came, and whatever is left to be done for the session.

Invariants:
    Who has a place is connected, and his socket is not known to be gone.
    What users have is what their connections here have.

Owned by the context of all sessions.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.shares import Shares
from holdfast.sessions.session import Session


class ConnectionShares:
    """The places of one port."""

    __slots__ = ("_shares", "_users", "count_max")

    def __init__(self, count_max: int = 0) -> None:
        """Take how many connections there may be; 0: as many as come."""
        self.count_max = count_max
        self._users: dict[Session, str | None] = {}
        self._shares = Shares()

    @property
    def users(self) -> Mapping[Session, str | None]:
        """Give who has a place, and of which user's share; None: nobody is somebody."""
        return self._users

    def of(self, user: str) -> int:
        """Give how many connections a user has."""
        return self._shares.of(user)

    def take(self, session: Session, user: str | None) -> bool:
        """
        Let a connection have a place of this user's; false: he has as many as he may have.

        One that is gone needs none: what it sent is only read to its end.
        """
        assert session not in self._users, "a connection is let in once"
        if session.is_gone:
            return True
        left = self.count_max - len(self._users) - 1
        if self.count_max and not self._shares.has_room(user, 1, left):
            return False
        self._users[session] = user
        self._shares.add(user, 1)
        return True

    def give_back(self, session: Session) -> None:
        """Let others have the place of one that is gone; fine if it has none."""
        if session in self._users:
            self._shares.add(self._users.pop(session), -1)

    def clear(self) -> None:
        """Begin anew, as all clients are sent away: they have nothing to give back any more."""
        self._users = {}
        self._shares = Shares()
