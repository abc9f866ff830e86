"""
Whose TLS handshake goes on: ten thousand clients come back at once after a failover.

A handshake takes half a millisecond to two of the loop, and one that a stranger begins and leaves
lying takes memory. So few are under way at once, each turn of the loop spends a slice of its time
on them, and whoever has said nothing yet has not even a context. Those that wait are taken from
each address in turn: who fills the line from one machine does not hold up another.

Invariants:
    Never more than `handshake_count_max` handshakes are under way, nor more strangers inside than
    `stranger_count_max`.
    A turn spends no more than its slice and one step of a handshake.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from holdfast.transport.settings import PortSettings
from holdfast.transport.turn_slice import TurnSlice

TELL_SECONDS: Final = 60.0
"""Failed handshakes are told of at most once in this time, with their number."""

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
        self._expected_count = 0
        self.clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        self._silent: dict[Stranger, float] = {}
        """When they came of whom no whole greeting has, or who are refused; the oldest first."""
        self._lines: dict[str, deque[Stranger]] = {}
        """Those who wait to begin, by where they are from; whose turn it is first."""
        self._waiting_count = 0
        self._under_way: dict[Stranger, float] = {}
        """When each began."""
        self._ready: deque[Stranger] = deque()
        """Those under way who have brought something."""
        self._is_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._door_timer: asyncio.TimerHandle | None = None
        self._stopped_ports: list[Callable[[], None]] = []
        self._done_at = 0.0
        """When a handshake came to its end last."""
        self._told_at: float | None = None

    def __len__(self) -> int:
        return len(self._silent) + self._waiting_count + len(self._under_way)

    def expect(self, resume: Callable[[], None]) -> bool:
        """
        Keep room for one who is let in at the door, and will `enter` or is `missed`.

        False: there is none, and `resume` is called once there is.
        """
        if len(self) + self._expected_count < self.count_max or self._give_up_silent():
            self._expected_count += 1
            return True
        self._stopped_ports.append(resume)
        return False

    def _give_up_silent(self) -> bool:
        """Give up the oldest that has said nothing, if it had time to; else look again later."""
        if not self._silent:
            return False
        oldest, came = next(iter(self._silent.items()))
        left = came + self.settings.handshake_patience_seconds - self.clock()
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
        self._silent[stranger] = self.clock()

    def wait(self, stranger: Stranger) -> None:
        """Let one begin whose greeting has come, when it is its turn."""
        del self._silent[stranger]
        self._lines.setdefault(stranger.source, deque()).append(stranger)
        self._waiting_count += 1
        self._plan()

    def go_on(self, stranger: Stranger) -> None:
        """Let one go on that has brought what it was waited for."""
        self._ready.append(stranger)
        self._plan()

    def linger(self, stranger: Stranger) -> None:
        """Let one that is refused stay to be told why, until the room is needed."""
        self.leave(stranger)
        self._silent[stranger] = self.clock()

    def done(self, stranger: Stranger) -> None:
        """Let one go whose handshake is done."""
        self._done_at = self.clock()
        self.leave(stranger)

    def leave(self, stranger: Stranger) -> None:
        """Forget one that is done, or gone; fine if it is not inside."""
        self._silent.pop(stranger, None)
        if self._under_way.pop(stranger, None) is None:
            self._leave_line(stranger)
        elif self._waiting_count:
            self._plan()
        if self._stopped_ports and len(self) < self.count_max:
            self._open_door()

    def failed(self, stranger: Stranger, reason: str) -> None:
        """Tell operators, now and then, why handshakes fail."""
        self.failed_count += 1
        now = self.clock()
        if self._told_at is None or now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            logger.warning(
                "a connection from %s ended before its TLS handshake did: %s; %d so far",
                stranger.source,
                reason,
                self.failed_count,
            )

    def _leave_line(self, stranger: Stranger) -> None:
        line = self._lines.get(stranger.source)
        if line is not None and stranger in line:
            line.remove(stranger)
            self._waiting_count -= 1
            if not line:
                del self._lines[stranger.source]

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
        if len(self._under_way) >= self.settings.handshake_count_max and not self._make_room():
            return None
        source, line = next(iter(self._lines.items()))
        stranger = line.popleft()
        self._waiting_count -= 1
        del self._lines[source]
        if line:
            self._lines[source] = line  # The others first.
        self._under_way[stranger] = self.clock()
        return stranger

    def _make_room(self) -> bool:
        """
        Give up the oldest handshake, where for a while none has come to its end.

        As long as some do, room is made by them: a crowd of slow clients is no enemy.
        """
        oldest, began = next(iter(self._under_way.items()))
        left = max(began, self._done_at) + self.settings.handshake_patience_seconds - self.clock()
        if left > 0:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(left, self._look_again)
            return False
        oldest.give_up("it took its time while others waited")
        self._under_way.pop(oldest, None)
        return True

    def _look_again(self) -> None:
        self._timer = None
        self._plan()
