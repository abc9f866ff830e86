"""
TLS between a socket and a protocol, spoken with Python's own client: by hand, without a socket.
"""

from __future__ import annotations

import _ssl
import asyncio
import ctypes
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls
from holdfast.transport.tls_connection import READ_BYTES_MAX, RECORDS_AT_ONCE, TlsConnection
from holdfast.transport.tls_records import EMPTY_RECORDS_MAX, RecordCount
from holdfast.transport.tls_sealing import SHARED_BYTES
from holdfast.transport.turn_slice import UNITS_PER_TURN

PLAIN_ANSWER = b"in clear?"


class Wire:
    """The socket's transport, which a test reads."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_reading = True
        self.is_closed = self.is_aborted = self.is_half_closed = False
        self.limits: tuple[int | None, int | None] = (None, None)
        self.opened: object = None

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.sent += data

    def write_eof(self) -> None:
        self.is_half_closed = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        assert not self.is_closed, "as uvloop has it"
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("10.0.0.9", 4711), "socket": self.opened}.get(name, default)


class Within(asyncio.BufferedProtocol):
    """Whoever is served, as a client's connection of a node is: read by way of one buffer."""

    room_bytes = READ_BYTES_MAX

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.received = b""
        self.pauses_after: int | None = None
        self.transport: Any = None
        self._room = memoryview(bytearray(self.room_bytes))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.heard.append("made")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._room[:nbytes]))

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.pauses_after is not None and len(self.received) >= self.pauses_after:
            self.pauses_after = None
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self.heard.append("eof")

    def pause_writing(self) -> None:
        self.heard.append("full")

    def resume_writing(self) -> None:
        self.heard.append("drained")

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")


class NarrowlyWithin(Within):
    """The same of a node with many clients, who have little room each."""

    room_bytes = 4096


class PlainlyWithin(asyncio.Protocol):
    """The same as an operator's connection is: it is given pieces."""

    __init__ = Within.__init__
    room_bytes = 1
    connection_made = Within.connection_made
    data_received = Within.data_received
    eof_received = Within.eof_received
    connection_lost = Within.connection_lost


class Pair:
    """A client of Python's, and a connection that serves it."""

    def __init__(self, options: Any, within: type = Within, **settings: float) -> None:
        self.handshakes = Handshakes(PortSettings(**settings))  # type: ignore[arg-type]
        self.wire = Wire()
        self.within: Any = None
        self.server = TlsConnection(
            self._made, ServerTls(options), self.handshakes, plain_answer=PLAIN_ANSWER
        )
        self._kind = within
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client: ssl.SSLObject
        self.server.connection_made(self.wire)  # type: ignore[arg-type]

    def _made(self) -> Any:
        assert self.within is None, "it is made once"
        self.within = self._kind()
        return self.within

    def dial(self, ca: Path, own: Path | None = None, version: str = "TLSv1_3") -> None:
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        if own is not None:
            context.load_cert_chain(own)
        self.client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def bring(self, data: bytes) -> None:
        """Give the server bytes as a socket does, as long as it is read."""
        while data and self.wire.is_reading and not self.wire.is_closed:
            room = self.server.get_buffer(-1)
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            self.server.buffer_updated(len(piece))
        self._left = data

    async def brings(self, data: bytes) -> None:
        """The same over as many turns as it takes."""
        self.bring(data)
        while not self.wire.is_closed and (self._left or not self.wire.is_reading):
            await asyncio.sleep(0)
            if self.wire.is_reading:
                self.bring(self._left)

    async def shake(self) -> None:
        """Let both ends say all that they have to say."""
        data = b""
        is_done = False
        for _ in range(10):
            if not is_done:
                try:
                    self.client.do_handshake()
                    is_done = True
                except ssl.SSLWantReadError:
                    pass
            data += self._outgoing.read()
            self.bring(data)
            data = self._left
            await asyncio.sleep(0)
            self._incoming.write(self.wire.sent)
            self.wire.sent = b""

    def says(self, text: bytes) -> bytes:
        """What the client's words are on the wire."""
        for start in range(0, len(text), 16384):
            self.client.write(text[start : start + 16384])
        return self._outgoing.read()

    def hears(self) -> bytes:
        """What the client reads."""
        self._incoming.write(self.wire.sent)
        self.wire.sent = b""
        found = b""
        try:
            while data := self.client.read(65536):
                found += data
        except ssl.SSLWantReadError:
            pass
        return found


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(scenario())


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("within", [Within, NarrowlyWithin, PlainlyWithin])
def test_what_is_said_is_heard(options, certificates: Path, within, version: str) -> None:
    """In both versions, by both kinds of protocol, in pieces larger than any buffer."""

    async def work() -> None:
        pair = Pair(options(), within)
        pair.dial(certificates / "ca.pem", version=version)
        assert pair.within is None
        await pair.shake()
        assert pair.within.heard == ["made"]
        assert len(pair.handshakes) == 0
        words = bytes(range(256)) * 1200
        pair.bring(pair.says(words))
        assert pair.within.received == words
        pair.server.write(words)
        pair.server.writelines([b"and ", b"more"])
        assert pair.hears() == words + b"and more"

    run(work)


def test_who_asks_who_is_there_is_told_as_by_asyncio(options, certificates: Path) -> None:
    """The certificate that was shown and checked; the socket's own facts beside it."""

    async def work() -> None:
        pair = Pair(options(client="wanted"))
        assert pair.server.get_extra_info("sslcontext") is None
        pair.dial(certificates / "ca.pem", certificates / "joe.pem")
        await pair.shake()
        shown = pair.server.get_extra_info("peercert")
        assert shown["subject"] == ((("commonName", "joe"),),)
        assert pair.server.get_extra_info("sslcontext") is not None
        assert pair.server.get_extra_info("ssl_object").version() == "TLSv1.3"
        assert pair.server.get_extra_info("peername") == ("10.0.0.9", 4711)
        assert pair.server.get_protocol() is pair.within
        silent = Pair(options(client="wanted"))
        silent.dial(certificates / "ca.pem")
        await silent.shake()
        assert silent.server.get_extra_info("peercert") is None

    run(work)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (None, "it showed no certificate, and one is required"),
        ("stranger.pem", "its certificate is refused: unable to get local issuer certificate"),
    ],
)
def test_who_shows_nothing_good_is_refused_and_told(
    options, certificates: Path, caplog: pytest.LogCaptureFixture, own, why: str
) -> None:
    """
    Nobody is served; the other end reads an alert and may close, before it is closed on.
    """

    async def work() -> None:
        pair = Pair(options(client="required"))
        pair.dial(certificates / "ca.pem", certificates / own if own else None)
        await pair.shake()
        assert pair.within is None
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            pair.hears()
        assert pair.wire.is_half_closed
        assert not pair.wire.is_closed
        assert len(pair.handshakes) == 1
        pair.bring(b"what it had said already")
        pair.server.eof_received()
        pair.server.connection_lost(None)
        assert len(pair.handshakes) == 0

    run(work)
    assert why in caplog.text
    assert caplog.text.count("ended before") == 1


@pytest.mark.parametrize("start", [b"CONNECT\n\n\0", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x02"])
def test_who_speaks_in_clear_is_told_so(options, start: bytes, caplog) -> None:
    """By its first byte; it would wait for an answer, and the port for a handshake."""

    async def work() -> None:
        pair = Pair(options())
        pair.bring(start)
        assert pair.wire.sent == PLAIN_ANSWER
        assert pair.wire.is_half_closed
        assert pair.within is None

    run(work)
    assert "it spoke in clear, where TLS is spoken" in caplog.text


def test_half_a_greeting_costs_nothing_but_its_bytes(options, certificates: Path) -> None:
    """It stands in no line, and has no context: who says no more goes by time, or for others."""

    async def work() -> None:
        pair = Pair(options(), handshake_seconds_max=0.1)
        pair.dial(certificates / "ca.pem")
        with pytest.raises(ssl.SSLWantReadError):
            pair.client.do_handshake()
        greeting = pair._outgoing.read()
        for byte in greeting[:-1]:
            pair.bring(bytes((byte,)))
        await asyncio.sleep(0)
        assert pair.wire.sent == b""
        assert not hasattr(pair.server, "_object")
        while not pair.wire.is_aborted:
            await asyncio.sleep(0)
        assert len(pair.handshakes) == 0

    run(work)


def test_a_greeting_that_came_in_time_is_read_though_the_loop_was_late(
    options, certificates: Path
) -> None:
    """A loop that was stopped hears that the time is up before it hears of the greeting."""

    async def work() -> None:
        pair = Pair(options(), handshake_seconds_max=0.05)
        pair.dial(certificates / "ca.pem")
        with pytest.raises(ssl.SSLWantReadError):
            pair.client.do_handshake()
        here, there = socket.socketpair()
        with here, there:
            pair.wire.opened = here
            there.send(pair._outgoing.read())
            late = asyncio.get_running_loop().time() + 0.1
            while asyncio.get_running_loop().time() < late:
                await asyncio.sleep(0)
            assert not pair.wire.is_aborted
            pair.bring(here.recv(READ_BYTES_MAX))
            while not pair.wire.sent:
                await asyncio.sleep(0)
            assert not pair.wire.is_aborted

    run(work)


def test_the_wait_for_a_turn_is_not_counted(options, certificates: Path) -> None:
    """Of ten thousand that come at once the last waits longer than any handshake may take."""

    async def work() -> None:
        pair = Pair(options(), handshake_seconds_max=0.1, handshake_count_max=1)
        ahead = Pair(options(), handshake_seconds_max=0.1, handshake_count_max=1)
        pair.server._handshakes = pair.handshakes = ahead.handshakes
        ahead.handshakes.enter(pair.server)
        for each in (ahead, pair):
            each.dial(certificates / "ca.pem")
            with pytest.raises(ssl.SSLWantReadError):
                each.client.do_handshake()
            each.bring(each._outgoing.read())
        while not ahead.wire.sent:
            await asyncio.sleep(0)
        assert pair.wire.sent == b""
        while not ahead.wire.is_aborted:  # It was under way, and nothing came.
            await asyncio.sleep(0)
        assert not pair.wire.is_aborted
        while not pair.wire.sent:
            await asyncio.sleep(0)

    run(work)


def test_a_record_longer_than_any_may_be_ends_it_at_once(options) -> None:
    """Sixty kilobytes of each of a thousand strangers would be kept for nothing."""

    async def work() -> None:
        pair = Pair(options())
        pair.bring(b"\x16\x03\x01\xff\xff")
        assert pair.wire.is_aborted

    run(work)


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x00\x01x", b"\x16\x03\x01\x00\x00"])
def test_garbage_in_a_handshake_is_an_end(options, garbage: bytes) -> None:
    """Whatever it is, nobody is served, and nothing raises."""

    async def work() -> None:
        pair = Pair(options())
        for _ in range(40):
            pair.bring(garbage)
            await asyncio.sleep(0)
        assert pair.within is None
        assert pair.wire.is_half_closed or pair.wire.is_closed

    run(work)


def test_garbage_after_it_ends_the_connection(options, certificates: Path) -> None:
    """What was changed on its way is not handed on; who it was is told to the end."""

    async def work() -> None:
        pair = Pair(options(client="wanted"))
        pair.dial(certificates / "ca.pem", certificates / "joe.pem")
        await pair.shake()
        sealed = bytearray(pair.says(b"SEND"))
        sealed[-1] ^= 1
        pair.bring(bytes(sealed))
        assert (pair.within.received, pair.wire.is_aborted) == (b"", True)
        assert pair.server.get_extra_info("peercert")["subject"] == ((("commonName", "joe"),),)
        pair.server.connection_lost(None)
        assert pair.within.heard == ["made", "lost"]
        pair.server.write(b"nothing happens")

    run(work)


def test_who_is_not_read_is_handed_nothing_and_then_all(options, certificates: Path) -> None:
    """A node that is ahead of nobody any more leaves clients unread; no byte may go meanwhile."""

    async def work() -> None:
        pair = Pair(options(), NarrowlyWithin)
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        words = bytes(range(256)) * 400
        pair.within.pauses_after = 5000
        pair.bring(pair.says(words))
        held = len(pair.within.received)
        assert 5000 <= held < 10_000
        assert not pair.wire.is_reading
        assert not pair.server.is_reading()
        await asyncio.sleep(0)
        assert len(pair.within.received) == held
        for _ in range(3):
            pair.server.resume_reading()
            pair.server.pause_reading()
        await asyncio.sleep(0)
        assert len(pair.within.received) == held, "it was paused again before it was given more"
        for _ in range(40):
            pair.server.resume_reading()
            await asyncio.sleep(0)
            left, pair._left = pair._left, b""
            pair.bring(left)
        assert pair.within.received == words

    run(work)


def key_updates(
    client: ssl.SSLObject, taken: ssl.MemoryBIO, count: int, *, padding: int = 0, asked: int = 0
) -> bytes:
    """Requests for new keys, which Python's own client has no word for."""
    library = ctypes.CDLL(_ssl.__file__)
    library.SSL_set_block_padding.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    for name in ("SSL_key_update", "SSL_do_handshake"):
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_int][: 2 - (name[4] == "d")]
    inner = id(client._sslobj) + object.__basicsize__  # type: ignore[attr-defined]
    pointer = ctypes.c_void_p.from_address(inner + ctypes.sizeof(ctypes.c_void_p)).value
    assert library.SSL_set_block_padding(pointer, padding) == 1
    for _ in range(count):
        assert library.SSL_key_update(pointer, asked) == 1
        assert library.SSL_do_handshake(pointer) == 1
    return taken.read()


def test_new_keys_may_be_asked_for_but_not_for_ever(options, certificates: Path) -> None:
    """
    Two thousand of them fit into one read, and stopped the loop for twenty milliseconds; a client
    that asks now and then, among what it has to say, is none of those.
    """

    async def work() -> None:
        pair = Pair(options())
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        for _ in range(3):
            pair.bring(key_updates(pair.client, pair._outgoing, 20) + pair.says(b"x"))
        assert pair.within.received == b"xxx"
        assert not pair.wire.is_aborted
        pair.bring(key_updates(pair.client, pair._outgoing, 600))
        assert pair.wire.is_aborted

    run(work)


def test_what_is_asked_in_padded_records_counts_over_the_life(options, certificates: Path) -> None:
    """
    Sixty of them fill a piece, so that a count for each never saw too many; two clients took all
    the time there was. Each is answered, too: who does not read that is ended before it is much.
    """

    async def work() -> None:
        pair = Pair(options())
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        asked = 0
        while not pair.wire.is_aborted and asked < 200:
            pair.bring(key_updates(pair.client, pair._outgoing, 1, padding=256, asked=1))
            asked += 1
        assert asked == EMPTY_RECORDS_MAX + 1
        assert len(pair.wire.sent) < 64 * asked

    run(work)


@pytest.mark.parametrize("within", [Within, PlainlyWithin])
def test_who_has_much_to_say_may_ask_more_often(options, certificates: Path, within) -> None:
    """Once in a MiB, however long; but what was said before is no leave to ask for a thousand."""

    async def work() -> None:
        pair = Pair(options(), within)
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        for _ in range(EMPTY_RECORDS_MAX + 6):
            pair.within.received = b""
            await pair.brings(pair.says(bytes(1024 * 1024)))
            await pair.brings(key_updates(pair.client, pair._outgoing, 1))
        assert not pair.wire.is_aborted
        count = EMPTY_RECORDS_MAX + 2
        await pair.brings(key_updates(pair.client, pair._outgoing, count, padding=256))
        assert pair.wire.is_aborted

    run(work)


@pytest.mark.parametrize("within", [Within, NarrowlyWithin, PlainlyWithin])
def test_many_small_words_are_no_flood(options, certificates: Path, within) -> None:
    """Each heart-beat is a record of its own; what is held while a client waits counts nothing."""

    async def work() -> None:
        pair = Pair(options(), within)
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        pair.within.pauses_after = 100
        pair.bring(b"".join(pair.says(b"\n") for _ in range(2500)))
        for _ in range(10):
            pair.server.resume_reading()
            await asyncio.sleep(0)
            left, pair._left = pair._left, b""
            pair.bring(left)
        pair.bring(pair.says(b"end"))
        assert pair.within.received == b"\n" * 2500 + b"end"
        assert not pair.wire.is_aborted

    run(work)


def test_each_end_may_close(options, certificates: Path) -> None:
    """The one that closes says so by TLS: so it is no cut that somebody made on the way."""

    async def work() -> None:
        pair = Pair(options())
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        pair.server.write(b"bye")
        pair.server.close()
        assert pair.server.is_closing()
        assert pair.wire.is_closed
        assert pair.hears() == b"bye"
        assert pair.client.read(1) == b""
        pair.server.connection_lost(None)
        assert pair.within.heard == ["made", "lost"]

        other = Pair(options())
        other.dial(certificates / "ca.pem")
        await other.shake()
        with pytest.raises(ssl.SSLWantReadError):
            other.client.unwrap()
        other.bring(other._outgoing.read())
        assert other.within.heard == ["made", "eof"]
        assert other.wire.is_closed

    run(work)


def test_a_slow_socket_is_told_of(options, certificates: Path) -> None:
    """What waits for it is bounded as it is in clear."""

    async def work() -> None:
        pair = Pair(options())
        pair.server.pause_writing()
        pair.server.resume_writing()
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        pair.server.set_write_buffer_limits(high=7)
        pair.server.write(b"x" * 100)
        pair.server.pause_writing()
        pair.server.resume_writing()
        assert pair.wire.limits == (7, None)
        assert pair.server.get_write_buffer_size() > 100
        assert pair.within.heard == ["made", "full", "drained"]

    run(work)


def test_what_is_large_among_several_is_not_copied(options, certificates: Path) -> None:
    """
    A leader sends each entry with a head before it, to all followers: one of 60 MB, joined with it
    for each of them, stopped the loop for 70 ms. Short ones still share a record.
    """

    async def work() -> None:
        pair = Pair(options())
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        pair.server.pause_writing()
        large = bytes(range(256)) * 4_000
        changing = bytearray(b"y" * SHARED_BYTES)
        pair.server.writelines([b"head", large, b"short", b"", b"shorter", changing, b"tail"])
        changing[:] = bytes(SHARED_BYTES)
        sealing = pair.server._sealing
        assert sealing is not None
        whole = [piece.obj for piece in sealing._pieces if len(piece) >= SHARED_BYTES]
        assert whole[0] is large
        assert len(sealing._pieces) <= 5
        pair.server.resume_writing()
        while sealing.bytes:
            await asyncio.sleep(0)
        told = b"head" + large + b"shortshorter" + b"y" * SHARED_BYTES + b"tail"
        assert pair.hears() == told
        pair.server.writelines([b"%d" % (it % 10) for it in range(1_000)])
        records, size = RecordCount().take(memoryview(pair.wire.sent), 1_000)
        assert (records, size) == (1, len(pair.wire.sent))
        pair.server.writelines([])

    run(work)


@pytest.mark.parametrize("within", [Within, NarrowlyWithin, PlainlyWithin])
def test_small_records_of_many_are_read_in_a_slice_of_the_turn(
    options, certificates: Path, within
) -> None:
    """
    A call for each: a hundred that sent theirs at once stopped the loop for a second. Nothing of it
    is lost, and nobody is read meanwhile who has more than a read waiting.
    """

    async def work() -> None:
        pairs = [Pair(options(), within) for _ in range(6)]
        for pair in pairs:
            pair.handshakes.records = pairs[0].handshakes.records
            pair.dial(certificates / "ca.pem")
            await pair.shake()
        for pair in pairs:
            pair.bring(b"".join(pair.says(b"%d" % (it % 10)) for it in range(1000)))
        assert pairs[0].handshakes.records._left > -RECORDS_AT_ONCE
        before, most = 0, 0
        while before < 6000:
            got = sum(len(pair.within.received) for pair in pairs)
            most = max(most, got - before)
            before = got
            assert all(len(pair.server._held) <= READ_BYTES_MAX for pair in pairs)
            await asyncio.sleep(0)
            for pair in pairs:
                if pair.wire.is_reading:
                    pair.bring(pair._left)
        assert most <= UNITS_PER_TURN + RECORDS_AT_ONCE
        for pair in pairs:
            assert pair.within.received == b"0123456789" * 100
        gone = pairs[0]
        gone.bring(b"".join(gone.says(b"x") for _ in range(1000)))
        assert not gone.wire.is_reading
        gone.server.abort()
        await asyncio.sleep(0)
        assert len(gone.within.received) < 2000

    run(work)


@pytest.mark.parametrize("by", ["close", "eof"])
def test_who_is_closed_is_sent_all_that_was_written(options, certificates: Path, by: str) -> None:
    """Most of it waits to be sealed; the goodbye comes behind it, and nothing is read meanwhile."""

    async def work() -> None:
        pair = Pair(options())
        pair.dial(certificates / "ca.pem")
        await pair.shake()
        words = bytes(range(256)) * 12_000
        pair.server.pause_writing()
        pair.server.write(words)
        assert pair.server.get_write_buffer_size() == len(words)
        if by == "close":
            pair.server.close()
        else:
            assert pair.server.eof_received()
        pair.server.close()
        assert pair.server.is_closing()
        assert not pair.wire.is_reading
        await asyncio.sleep(0)
        assert (pair.wire.sent, pair.wire.is_closed) == (b"", False)
        pair.server.resume_writing()
        while not pair.wire.is_closed:
            await asyncio.sleep(0)
        assert pair.hears() == words
        assert pair.client.read(1) == b""

    run(work)
