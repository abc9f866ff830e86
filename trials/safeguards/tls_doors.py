"""
What keeps strangers at a port by TLS from holding up or keeping out others, switched off.

A seed's world is a crowd at the door: handshakes that take long, a full queue of connections,
a client that asks for nothing but new keys, and one address that fills the room. Nothing is waited
for: clocks stand or are moved on by what is done, and sockets are things of paper.
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final, cast

from holdfast.transport import tls_connection, turn_slice
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.listener import PortListener
from holdfast.transport.porch import Porch
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls_connection import TlsConnection
from holdfast.transport.tls_records import EMPTY_RECORDS_MAX
from holdfast.transport.turn_slice import UNITS_PER_TURN, TurnSlice
from trials.safeguards.ablation import Ablation, Patch

_SLICE_SECONDS: Final = 0.003
_STEP_SECONDS: Final = 0.002
_ROOM: Final = 20
_ACCEPTED_MAX: Final = 4
_NEW_KEYS: Final = b"\x17\x03\x03\x00\x01\x00"
"""A record with one byte: as long as it counts, what it asks for is all the same."""


class _Stranger:
    """Somebody whose handshake is not done."""

    def __init__(self, source: str, work: Callable[[], None] = lambda: None) -> None:
        self.source = source
        self.proceed = work

    def give_up(self, _reason: str) -> None:
        """Go; the line forgets whom it gives up."""


def _run(world: Coroutine[Any, Any, str]) -> str:
    return asyncio.run(world)


def _line(**given: float) -> Handshakes:
    values = {"stranger_count_max": _ROOM, "handshake_slice_seconds": _SLICE_SECONDS, **given}
    return Handshakes(PortSettings(**values))  # type: ignore[arg-type]


def _come(line: Handshakes, source: str, work: Callable[[], None] = lambda: None) -> bool:
    """Come to the door and wait for the handshake's turn; whether one is let in."""
    if not line.expect(lambda: None):
        return False
    stranger = _Stranger(source, work)
    if not line.admit(stranger):
        return False
    line.wait(stranger)
    return True


def _storm(seed: int) -> str:
    """Say whether handshakes take more of a turn than their slice."""

    async def world() -> str:
        line, now = _line(handshake_count_max=_ROOM), [float(seed)]
        line.clock = lambda: now[0]

        def work() -> None:
            now[0] += _STEP_SECONDS

        for number in range(_ROOM // 2):
            _come(line, f"10.0.0.{number}", work)
        await asyncio.sleep(0)
        spent = now[0] - seed
        is_over = spent > _SLICE_SECONDS + _STEP_SECONDS
        return f"S4: handshakes took {spent * 1000:.0f} ms of one turn" if is_over else ""

    return _run(world())


class _Queue:
    """A listening socket with many at the door."""

    def __init__(self, count: int) -> None:
        self.left = count

    def accept(self) -> tuple[Any, tuple[str, int]]:
        """Give the next one."""
        if not self.left:
            raise BlockingIOError(errno.EAGAIN, "nobody waits")
        self.left -= 1
        nothing = SimpleNamespace(setblocking=lambda _is: None, close=lambda: None)
        return nothing, ("10.0.0.1", 1)


def _failover(seed: int) -> str:
    """Say whether a turn takes in more at the door than it may."""
    count = 100 + seed
    queue = _Queue(count)
    settings = PortSettings(accept_count_max=_ACCEPTED_MAX)
    port = PortListener(asyncio.Protocol, settings, admits=lambda _source: False)
    port._accept(cast("Any", queue))
    taken = count - queue.left
    return f"S4: {taken} connections were taken in one turn" if taken > _ACCEPTED_MAX else ""


def _fill(_seed: int) -> str:
    """Say whether one address keeps those of another out."""

    async def world() -> str:
        line = _line(handshake_patience_seconds=60.0)
        for _ in range(_ROOM):
            _come(line, "10.0.0.1")
        if len(line) != _ROOM:
            return ""
        if not _come(line, "10.0.0.2"):
            return "S13: an address that fills the room keeps another one out"
        return ""

    return _run(world())


class _Comer(_Stranger):
    """Somebody who was taken and waits for a place."""

    has_spoken = True
    has_begun = False
    is_closed = False

    def begin(self) -> None:
        """Have a place, and its greeting there."""
        self.has_begun = True

    def give_up(self, _reason: str) -> None:
        """Be closed."""
        self.is_closed = True


def _come_back(seed: int) -> str:
    """Say whether of a fleet behind one address some are closed, with nobody else there."""

    async def world() -> str:
        settings = PortSettings(stranger_count_max=_ROOM)
        line, now = Handshakes(settings, lent=lambda: 100 * _ROOM), [float(seed)]
        line.clock = lambda: now[0]
        fleet = [_Comer("10.0.0.1") for _ in range(5 * _ROOM)]
        for each in fleet:
            if line.expect(lambda: None):
                line.let_in(each)
        for each in fleet:
            await asyncio.sleep(0)
            now[0] += _STEP_SECONDS
            if each.has_begun:
                line.done(each)
        closed = sum(not it.has_begun for it in fleet)
        return f"S4: {closed} of a fleet of one address were not let in" if closed else ""

    return _run(world())


def _ask_for_keys(_seed: int) -> str:
    """Say whether a client may send records for ever that bring nothing."""

    async def world() -> str:
        aborted: list[bool] = []
        wire = SimpleNamespace(
            abort=lambda: aborted.append(True),
            get_extra_info=lambda _name, _default=None: None,
            pause_reading=lambda: None,
            is_closing=lambda: bool(aborted),
        )
        connection = _opened(wire)
        count = 3 * EMPTY_RECORDS_MAX
        for _ in range(count):
            if aborted:
                return ""
            room = connection.get_buffer(-1)
            room[: len(_NEW_KEYS)] = _NEW_KEYS
            connection.buffer_updated(len(_NEW_KEYS))
            await asyncio.sleep(0)  # Each in a turn of its own: that is no question of slices.
        connection._stop_timer()
        return f"S4: {count} records that bring nothing were read"

    return _run(world())


def _opened(wire: Any) -> TlsConnection:
    """Give a connection whose handshake is done, of whose records OpenSSL makes nothing."""
    line = _line()
    made = TlsConnection(asyncio.Protocol, cast("Any", None), line)
    made.connection_made(wire)
    made._stop_timer()
    line.leave(made)
    made._stage = tls_connection._Stage.OPEN
    made._within = asyncio.Protocol()

    def nothing(*_arguments: object) -> bytes:
        raise ssl.SSLWantReadError

    made._object = cast("Any", SimpleNamespace(read=nothing, pending=lambda: 0))
    made._incoming, made._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return made


def _trickle(_seed: int) -> str:
    """Say whether the records of many take a turn for longer than its slice."""

    async def world() -> str:
        line = TurnSlice()
        done: list[int] = []

        class Sender:
            """Somebody who always has one more record."""

            def work(self) -> None:
                done.append(1)
                if len(done) < 4 * UNITS_PER_TURN:
                    line.wait(self)

        for _ in range(8):
            line.wait(Sender())
        await asyncio.sleep(0)
        count = len(done)
        return f"S4: {count} records were read in one turn" if count > UNITS_PER_TURN else ""

    return _run(world())


def _work_for_as_long_as_there_is_work() -> list[Patch]:
    def work(self: Handshakes) -> None:
        self._is_planned = False
        while (stranger := self._next()) is not None:
            stranger.proceed()

    return [(Handshakes, "_work", work)]


def _take_all_at_the_door() -> list[Patch]:
    accept = PortListener._accept

    def take(self: PortListener, bound: Any) -> None:
        while bound.left:
            accept(self, bound)

    return [(PortListener, "_accept", take)]


def _count_no_addresses() -> list[Patch]:
    return [(Handshakes, "_leaving_for", lambda _self, _source: None)]


def _let_nobody_wait() -> list[Patch]:
    return [(Porch, "count_max", property(lambda _self: 0))]


def _count_no_records() -> list[Patch]:
    return [(TlsConnection, "_judge_records", lambda _self: None)]


def _read_on() -> list[Patch]:
    def turn(self: TurnSlice) -> None:
        self._is_planned = False
        while self._line:
            who = next(iter(self._line))
            del self._line[who]
            who.work()

    return [(turn_slice.TurnSlice, "_turn", turn)]


ABLATIONS = [
    Ablation("handshakes have a slice of a turn", _work_for_as_long_as_there_is_work, lived=_storm),
    Ablation("a turn takes in a few at the door", _take_all_at_the_door, lived=_failover),
    Ablation("an address has a share of the room at the door", _count_no_addresses, lived=_fill),
    Ablation("a fleet waits for its places", _let_nobody_wait, lived=_come_back),
    Ablation("new keys are asked for so often and no more", _count_no_records, lived=_ask_for_keys),
    Ablation("records by TLS have a slice of a turn", _read_on, lived=_trickle),
]
