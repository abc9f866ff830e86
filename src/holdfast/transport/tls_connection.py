"""
TLS between a socket and whoever serves its client, without a buffer of its own for each.

The transports of asyncio and uvloop begin a handshake as soon as bytes come, however many begin at
once, and keep up to a quarter of a megabyte for each connection. Here a handshake goes on when it
is its turn (`handshakes`), and all connections are read by way of one buffer. To the protocol
within it is the transport, as asyncio has them; it is made once it is known who is there.

Invariants:
    Of what has come and is not taken yet, no more is kept than one read and one record.
    Of what is to be sent, no more is sealed than the socket is about to take: the rest stays as it
    was given, which others may be given too.
    The protocol within hears `connection_made` once, after the handshake, and `connection_lost`
    once if it heard that.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from holdfast.model.limits import KiB, MiB
from holdfast.transport.ends import address_of
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.porch import Stranger
from holdfast.transport.tls import ServerTls
from holdfast.transport.tls_faults import refused_because
from holdfast.transport.tls_records import EMPTY_RECORDS_MAX, RecordCount
from holdfast.transport.tls_sealing import RECORD_BYTES, Piece, Sealing, joined
from holdfast.transport.unread import UNREAD, holds_unread

READ_BYTES_MAX: Final = 64 * KiB
"""So much is read and decrypted at once, in less than a tenth of a millisecond."""

LINGER_SECONDS: Final = 1.0
"""How long one that is refused may take to read why."""

_STRANGERS_READ_BYTES: Final = 4 * KiB
_RECORD_HEAD_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = _RECORD_HEAD_BYTES + RECORD_BYTES + 256
RECORDS_AT_ONCE: Final = 64
"""So many are given to OpenSSL at once, and what has come of them is handed on."""

_BYTES_PER_UNIT: Final = 8 * KiB
_UNITS_TO_GO_ON: Final = 32
"""Of a turn's slice, for what is decrypted that was fed before."""

_GREETING: Final = b"\x16\x03"
"""RFC 8446, 5.1: a record of a handshake, of any version."""

_ROOM: Final = memoryview(bytearray(READ_BYTES_MAX))
"""Where all of them are read; what is there is taken before the next is."""

PlainAnswer = bytes | Callable[[asyncio.Transport], bytes]


class _Stage(enum.Enum):
    SILENT = 0
    WAITING = 1
    SHAKING = 2
    OPEN = 3
    CLOSING = 4


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """One connection, a protocol to the socket and a transport to the protocol within."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls,
        handshakes: Handshakes,
        *,
        plain_answer: PlainAnswer = b"",
        arrived: Stranger | None = None,
    ) -> None:
        """
        Serve whoever finishes a handshake with a protocol of its own.

        Args:
            plain_answer: What is sent to a client that speaks in clear.
            arrived: In whose place it is, of those whom `handshakes` has admitted.
        """
        self._make_protocol = make_protocol
        self._tls = tls
        self._handshakes = handshakes
        self._plain_answer = plain_answer
        self._arrived = arrived
        self._stage = _Stage.SILENT
        self._within: Any = None
        self._is_within_buffered = False
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._greeting = b""
        self._context: ssl.SSLContext
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._object: ssl.SSLObject
        self._records = RecordCount()
        self._empty_count = 0
        """Records that have come, less those that were read, less one for each MiB of these."""
        self._read_bytes = 0
        """What was read since one of them was forgiven."""
        self._is_paused = False
        """The protocol within wants nothing more for now."""
        self._is_fed = False
        """Something may be decrypted that was not, as it was paused."""
        self._held = memoryview(b"")
        """What was read and waits for its turn; nothing more is read meanwhile."""
        self._sealing: Sealing | None = None
        self.source = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.source = address_of(transport, "?")
        self._start_timer()
        if not self._handshakes.enter(self, self._arrived):
            self.give_up("others came before it was there")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._forget()
        if self._within is None:
            if self._stage is not _Stage.CLOSING:
                self._handshakes.failed(self, "its other end closed it")
            self._stage = _Stage.CLOSING
            self._handshakes.leave(self)
            return
        self._stage = _Stage.CLOSING
        self._within.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._within is None:
            return _ROOM[:_STRANGERS_READ_BYTES]
        room = _ROOM if self._handshakes.records.is_open else _ROOM[:RECORD_BYTES]
        if self._is_within_buffered:
            return room[: len(self._within.get_buffer(-1))]
        return room

    def buffer_updated(self, nbytes: int) -> None:
        data = _ROOM[:nbytes]
        if self._stage is _Stage.OPEN:
            self._take(data)
        elif self._stage is _Stage.SILENT:
            self._greet(bytes(data))
        elif self._stage is _Stage.SHAKING:
            self._feed(data, _STRANGERS_READ_BYTES)
            self._transport.pause_reading()
            self._handshakes.go_on(self)

    def eof_received(self) -> bool | None:
        if self._sealing is not None and self._stage is _Stage.OPEN:
            self._within.eof_received()
            if self._sealing.bytes:
                self.close()
                return True  # Or what waits to be sealed would be lost.
        return None

    def pause_writing(self) -> None:
        if self._sealing is not None:
            self._sealing.socket_is_full()

    def resume_writing(self) -> None:
        if self._sealing is not None:
            self._sealing.socket_has_room()

    def _greet(self, data: bytes) -> None:
        """Wait for the first record to be whole: until then there is nothing to be worked out."""
        greeting = self._greeting = self._greeting + data
        if not greeting.startswith(_GREETING[: len(greeting)]):
            self._refuse_plain()
            return
        if len(greeting) < _RECORD_HEAD_BYTES:
            return
        size = _RECORD_HEAD_BYTES + int.from_bytes(greeting[3:5], "big")
        if size > _RECORD_BYTES_MAX:
            self.give_up("its first record is longer than any may be")
        elif len(greeting) >= size:
            self._stage = _Stage.WAITING
            self._stop_timer()  # It is we who take our time now.
            self._transport.pause_reading()
            self._handshakes.wait(self)

    def _refuse_plain(self) -> None:
        self._greeting = b""
        answer = self._plain_answer
        self._transport.write(answer if isinstance(answer, bytes) else answer(self._transport))
        self._linger("it spoke in clear, where TLS is spoken")

    def proceed(self) -> None:
        """Do one step of the handshake; when it is done, let the protocol within begin."""
        if self._stage is _Stage.WAITING:
            self._begin()
        if self._stage is not _Stage.SHAKING:
            return
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            self._transport.resume_reading()
            return
        except (ssl.SSLError, ValueError) as error:
            self._send()  # Which says why, in the way of TLS.
            self._shaking_failed(error)
            return
        self._open()

    def _shaking_failed(self, error: Exception) -> None:
        self._linger(refused_because(error))

    def _broken(self, _error: Exception) -> None:
        """End it: it was tampered with on its way, or is no TLS any more."""
        self.abort()

    def _begin(self) -> None:
        self._stage = _Stage.SHAKING
        self._start_timer()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._wrap()
        self._feed(memoryview(self._greeting), _RECORD_BYTES_MAX + _STRANGERS_READ_BYTES)
        self._greeting = b""

    def _wrap(self) -> None:
        self._context = self._tls.context
        self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _open(self) -> None:
        self._stage = _Stage.OPEN
        # Kept: OpenSSL tells nothing of it any more once something made no sense to it.
        self._certificate: dict[str, Any] | None = self._object.getpeercert() or None
        self._empty_count = 0
        self._stop_timer()
        self._handshakes.done(self)
        self._send()
        self._within = self._make_protocol()
        self._sealing = Sealing(
            (self._object, self._outgoing),
            self._transport,
            self._within,
            self._handshakes.records,
            self.abort,
        )
        self._is_within_buffered = isinstance(self._within, asyncio.BufferedProtocol)
        self._within.connection_made(self)
        if self._stage is _Stage.OPEN and not self._is_paused:
            self._transport.resume_reading()
            self._decrypt()
        else:
            self._is_fed = True

    def give_up(self, reason: str) -> None:
        """End one whose handshake is not done."""
        if self._stage is not _Stage.CLOSING:
            self._handshakes.failed(self, reason)
        self._stage = _Stage.CLOSING
        self._handshakes.leave(self)
        self._transport.abort()

    def _linger(self, reason: str) -> None:
        """Let it read why, and close: with its words unread it would hear of a reset only."""
        self._handshakes.failed(self, reason)
        self._stage = _Stage.CLOSING
        self._handshakes.linger(self)
        self._stop_timer()
        if self._transport.is_closing():
            return
        self._set_timer(LINGER_SECONDS, self._transport.abort)
        self._transport.resume_reading()
        self._transport.write_eof()

    def _start_timer(self) -> None:
        self._set_timer(self._handshakes.settings.handshake_seconds_max, self._time_is_up)

    def _time_is_up(self) -> None:
        """Give it up; what has come and was not read yet, as we were late, is read first."""
        seconds = LINGER_SECONDS if holds_unread(self._transport) else 0.0
        self._set_timer(seconds, self.give_up, "it took too long")

    def _set_timer(self, seconds: float, work: Callable[..., None], *words: str) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, work, *words)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, data: memoryview) -> None:
        """Decrypt what has come, as far as this turn goes; the rest waits for the next."""
        records = self._handshakes.records
        while data and self._stage is _Stage.OPEN and not self._is_paused and records.is_open:
            data = self._take_piece(data)
        if data and not self.is_closing():
            self._held = memoryview(bytes(data))
            self._transport.pause_reading()
            if not self._is_paused:
                records.wait(self)

    def _take_piece(self, data: memoryview) -> memoryview:
        """Decrypt a piece, so that what OpenSSL keeps stays as large as it ever was."""
        size = self._feed(data[:RECORD_BYTES])
        self._decrypt()
        return data[size:]

    def work(self) -> None:
        """Decrypt a piece of what waits, in its turn; read again when there is no more."""
        if self._is_wanted and self._is_fed:
            self._is_fed = False
            self._handshakes.records.spend(_UNITS_TO_GO_ON)
            self._decrypt()
        if self._is_wanted and self._held:
            self._held = self._take_piece(self._held)
        if self.is_reading():
            if self._held:
                self._handshakes.records.wait(self)
            else:
                self._transport.resume_reading()

    @property
    def _is_wanted(self) -> bool:
        return self._stage is _Stage.OPEN and not self._is_paused

    def _judge_records(self) -> None:
        """End a connection whose records bring nothing; what is held while it waits may yet."""
        forgiven, self._read_bytes = divmod(self._read_bytes, MiB)
        self._empty_count = max(self._empty_count - forgiven, 0)
        if self._empty_count > EMPTY_RECORDS_MAX and not self._is_paused:
            self.abort()

    def _feed(self, data: memoryview, count_max: int = RECORDS_AT_ONCE) -> int:
        """Give what has come to OpenSSL, up to so many records; how much that was."""
        count, size = self._records.take(data, count_max)
        self._empty_count += count
        self._handshakes.records.spend(count + size // _BYTES_PER_UNIT)
        self._incoming.write(data[:size])
        return size

    def _decrypt(self) -> None:
        """Hand on what has come, until there is no more or no more is wanted."""
        try:
            while self._stage is _Stage.OPEN:
                if self._is_paused:
                    self._is_fed = True
                    break
                if not (self._fill_buffer() if self._is_within_buffered else self._give_piece()):
                    break
        except (ssl.SSLError, ValueError) as error:
            self._broken(error)
        if self._stage is _Stage.OPEN:
            if self._outgoing.pending:
                self._send()  # The other end asked for new keys.
            self._judge_records()

    def _fill_buffer(self) -> bool:
        """Fill the buffer of the protocol within; whether there may be more."""
        room = self._within.get_buffer(-1)
        filled, count = 0, 1
        try:
            while count and filled < len(room):
                left = len(room) - filled
                count = cast("int", self._object.read(left, room[filled:]))
                filled += count
                if count < left or not self._object.pending():
                    self._empty_count -= 1  # This was the end of one.
        except ssl.SSLWantReadError:
            count = -1
        if filled:
            self._read_bytes += filled
            self._within.buffer_updated(filled)
        if not count:
            self._other_end_closed()
        return count > 0

    def _give_piece(self) -> bool:
        try:
            data = self._object.read(READ_BYTES_MAX)
        except ssl.SSLWantReadError:
            return False
        if data:
            self._empty_count -= 1
            self._read_bytes += len(data)
            self._within.data_received(data)
        else:
            self._other_end_closed()
        return bool(data)

    def _other_end_closed(self) -> None:
        if self._stage is _Stage.OPEN:
            self._within.eof_received()
            self.close()

    def _send(self) -> None:
        if (data := self._outgoing.read()) and not self._transport.is_closing():
            self._transport.write(data)
            self._handshakes.sent(self)

    def write(self, data: Piece) -> None:
        """
        Send this; nothing happens on a connection that is closing.

        What is large and cannot be changed is not copied before its time comes to be sealed.
        """
        if self._sealing is not None and self._stage is _Stage.OPEN and data:
            self._sealing.write(data)

    def writelines(self, list_of_data: Iterable[Piece]) -> None:
        """Send them one behind the other, each as by `write`: many may be sent the same."""
        for piece in joined(list_of_data):
            self.write(piece)

    def close(self) -> None:
        """Say that this is the end, and close when all is sent."""
        if self._sealing is not None and self._stage is _Stage.OPEN:
            self._stage = _Stage.CLOSING
            if not self._transport.is_closing():
                self._transport.pause_reading()
            self._sealing.end(self._say_end)
        elif self._sealing is None or not self._sealing.bytes:
            self._transport.close()

    def _say_end(self) -> None:
        with contextlib.suppress(ssl.SSLError, ValueError):
            self._object.unwrap()
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """End it here and now."""
        self._stage = _Stage.CLOSING
        self._forget()
        self._transport.abort()

    def _forget(self) -> None:
        """Let go of what waits for its turn."""
        self._handshakes.records.leave(self)
        self._held = memoryview(b"")
        if self._sealing is not None:
            self._sealing.forget()

    def is_closing(self) -> bool:
        """Whether it is, or was, closed."""
        return self._stage is _Stage.CLOSING or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Hand nothing more to the protocol within, and read nothing."""
        if not self._is_paused and not self.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on, with what has come already first."""
        if not self._is_paused or self.is_closing():
            return
        self._is_paused = False
        if self._is_fed or self._held:
            self._handshakes.records.wait(self)
        else:
            self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Whether the protocol within is given what comes."""
        return not self._is_paused and not self.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Bound what waits to be sealed, and what waits for the socket."""
        if self._sealing is not None:
            self._sealing.set_high(high)
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """How much waits to be sealed, and for the socket as it goes over the wire."""
        waiting = 0 if self._sealing is None else self._sealing.bytes
        return waiting + self._transport.get_write_buffer_size()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Give the protocol within."""
        return cast("asyncio.BaseProtocol", self._within)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """
        Tell what asyncio's own transports tell.

        `peercert` is the certificate that the client has shown, as `ssl.SSLSocket.getpeercert`
        gives it, checked against the authorities of the port; None if it has shown none.
        """
        if self._within is not None or self._stage is _Stage.OPEN:
            if name == "peercert":
                return self._certificate
            if name == "ssl_object":
                return self._object
            if name == "sslcontext":
                return self._context
            if name == UNREAD and (self._held or self._is_fed):
                return True
        return self._transport.get_extra_info(name, default)
