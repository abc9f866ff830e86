"""
Which connections the admin port takes, who holds them, and which one goes when it is full.

A connection is a guest's until a request on it has shown who sends it, and again as soon as one
does not. Guests make room for whoever comes, see `guests`: a socket costs a stranger nothing.
Whoever is known holds his connection. But all who are known have three quarters of the places
together, whoever they are, and who has more of them gives way to who has fewer: a user who may only
look, or a program of his that leaks connections, keeps nobody out. It is one between two requests
that goes; one in the middle of a request goes only for who has none at all. It finishes that first,
as one between two does the request that may be on its way. So long it stands beside the places of
users, in the fourth quarter. Of those that do there are few: where one more comes the oldest of
them is closed. The fourth quarter is for what other nodes pass on; more of that has places as who
knows the secret has.

Beside those places there are as many for guests of this machine, and as many for those from
elsewhere, `GUEST_COUNT_MAX` at most: so many of them would have to come between the turn in which
one is taken and that in which its request is read. The node's own user is bound by nothing, and so
finds a place by who comes as a guest.

Invariants:
    Never more than `count_max` connections are inside, those of guests with them.
    Guests of this machine give way to guests from elsewhere only beyond the places that are theirs,
    and these to them.
    Those that are held by users and by the secret's word are never more than `held_max`, and those
    that finish a request beside them than `FINISHING_COUNT_MAX`.
    A connection of one person is closed for another one only where he has as many left as that one.
    Nothing that another node passes on is closed for anybody as long as it has its own places.

Pure: told of connections and of who sends a request, it says which one is to be closed. Owned by
the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import nlargest
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from holdfast.admin.guests import Guests
from holdfast.admin.person import CLUSTER, MACHINE, MEMBERS
from holdfast.transport.inside import Inside, NowAndThen

GUEST_COUNT_MAX: Final = 64
"""Four turns of the loop, with as many accepted in each as may be."""

LOOKED_AT_MAX: Final = 64
"""So many of one person are asked whether they are idle."""

FINISHING_COUNT_MAX: Final = 16
"""So many may finish a request when they have to go; of a small port, as many as its fourth quarter
has places."""

_GIVERS_MAX: Final = 8
"""So many persons are looked at, who have the most first."""

_GUEST: Final = ""
_UNBOUND: Final = {MACHINE, MEMBERS}
"""Who does not count among those that have three quarters together."""
_LINES: Final = 2

logger = logging.getLogger("holdfast.admin")

T = TypeVar("T")


def guest_count_max(count_max: int) -> int:
    """Give how many places guests have beside so many, of this machine and others."""
    return _LINES * _line_count_max(count_max)


def _line_count_max(count_max: int) -> int:
    return min(GUEST_COUNT_MAX, count_max)


class Held(NamedTuple, Generic[T]):
    """Whether somebody holds a connection from now on."""

    is_held: bool
    """False: there is no place for one more of his."""
    finishing: T | None = None
    """The connection to close for it once a request is answered that is here or on its way; None:
    none."""
    leaving: T | None = None
    """The one to close at once, as too many finish; None: none."""


class Places(Generic[T]):
    """The connections inside the admin port."""

    __slots__ = (
        *("_elsewhere", "_finishing", "_here", "_inside", "_is_here", "_is_idle", "_telling"),
        *("count_max", "finishing_max", "held_max", "members_max", "turned_away"),
    )

    def __init__(
        self,
        count_max: int,
        *,
        is_idle: Callable[[T], bool],
        leaves_waiting: Callable[[T], bool],
        source_of: Callable[[T], str] = lambda _: "",
        is_here: Callable[[T], bool] = lambda _: False,
    ) -> None:
        """
        Make a port with nobody inside.

        Args:
            count_max: So many, and `guest_count_max` of guests beside them.
            is_idle: Whether a connection is between two requests.
            leaves_waiting: Whether its other end has to do something next, and not we.
            source_of: The address that it is from; always the same.
            is_here: Whether it is from this machine; always the same.
        """
        self.count_max = count_max + guest_count_max(count_max)
        self.held_max = max(count_max * 3 // 4, 1)
        self.members_max = count_max - self.held_max
        self.finishing_max = min(FINISHING_COUNT_MAX, self.members_max)
        self.turned_away = 0
        """Connections closed because the port was full, since the start."""
        self._is_idle = is_idle
        self._is_here = is_here
        self._here, self._elsewhere = (
            Guests[T](
                _line_count_max(count_max),
                count_max=self.count_max,
                source_of=source_of,
                leaves_waiting=leaves_waiting,
            )
            for _ in range(_LINES)
        )
        self._inside = Inside[T]()
        """Those that are held, by who holds them, the oldest first."""
        self._finishing: dict[T, None] = {}
        """Those that had to go, and finish a request; the oldest first."""
        self._telling = NowAndThen()

    def __len__(self) -> int:
        guests = len(self._here) + len(self._elsewhere)
        return len(self._inside) + len(self._finishing) + guests

    def enter(self, connection: T, now: float) -> T | None:
        """
        Take a new connection; `now` in seconds of the monotonic clock.

        Returns:
            The one to close: a guest's, an idle one of the node's own user, one that finishes a
            request, or the new one itself. None: nobody.
        """
        leaving = None
        if len(self) >= self.count_max:
            self._turn_away(now)
            leaving = self._leaving_for(connection)
            if leaving is None:
                return connection
            self.leave(leaving)
        self._line_of(connection).add(connection)
        return leaving

    def _line_of(self, connection: T) -> Guests[T]:
        return self._here if self._is_here(connection) else self._elsewhere

    def _leaving_for(self, comer: T) -> T | None:
        """Give a guest of its own line, unless the other one has more than its places."""
        own = self._line_of(comer)
        other = self._elsewhere if own is self._here else self._here
        if len(own) < own.places and len(other) > other.places:
            return other.leaving_for(comer)
        leaving = own.leaving_for(comer)
        if leaving is None:
            leaving = self._idle_of(MACHINE)
        return next(iter(self._finishing), None) if leaving is None else leaving

    def hold(self, connection: T, who: str, now: float) -> Held[T]:
        """
        Let one be held by who has sent a request on it; empty: that was nobody in particular.

        It is a guest's where there is no place for one more of his.
        """
        line = self._line_of(connection)
        was = _GUEST if connection in line else self._inside.group_of(connection)
        if was in (who, None):
            return Held(is_held=True)  # Or it is gone.
        self.leave(connection)
        if who == _GUEST:
            line.add(connection)
            return Held(is_held=True)
        if who == MEMBERS and self._inside.count(MEMBERS) >= self.members_max:
            who = CLUSTER
        leaving = finishing = None
        if who not in _UNBOUND and self._held_count >= self.held_max:
            self._turn_away(now)
            finishing = self._giving_way(who)
            if finishing is None:
                line.add(connection)
                return Held(is_held=False)
            leaving = self._finish(finishing)
        self._inside.put(connection, who)
        return Held(True, finishing, leaving)

    def _finish(self, connection: T) -> T | None:
        """Let one finish; gives the one that does so for longest, where they are too many."""
        self._inside.leave(connection)
        longest = None
        if len(self._finishing) >= self.finishing_max:
            longest = next(iter(self._finishing))
            del self._finishing[longest]
        self._finishing[connection] = None
        return longest

    def leave(self, connection: T) -> None:
        """Forget a connection that is gone; fine if it is not inside."""
        self._inside.leave(connection)
        self._finishing.pop(connection, None)
        self._line_of(connection).discard(connection)

    @property
    def _held_count(self) -> int:
        return len(self._inside) - sum(self._inside.count(it) for it in _UNBOUND)

    def _giving_way(self, who: str) -> T | None:
        """Give an idle one of who has more, else of his own, else a busy one if he has none."""
        inside, own = self._inside, self._inside.count(who)
        more = (it for it in inside.by_group if it not in _UNBOUND and inside.count(it) > own + 1)
        givers = nlargest(_GIVERS_MAX, more, key=inside.count)
        for each in (*givers, who):
            idle = self._idle_of(each)
            if idle is not None:
                return idle
        return next(iter(inside.by_group[givers[0]])) if givers and not own else None

    def _idle_of(self, who: str) -> T | None:
        held = islice(self._inside.by_group.get(who, ()), LOOKED_AT_MAX)
        return next((it for it in held if self._is_idle(it)), None)

    def _turn_away(self, now: float) -> None:
        self.turned_away += 1
        if self._telling.is_due(now):
            logger.warning(
                "the admin port is full with %d connections, of which users hold %d: strangers"
                " that leave it waiting are closed, then those of who has the most; %d closed so"
                " far",
                self.count_max,
                self._held_count,
                self.turned_away,
            )
