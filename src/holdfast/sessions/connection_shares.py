"""
How many connections each user has of those that the clients' port takes, and may have.

A connection that is used is closed for nobody. So places for it have to be left over for who comes:
each user has a share (`model.shares`), and one alone three quarters of all at most. Those who come
as nobody in particular are one user. Before there are users there are no shares.

Owned by the context of all sessions.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.shares import Shares


class _Counted:
    """What is counted as long as all of these clients are there."""

    __slots__ = ("count", "shares")

    def __init__(self) -> None:
        self.count = 0
        self.shares = Shares()


class Place(NamedTuple):
    """What one connection has; given back once."""

    user: str
    counted: _Counted


class ConnectionShares:
    """The places of one port."""

    __slots__ = ("_counted", "count_max")

    def __init__(self, count_max: int = 0) -> None:
        """Take how many connections there may be; 0: as many as come."""
        self.count_max = count_max
        self._counted = _Counted()

    def of(self, user: str) -> int:
        """Give how many connections a user has."""
        return self._counted.shares.of(user)

    def take(self, user: str) -> Place | None:
        """Let one more connection be this user's; None: he has as many as he may have."""
        counted = self._counted
        left = self.count_max - counted.count - 1
        if self.count_max and not counted.shares.has_room(user, 1, left):
            return None
        counted.count += 1
        counted.shares.add(user, 1)
        return Place(user, counted)

    def give_back(self, place: Place) -> None:
        """Let others have it; what was taken before all were sent away counts nowhere any more."""
        place.counted.count -= 1
        place.counted.shares.add(place.user, -1)

    def clear(self) -> None:
        """Begin anew, as all clients are sent away."""
        self._counted = _Counted()
