"""
Which connections of the clients' port are whose, and who gives way to whom where there are users.

Each user has a share (`model.shares`): one alone three quarters of all at most, and those to whom
nothing is granted a tenth together. Where somebody has his share, what he has given up himself
makes room for him: the earlier connection of the same client, then one that does nothing. Next
gives way who has more than he: strangers to everybody, then whoever has the most, as long as he
has more even then. So it does not count who was first. Before there are users there are no shares.

A place is its connection's, and of nothing else: it is asked for as the client is let in, and given
back as the socket is gone, however that came, or as it has to give way.

Invariants:
    Who has a place is connected, and his socket is not known to be gone.
    What users have is what their connections here have.
    Nobody gives way to who has as many as he, or more.
    What it costs to find one is bounded, however many there are.

Owned by the context of all sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from holdfast.model.shares import STRANGERS, Shares
from holdfast.sessions.session import Session

PORT_FULL: Final = "port-full"
"""The code of the ERROR for whom there is no place, or not any more."""
LOOKED_AT_MAX: Final = 64
"""So many of one user are asked each time whether they do nothing, others the next time."""


def say_farewell(session: Session, why: str) -> None:
    """Tell one why it gives way, unless it was told already why it goes."""
    if not session.is_closing:
        session.farewell(why, PORT_FULL)


class _Own:
    """The connections of one user."""

    __slots__ = ("newest_last", "to_look")

    def __init__(self) -> None:
        self.newest_last: dict[Session, None] = {}
        self.to_look: dict[Session, None] = {}
        """Whoever was asked longest ago first."""

    def put(self, session: Session) -> None:
        self.newest_last[session] = self.to_look[session] = None

    def take(self, session: Session) -> None:
        del self.newest_last[session], self.to_look[session]

    def idle(self, is_idle: Callable[[Session], bool]) -> Session | None:
        """Find one that does nothing, or is closing already."""
        for session in list(islice(self.to_look, LOOKED_AT_MAX)):
            if session.is_closing or is_idle(session):
                return session
            self.to_look[session] = self.to_look.pop(session)
        return None

    def any(self, is_idle: Callable[[Session], bool]) -> Session:
        """Find one that does nothing, else the newest."""
        return self.idle(is_idle) or next(reversed(self.newest_last))


class _Ranked:
    """Users by how many they have; who has the most is found at once."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: list[dict[str, None]] = [{}]

    def move(self, user: str, before: int, now: int) -> None:
        """Note that a user has so many now; they differ by one."""
        levels = self._levels
        levels[before].pop(user, None)
        if now == len(levels):
            levels.append({})
        if now:
            levels[now][user] = None
        while len(levels) > 1 and not levels[-1]:
            levels.pop()

    @property
    def most(self) -> tuple[str, int]:
        """Give who has the most, and how many; nobody has any: the empty name and 0."""
        return next(iter(self._levels[-1]), ""), len(self._levels) - 1


class ConnectionShares:
    """The places of one port."""

    __slots__ = ("_own", "_ranked", "_shares", "_users", "count_max", "is_idle", "turn_away")

    def __init__(self, count_max: int = 0) -> None:
        """Take how many connections there may be; 0: as many as come."""
        self.count_max = count_max
        self.is_idle: Callable[[Session], bool] = lambda _: False
        """Whether one does nothing, and has not for a while."""
        self.turn_away = say_farewell
        """Closes one for another one, and tells it why."""
        self.clear()

    def clear(self) -> None:
        """Begin anew, as all clients are sent away: they have nothing to give back any more."""
        self._users: dict[Session, str | None] = {}
        self._own: dict[str, _Own] = {}
        self._shares = Shares()
        self._ranked = _Ranked()

    @property
    def users(self) -> Mapping[Session, str | None]:
        """Give who has a place, and of which user's share; None: nobody is somebody."""
        return self._users

    def of(self, user: str | None) -> int:
        """Give how many connections a user has."""
        return self._shares.of(user)

    def take(self, session: Session, user: str | None, earlier: Iterable[Session] = ()) -> bool:
        """
        Let a connection have a place of this user's, and who has to give way for it.

        One that is gone needs none: what it sent is only read to its end.

        Args:
            earlier: Connections of the same client, which it has given up.

        Returns:
            Whether it has one. If not he has as many as he may have, and does something with each.
        """
        assert session not in self._users, "a connection is let in once"
        if session.is_gone:
            return True
        if user is not None and self.count_max and not self._has_room(user, 0):
            found = self._who_gives_way(user, earlier)
            if found is None:
                return False
            leaving, why = found
            self.give_back(leaving)
            self.turn_away(leaving, why)
        self._put(session, user)
        return True

    def give_back(self, session: Session) -> None:
        """Let others have the place of one that is gone; fine if it has none."""
        if session not in self._users:
            return
        user = self._users.pop(session)
        if user is None:
            return
        own = self._own[user]
        own.take(session)
        if not own.newest_last:
            del self._own[user]
        self._count(user, -1)

    def count_as(self, session: Session, user: str | None) -> None:
        """Let a place be of another share from now on, as what its user may has changed."""
        if session in self._users and self._users[session] != user:
            self.give_back(session)
            self._put(session, user)

    def _put(self, session: Session, user: str | None) -> None:
        self._users[session] = user
        if user is not None:
            self._own.setdefault(user, _Own()).put(session)
            self._count(user, 1)

    def _count(self, user: str, change: int) -> None:
        before = self._shares.of(user)
        self._shares.add(user, change)
        if user != STRANGERS:
            self._ranked.move(user, before, before + change)

    def _has_room(self, user: str, more: int) -> bool:
        left = self.count_max - len(self._users) - 1 + more
        return self._shares.has_room(user, 1, left)

    def _who_gives_way(self, user: str, earlier: Iterable[Session]) -> tuple[Session, str] | None:
        """Find whose place one more connection of this user gets, and what that one is told."""
        for session in earlier:
            if session in self._users:
                return session, "this client has connected again"
        own = self._own.get(user)
        idle = None if own is None else own.idle(self.is_idle)
        if idle is not None:
            return idle, (
                f"its user has {self.of(user):,} connections of {self.count_max:,} that there may"
                f" be, and another one needs the place of this one, which did nothing: connect"
                f" again when there is something to do, or use heart-beats"
            )
        if user == STRANGERS:
            return None
        richest, most = self._ranked.most
        has_fewer = self.of(user) + 1 < most
        strangers = self._own.get(STRANGERS)
        if strangers and (has_fewer or self._has_room(user, len(strangers.newest_last))):
            return strangers.any(self.is_idle), (
                "somebody to whom something is granted needs this place, and to the user of this"
                " connection nothing is"
            )
        if not has_fewer:
            return None
        return self._own[richest].any(self.is_idle), (
            f"its user has {most:,} connections of {self.count_max:,} that there may be, and one"
            f" who has fewer needs this place"
        )
