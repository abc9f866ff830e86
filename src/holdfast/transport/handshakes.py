"""
Whose TLS handshake goes on: ten thousand clients come back at once after a failover.

A handshake takes half a millisecond to two of the loop, and one that a stranger begins and leaves
lying takes memory. So few are under way at once, each turn of the loop spends a slice of its time
on them, and whoever has said nothing yet has not even a context. Those that wait are taken from
each network in turn (`Crowd`), and so are those for whom there is no place, who wait for one
(`porch`): a fleet of one site gets in as fast as handshakes are made. Where these stand still, one
goes that has left us waiting, of who has more, for one who has spoken: who fills the room from one
machine or site keeps nobody of another out. Who has begun has longer while others of its network
come to their ends: a fleet that is slow is no enemy. Who is silent has not.
On a port at whose door nobody waits it goes at once, also for one of its own site: there nothing
that a stranger withholds keeps anybody out, from wherever both are. But a quarter of those that
could go stay for as long as one that is far away needs.

Invariants:
    Never more than `handshake_count_max` handshakes are under way, nor more strangers inside than
    `stranger_count_max`.
    Whoever waits for us goes only where its site has more than its share, and nobody may wait for
    a place.
    Where nobody waits at the door three quarters of the places are free again in `AT_ONCE_SECONDS`.
    A turn spends no more than its slice and one step of a handshake.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.model.crowd import Crowd
from holdfast.model.networks import network_of
from holdfast.transport.inside import NowAndThen
from holdfast.transport.porch import Comer, Porch, Stranger
from holdfast.transport.settings import PortSettings
from holdfast.transport.turn_slice import TurnSlice

HASTE_SECONDS: Final = 0.3
"""So long may one leave us waiting where another one comes, of a site with fewer of them."""

AT_ONCE_SECONDS: Final = 0.05
"""The same where nobody waits at the door, whoever comes: the way to and from a machine nearby, and
some turns of the loop. In less nobody would come to an end while somebody floods the port."""

FAR_SECONDS: Final = 0.3
"""The same for those that are spared, to the other end of the world and back. Who floods the port
is among them as others are; but where all were gone before one that is far comes to his end, some
of those that try again do now."""

_SPARED_PART: Final = 4
"""One in so many is."""

LOOK_SECONDS: Final = 0.05
"""How often it is looked whether somebody has left us waiting for too long."""

NO_ROOM: Final = "there is no room, and its site has its share"

_LOOKED_AT_MAX: Final = 8
"""Of those that wait for a place so many are looked at each time."""

_SHARES: Final = 10
_SHARE_MIN: Final = 16

logger = logging.getLogger("holdfast.transport")


class Handshakes:
    """The strangers of all of a node's TLS ports."""

    def __init__(
        self,
        settings: PortSettings,
        *,
        count_max: int | None = None,
        has_door: bool = True,
        lent: Callable[[], int] = lambda: 0,
    ) -> None:
        """
        Make a line with nobody in it.

        Args:
            count_max: How many strangers may be inside, if fewer than the settings say.
            has_door: Whether who finds no room waits at the door, as a crowd of clients does that
                comes back; else it is closed on, and so nobody who left us waiting is spared.
            lent: How many descriptors there are now for those that wait for a place, see `porch`.
        """
        self.settings = settings
        patience = settings.handshake_patience_seconds
        haste = HASTE_SECONDS if has_door else AT_ONCE_SECONDS
        self._haste = min(haste, patience)
        """So long may one leave us waiting where one comes of a site with fewer."""
        self._patience = patience if has_door else self._haste
        """The same where nobody has more than who comes."""
        self._has_door = has_door
        self.count_max = min(count_max or settings.stranger_count_max, settings.stranger_count_max)
        self.records = TurnSlice()
        """Whose records are worked on, of those whose handshake is done."""
        self.failed_count = 0
        self.share = max(self.count_max // _SHARES, _SHARE_MIN)
        """So many of one site may be inside whoever else comes."""
        self.clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        self._inside: Crowd[Stranger] = Crowd()
        """All of them."""
        self._porch = Porch(lent)
        """Those that have no place yet."""
        self._is_looking = False
        self._look_timer: asyncio.TimerHandle | None = None
        self._silent: dict[Stranger, float] = {}
        """When they came of whom no whole greeting has, or who are refused; the oldest first."""
        self._waiting: Crowd[Stranger] = Crowd()
        """Those who wait to begin."""
        self._under_way: dict[Stranger, float] = {}
        """Since when we wait for each; the longest first."""
        self._shaking: Crowd[Stranger] = Crowd()
        """The same."""
        self._ready: deque[Stranger] = deque()
        """Those under way who have brought something."""
        self._done_at: dict[str, float] = {}
        """When a handshake came to its end last, by network, while there are others of it."""
        self._is_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._door_timer: asyncio.TimerHandle | None = None
        self._stopped_ports: list[Callable[[], None]] = []
        self._telling = NowAndThen()

    def __len__(self) -> int:
        return len(self._inside)

    def expect(self, resume: Callable[[], None]) -> bool:
        """
        Say whether somebody at the door may find room, from wherever it is.

        False: nobody does; `resume` is called as soon as that may be otherwise.
        """
        if self._porch or self._porch.count_max:
            if not self._porch.is_open:
                self._stopped_ports.append(resume)
            return self._porch.is_open
        if len(self) < self.count_max or self._inside.site_count_max > self.share:
            return True
        left = self._left_of_oldest(self._patience)
        if left is not None and left <= 0:
            return True
        if left is not None and self._door_timer is None:
            self._door_timer = asyncio.get_running_loop().call_later(left, self._open_door)
        self._stopped_ports.append(resume)
        return False

    def admit(self, stranger: Stranger) -> bool:
        """Take one in, now that it is known from where it is; false: there is no room for it."""
        if not self._make_place(stranger.source):
            self._tell(stranger.source, NO_ROOM)
            return False
        self._add(stranger)
        return True

    def let_in(self, comer: Comer) -> None:
        """
        Give one a place as soon as it is its turn to have one.

        It is told, now or later: by `begin`, or by `give_up` where too many wait.
        """
        has_place = len(self) < self.count_max and not self._porch
        if has_place or (not self._porch.count_max and self._make_place(comer.source)):
            self._add(comer)
            comer.begin()
            return
        leaving = self._porch.enter(comer)
        if leaving is not None:
            leaving.give_up(NO_ROOM)
        self._look_soon()

    def shrink(self) -> None:
        """Close on those for whom nothing is lent any more."""
        for leaving in self._porch.surplus():
            leaving.give_up(NO_ROOM)

    def _look(self) -> None:
        """Give places to some of those that wait for one."""
        self._is_looking = False
        for _ in range(self.settings.accept_count_max):
            following = self._following()
            if following is None:
                break
            self._porch.discard(following)
            self._add(following)
            following.begin()
        else:
            self._look_soon()
        if self._porch.is_open and self._stopped_ports:
            self._open_door()
        if self._porch and self._look_timer is None:
            loop = asyncio.get_running_loop()
            self._look_timer = loop.call_later(LOOK_SECONDS, self._look_later)

    def _look_later(self) -> None:
        self._look_timer = None
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_looking and self._porch:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _following(self) -> Comer | None:
        """Give one for whom there is a place, or for whom somebody went."""
        if len(self) < self.count_max:
            return min(self._porch.looks(_LOOKED_AT_MAX), key=self._rank, default=None)
        left = self._left_of_oldest(self._haste)
        if left is None or left > 0:
            return None
        tried = set()
        for comer in self._porch.looks(_LOOKED_AT_MAX):
            if comer.has_spoken and comer.source not in tried:
                tried.add(comer.source)
                if self._make_place(comer.source):
                    return comer
        return None

    def _rank(self, comer: Comer) -> tuple[bool, int]:
        """Who has spoken is before who has not, then who is of a site with fewer inside."""
        return not comer.has_spoken, self._inside.site_count(comer.source)

    def _add(self, stranger: Stranger) -> None:
        self._inside.add(stranger, stranger.source)
        self._silent[stranger] = self.clock()

    def _make_place(self, source: str) -> bool:
        """Whether there is a place for one from there, maybe as another one has to go."""
        if len(self) >= self.count_max:
            leaving = self._leaving_for(source)
            if leaving is None:
                return False
            leaving.give_up("others came, and it took its time or its site had more than they")
            self.leave(leaving)
        return True

    def _leaving_for(self, source: str) -> Stranger | None:
        """Give who goes for one of this address: who has left us waiting, of those with more."""
        group = self._inside.greedier(source)
        if group:
            first = next(iter(group))
            is_coming_in = self._porch.count_max and self._came_to_an_end(first, self._haste)
            begun_seconds = self._patience if is_coming_in else self._haste
            seconds_left = self._left_of_oldest(self._haste, begun_seconds)
            if seconds_left is not None and seconds_left <= 0:
                stalled = self._stalled(group, self._haste, begun_seconds)
                if stalled is not None:
                    return stalled
            if self._inside.site_count(first.source) > self.share and not self._porch.count_max:
                return self._last_of(group)
        own = self._inside.fellows(source)
        if own and self._porch.count_max and self._came_to_an_end(next(iter(own)), self._patience):
            return None  # They are slow, and of one fleet.
        if self._has_door:
            oldest = (next(iter(it), None) for it in (self._silent, self._under_way))
            return self._stalled(own or (it for it in oldest if it is not None), self._patience)
        left = own or [*self._silent, *self._under_way]
        return self._stalled(left, self._patience, spared=len(left) // _SPARED_PART)

    def _came_to_an_end(self, stranger: Stranger, seconds: float) -> bool:
        """Whether somebody of its network has done so in these last seconds."""
        done_at = self._done_at.get(network_of(stranger.source), 0.0)
        return done_at > self.clock() - seconds

    def _stalled(
        self,
        strangers: Iterable[Stranger],
        seconds: float,
        begun_seconds: float | None = None,
        *,
        spared: int = 0,
    ) -> Stranger | None:
        """
        Give the first that has left us waiting for so long, behind those that are spared.

        Args:
            strangers: Of whom.
            seconds: How long.
            begun_seconds: How long, of those that are under way; None: as long as others.
            spared: So many stay as long as one that is far may.
        """
        now = self.clock()
        for stranger in strangers:
            since, limit = self._silent.get(stranger), seconds
            if since is None:
                since = self._under_way.get(stranger)
                limit = seconds if begun_seconds is None else begun_seconds
            if since is None or since > now - limit or stranger in self._ready:
                continue
            if spared and since > now - FAR_SECONDS:
                spared -= 1
            else:
                return stranger
        return None

    def _last_of(self, group: Mapping[Stranger, None]) -> Stranger:
        """Give one that has said nothing, else whose turn would come last, else the oldest."""
        last = None
        for stranger in group:
            if stranger in self._silent:
                return stranger
            if stranger in self._waiting:
                last = stranger
        return last or next(iter(group))

    def _left_of_oldest(self, seconds: float, begun_seconds: float | None = None) -> float | None:
        """How much of these is left to who has left us waiting for longest; None: nobody has."""
        limits = (seconds, seconds if begun_seconds is None else begun_seconds)
        waits = zip((self._silent, self._under_way), limits, strict=True)
        ends = [next(iter(since.values())) + limit for since, limit in waits if since]
        return min(ends) - self.clock() if ends else None

    def _open_door(self) -> None:
        self._door_timer = None
        stopped, self._stopped_ports = self._stopped_ports, []
        for resume in stopped:
            resume()

    def enter(self, stranger: Stranger, arrived: Stranger | None = None) -> bool:
        """
        Take one in for good that has said nothing yet, for another that was admitted for it.

        False: that one had to give way meanwhile.
        """
        if arrived is None:
            return self.admit(stranger)
        if arrived not in self._inside:
            return False
        self.leave(arrived)
        return self.admit(stranger)

    def wait(self, stranger: Stranger) -> None:
        """Let one begin whose greeting has come, when it is its turn."""
        del self._silent[stranger]
        self._waiting.add(stranger, stranger.source)
        self._plan()

    def go_on(self, stranger: Stranger) -> None:
        """Let one go on that has brought what it was waited for."""
        self._ready.append(stranger)
        self._plan()

    def sent(self, stranger: Stranger) -> None:
        """Count from now for how long one leaves us waiting, whom we have answered just now."""
        if self._under_way.pop(stranger, None) is not None:
            self._under_way[stranger] = self.clock()
            self._shaking.put_last(stranger)
            self._inside.put_last(stranger)

    def linger(self, stranger: Stranger) -> None:
        """Let one that is refused stay to be told why, until the room is needed."""
        self._leave(stranger)
        self._silent[stranger] = self.clock()

    def done(self, stranger: Stranger) -> None:
        """Let one go whose handshake is done."""
        self._done_at[network_of(stranger.source)] = self.clock()
        self.leave(stranger)

    def leave(self, stranger: Stranger) -> None:
        """Forget one that is done, or gone; fine if it is not inside."""
        self._leave(stranger)
        self._inside.discard(stranger)
        if not self._inside.of(stranger.source):
            self._done_at.pop(network_of(stranger.source), None)
        self._porch.discard(stranger)
        if self._porch:
            self._look_soon()
        elif self._stopped_ports and len(self) < self.count_max:
            self._open_door()

    def _leave(self, stranger: Stranger) -> None:
        self._silent.pop(stranger, None)
        self._waiting.discard(stranger)
        if self._under_way.pop(stranger, None) is not None:
            self._shaking.discard(stranger)
            if self._waiting:
                self._plan()

    def failed(self, stranger: Stranger, reason: str) -> None:
        """Tell operators, now and then, why handshakes fail."""
        self._tell(stranger.source, reason)

    def _tell(self, source: str, reason: str) -> None:
        self.failed_count += 1
        if self._telling.is_due(self.clock()):
            logger.warning(
                "a connection from %s ended before its TLS handshake did: %s; %d so far",
                source,
                reason,
                self.failed_count,
            )

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_planned = False
        until = self.clock() + self.settings.handshake_slice_seconds
        while (stranger := self._next()) is not None:
            stranger.proceed()
            if self.clock() >= until:
                if self._ready or self._waiting:
                    self._plan()
                return

    def _next(self) -> Stranger | None:
        while self._ready:
            stranger = self._ready.popleft()
            if stranger in self._under_way:
                return stranger
        if len(self._under_way) < self.settings.handshake_count_max:
            following = self._waiting.take()
        else:
            following = self._waiting.next_of_fewest(self._shaking)
            if following is None or not self._make_room(following.source):
                return None
            self._waiting.discard(following)
        if following is not None:
            self._under_way[following] = self.clock()
            self._shaking.add(following, following.source)
        return following

    def _make_room(self, source: str) -> bool:
        """
        Give up the oldest handshake of those with more of them, for one of this address.

        Where all have as many, only if for a while none of its network has come to its end: a crowd
        of slow clients is no enemy.
        """
        group = self._shaking.greedier(source)
        if group:
            oldest = next(iter(group))
            left = self._under_way[oldest] + self._haste
        else:
            oldest = next(iter(self._shaking.greediest()))
            done_at = self._done_at.get(network_of(oldest.source), 0.0)
            left = max(self._under_way[oldest], done_at) + self._patience
        left -= self.clock()
        if left > 0:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(left, self._look_again)
            return False
        oldest.give_up("it took its time while others waited")
        self.leave(oldest)
        return True

    def _look_again(self) -> None:
        self._timer = None
        self._plan()
