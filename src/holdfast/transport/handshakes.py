"""
Whose TLS handshake goes on: ten thousand clients come back at once after a failover.

A handshake takes half a millisecond to two of the loop, and one that a stranger begins and leaves
lying takes memory. So few are under way at once, each turn of the loop spends a slice of its time
on them, and whoever has said nothing yet has not even a context. Those that wait are taken from
each address in turn. And where there is no room left for one more, it is made among those of the
address that has the most: who fills it from one machine keeps nobody of another out.

Invariants:
    Never more than `handshake_count_max` handshakes are under way, nor more strangers inside than
    `stranger_count_max`.
    A turn spends no more than its slice and one step of a handshake.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from holdfast.model.networks import network_of
from holdfast.transport.settings import PortSettings
from holdfast.transport.turn_slice import TurnSlice

TELL_SECONDS: Final = 60.0
"""Failed handshakes are told of at most once in this time, with their number."""

HASTE_SECONDS: Final = 0.3
"""So long is left to a handshake under way where one of an address with fewer of them waits."""

_SHARES: Final = 10
_SHARE_MIN: Final = 16

logger = logging.getLogger("holdfast.transport")


class Stranger(Protocol):
    """A connection whose handshake is not done."""

    @property
    def source(self) -> str:
        """The address it came from."""

    def proceed(self) -> None:
        """Do one step of the handshake."""

    def give_up(self, reason: str) -> None:
        """End it: others need the room."""


class Handshakes:
    """The strangers of all of a node's TLS ports."""

    def __init__(self, settings: PortSettings, *, count_max: int | None = None) -> None:
        """`count_max`: how many strangers may be inside, if fewer than the settings say."""
        self.settings = settings
        self.count_max = min(count_max or settings.stranger_count_max, settings.stranger_count_max)
        self.records = TurnSlice()
        """Whose records are worked on, of those whose handshake is done."""
        self.failed_count = 0
        self.share = max(self.count_max // _SHARES, _SHARE_MIN)
        """So many of one address may be inside whoever else comes."""
        self._expected_count = 0
        self.clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        self._inside: dict[str, dict[Stranger, None]] = {}
        """All of them, by where they are from."""
        self._silent: dict[Stranger, float] = {}
        """When they came of whom no whole greeting has, or who are refused; the oldest first."""
        self._lines: dict[str, deque[Stranger]] = {}
        """Those who wait to begin, by where they are from; whose turn it is first."""
        self._waiting_count = 0
        self._under_way: dict[Stranger, float] = {}
        """When each began."""
        self._ready: deque[Stranger] = deque()
        """Those under way who have brought something."""
        self._under_way_of: Counter[str] = Counter()
        self._done_at: dict[str, float] = {}
        """When a handshake came to its end last, by address, while there are others of it."""
        self._is_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._door_timer: asyncio.TimerHandle | None = None
        self._stopped_ports: list[Callable[[], None]] = []
        self._told_at: float | None = None

    def __len__(self) -> int:
        return len(self._silent) + self._waiting_count + len(self._under_way)

    def expect(self, resume: Callable[[], None]) -> bool:
        """
        Keep room for one who is let in at the door, and is asked for by `admits`.

        False: there is none, and `resume` is called once there is.
        """
        has_room = len(self) + self._expected_count < self.count_max
        if has_room or self._greediest() is not None or self._give_up_silent(self._silent):
            self._expected_count += 1
            return True
        self._stopped_ports.append(resume)
        return False

    def admits(self, source: str) -> bool:
        """
        Say whether one who is expected may come in, now that it is known from where it is.

        True: it will `enter`, or is `missed`. False: it is to be `missed`, as its address has its
        share and there is no room for more.
        """
        if len(self) + self._expected_count <= self.count_max:
            return True
        own = self._inside.get(network_of(source), {})
        greediest = None if len(own) >= self.share else self._greediest()
        if greediest is None:
            if self._give_up_silent(it for it in (own or self._silent) if it in self._silent):
                return True
            self._tell(source, "its address has its share, and there is no room for more")
            return False
        self._last_of(greediest).give_up("others came, and its address has more than its share")
        return True

    def _greediest(self) -> str | None:
        """Give the address that has the most inside, if that is more than a share."""
        found = max(self._inside, key=lambda place: len(self._inside[place]), default=None)
        return None if found is None or len(self._inside[found]) <= self.share else found

    def _last_of(self, place: str) -> Stranger:
        """Give who is to go of those of an address: one who said nothing, or who came last."""
        for stranger in self._inside[place]:
            if stranger in self._silent:
                return stranger
        line = self._lines.get(place)
        return line[-1] if line else next(iter(self._inside[place]))

    def _give_up_silent(self, silent: Iterable[Stranger]) -> bool:
        """Give up the oldest that has said nothing, if it had time to; else look again later."""
        oldest = next(iter(silent), None)
        if oldest is None:
            return False
        left = self._silent[oldest] + self.settings.handshake_patience_seconds - self.clock()
        if left > 0:
            if self._door_timer is None:
                loop = asyncio.get_running_loop()
                self._door_timer = loop.call_later(left, self._open_door)
            return False
        oldest.give_up("others came, and it had said nothing")
        return True

    def _open_door(self) -> None:
        self._door_timer = None
        stopped, self._stopped_ports = self._stopped_ports, []
        for resume in stopped:
            resume()

    def missed(self) -> None:
        """Expect one less: it was gone already."""
        self._expected_count -= 1
        self._open_door()

    def enter(self, stranger: Stranger) -> None:
        """Take one who has said nothing yet."""
        self._expected_count -= 1
        self._inside.setdefault(network_of(stranger.source), {})[stranger] = None
        self._silent[stranger] = self.clock()
        if self._stopped_ports and self._greediest() is not None:
            self._open_door()  # Which was shut while it was not known whose share this is.

    def wait(self, stranger: Stranger) -> None:
        """Let one begin whose greeting has come, when it is its turn."""
        del self._silent[stranger]
        self._lines.setdefault(network_of(stranger.source), deque()).append(stranger)
        self._waiting_count += 1
        self._plan()

    def go_on(self, stranger: Stranger) -> None:
        """Let one go on that has brought what it was waited for."""
        self._ready.append(stranger)
        self._plan()

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
        place = network_of(stranger.source)
        own = self._inside.get(place, {})
        own.pop(stranger, None)
        if not own:
            self._inside.pop(place, None)
            self._done_at.pop(place, None)
        if self._stopped_ports and len(self) < self.count_max:
            self._open_door()

    def _leave(self, stranger: Stranger) -> None:
        self._silent.pop(stranger, None)
        if self._under_way.pop(stranger, None) is None:
            self._leave_line(stranger)
            return
        place = network_of(stranger.source)
        self._under_way_of[place] -= 1
        if not self._under_way_of[place]:
            del self._under_way_of[place]
        if self._waiting_count:
            self._plan()

    def failed(self, stranger: Stranger, reason: str) -> None:
        """Tell operators, now and then, why handshakes fail."""
        self._tell(stranger.source, reason)

    def _tell(self, source: str, reason: str) -> None:
        self.failed_count += 1
        now = self.clock()
        if self._told_at is None or now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            logger.warning(
                "a connection from %s ended before its TLS handshake did: %s; %d so far",
                source,
                reason,
                self.failed_count,
            )

    def _leave_line(self, stranger: Stranger) -> None:
        place = network_of(stranger.source)
        line = self._lines.get(place)
        if line is not None and stranger in line:
            line.remove(stranger)
            self._waiting_count -= 1
            if not line:
                del self._lines[place]

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
                if self._ready or self._waiting_count:
                    self._plan()
                return

    def _next(self) -> Stranger | None:
        while self._ready:
            stranger = self._ready.popleft()
            if stranger in self._under_way:
                return stranger
        if not self._waiting_count:
            return None
        place = next(iter(self._lines))
        if len(self._under_way) >= self.settings.handshake_count_max:
            place = min(self._lines, key=self._under_way_of.__getitem__)
            if not self._make_room(place):
                return None
        line = self._lines.pop(place)
        stranger = line.popleft()
        self._waiting_count -= 1
        if line:
            self._lines[place] = line  # The others first.
        self._under_way[stranger] = self.clock()
        self._under_way_of[place] += 1
        return stranger

    def _make_room(self, place: str) -> bool:
        """
        Give up the oldest handshake of the address with the most, for one of this address.

        Where that has as many itself, only if for a while none of them has come to its end: a crowd
        of slow clients is no enemy.
        """
        most = max(self._under_way_of, key=self._under_way_of.__getitem__)
        oldest = next(it for it in self._under_way if network_of(it.source) == most)
        began = self._under_way[oldest]
        if self._under_way_of[most] > self._under_way_of[place] + 1:
            left = began + min(HASTE_SECONDS, self.settings.handshake_patience_seconds)
        else:
            began = max(began, self._done_at.get(most, 0.0))
            left = began + self.settings.handshake_patience_seconds
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
