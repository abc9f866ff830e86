"""
What one connection by TLS is to be sent: kept as it was given until the socket is about to take it.

A large message that goes to many is the same bytes for all of them, as long as it is not sealed:
sealed at once for each it would be that many times as much memory, and a stop of the loop. So some
is sealed when the socket has taken what was sealed before, in a slice of each turn.

Invariants:
    Of what waits no more is sealed than the socket's own limit and one piece, beside what is small.
    The protocol within hears `pause_writing` and `resume_writing` in turn, as by any transport.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from holdfast.model.limits import KiB
from holdfast.transport.turn_slice import TurnSlice

RECORD_BYTES: Final = 16 * KiB
"""So much is in a record at most."""

SHARED_BYTES: Final = 64 * KiB
"""From this size on a piece stays as it was given; shorter neighbours are sealed as one."""

_SEALED_AT_ONCE: Final = 8
"""Records of that size, in a tenth of a millisecond or two."""

_UNITS_PER_RECORD: Final = 4
_HIGH_BYTES: Final = 64 * KiB

Piece: TypeAlias = bytes | bytearray | memoryview


class Sealing:
    """One direction of one connection, from its handshake on."""

    __slots__ = (
        *("_abort", "_is_full", "_is_socket_full", "_line", "_pieces", "_sealed", "_sealer"),
        *("_then", "_transport", "_within", "bytes", "high_bytes"),
    )

    def __init__(
        self,
        ends: tuple[ssl.SSLObject, ssl.MemoryBIO],
        transport: asyncio.Transport,
        within: asyncio.BaseProtocol,
        line: TurnSlice,
        abort: Callable[[], None],
    ) -> None:
        """
        Begin with nothing.

        Args:
            ends: Where plain bytes go in and where they come out sealed.
            within: Who is told to wait.
            abort: Called where nothing can be sealed any more.
        """
        self._sealer, self._sealed = ends
        self._transport = transport
        self._within = within
        self._line = line
        self._abort = abort
        self._pieces: deque[memoryview] = deque()
        self.bytes = 0
        """What waits."""
        self.high_bytes = _HIGH_BYTES
        """What may wait before the protocol within is told."""
        self._is_socket_full = False
        self._is_full = False
        """The protocol within was told."""
        self._then: Callable[[], None] | None = None

    def set_high(self, high: int | None) -> None:
        """Say how much may wait before the protocol within is told; None: as by default."""
        self.high_bytes = _HIGH_BYTES if high is None else high

    def write(self, data: Piece) -> None:
        """Send this; it is copied only if it may be changed, or is small."""
        view = memoryview(data)
        if not view.readonly:
            view = memoryview(bytes(view))
        is_small = not self._pieces and len(view) <= RECORD_BYTES
        self._pieces.append(view)
        self.bytes += len(view)
        if is_small:
            self._seal()
        while self._pieces and not self._is_socket_full and self._line.is_open:
            self._seal()
        if self._pieces:
            if not self._is_socket_full:
                self._line.wait(self)
            if self.bytes > self.high_bytes:
                self._tell_full()

    def end(self, then: Callable[[], None]) -> None:
        """Call this when nothing waits any more."""
        if self._pieces:
            self._then = then
        else:
            then()

    def forget(self) -> None:
        """Let go of what waits: nobody will take it."""
        self._line.leave(self)
        self._pieces.clear()
        self.bytes = 0
        self._then = None

    def socket_is_full(self) -> None:
        """Seal no more for now."""
        self._is_socket_full = True
        self._tell_full()

    def socket_has_room(self) -> None:
        """Go on."""
        self._is_socket_full = False
        if self._pieces:
            self._line.wait(self)
        else:
            self._tell_drained()

    def work(self) -> None:
        """Seal a piece of what waits, in its turn."""
        if self._is_socket_full or not self._pieces or self._transport.is_closing():
            return
        self._seal()
        if self._pieces:
            if not self._is_socket_full:
                self._line.wait(self)
        elif self._then is not None:
            self._then()
        elif not self._is_socket_full:
            self._tell_drained()

    def _seal(self) -> None:
        pieces = self._pieces
        sealed: list[bytes] = []
        try:
            while pieces and len(sealed) < _SEALED_AT_ONCE:
                count = self._sealer.write(pieces[0][:RECORD_BYTES])
                sealed.append(self._sealed.read())
                self.bytes -= count
                if count < len(pieces[0]):
                    pieces[0] = pieces[0][count:]
                else:
                    pieces.popleft()
        except ssl.SSLError:
            self.forget()
            self._abort()
            return
        self._line.spend(_UNITS_PER_RECORD * len(sealed))
        self._transport.write(sealed[0] if len(sealed) == 1 else b"".join(sealed))

    def _tell_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            self._within.pause_writing()

    def _tell_drained(self) -> None:
        if self._is_full:
            self._is_full = False
            self._within.resume_writing()


def joined(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """
    Give short neighbours as one and each large piece as it is, in their order.

    A record for each short one would be dear, and a copy of each large one is a stop of the loop.
    """
    pieces = list(pieces)
    if max(map(len, pieces), default=0) < SHARED_BYTES:
        return (b"".join(pieces),)
    return _with_short_ones_joined(pieces)


def _with_short_ones_joined(pieces: list[Piece]) -> Iterator[Piece]:
    short: list[Piece] = []
    for piece in pieces:
        if len(piece) < SHARED_BYTES:
            short.append(piece)
            continue
        yield b"".join(short)
        yield piece
        short.clear()
    yield b"".join(short)
