"""
Connections by TLS that we make: what comes of them, and what is said where nothing does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from holdfast.transport.handshakes import Handshakes
from holdfast.transport.listener import PortListener
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls, shown_by
from holdfast.transport.tls_dialing import DialedConnection, DialFailedError, Dials
from holdfast.transport.tls_faults import Fault
from holdfast.transport.tls_sealing import RECORD_BYTES

pytestmark = pytest.mark.slow


class End(asyncio.Protocol):
    """One end: what came, and when it was over."""

    def __init__(self) -> None:
        self.came = bytearray()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.is_lost = asyncio.Event()
        self.more = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.came += data
        self.more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set()

    async def wait_bytes(self, count: int) -> bytes:
        while len(self.came) < count:
            self.more.clear()
            await self.more.wait()
        return bytes(self.came)


class Ground:
    """A port by TLS, and who dials it."""

    def __init__(self, options: Callable[..., object]) -> None:
        self.options = options
        self.ends: list[End] = []
        self.told: list[DialFailedError] = []
        self.dialed: list[DialedConnection] = []
        self.own = ServerTls(options(client="required"), dials=True)  # type: ignore[arg-type]

    def _end(self) -> End:
        self.ends.append(End())
        return self.ends[-1]

    async def listen(self, tls: ServerTls | None, **given: object) -> int:
        settings = PortSettings()
        listener = PortListener(
            self._end,
            settings,
            tls=None if tls is None else (tls, Handshakes(settings)),
            **given,  # type: ignore[arg-type]
        )
        await listener.open("127.0.0.1", 0, 8)
        self.listener = listener
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def taken(self) -> End:
        """Wait for the other end: it is done after the one that dialed."""
        while not self.ends or self.ends[0].transport is None:
            await asyncio.sleep(0)
        return self.ends[0]

    async def dial(self, port: int, own: ServerTls | None = None) -> End:
        _, dialed = await asyncio.get_running_loop().create_connection(
            lambda: DialedConnection(
                End, own or self.own, Dials(PortSettings()), tell=self.told.append
            ),
            "127.0.0.1",
            port,
        )
        self.dialed.append(dialed)
        end = await dialed.wait_open()
        assert isinstance(end, End)
        return end


def run(options: Callable[..., object], scenario: Callable[[Ground], Awaitable[None]]) -> None:
    async def whole() -> None:
        ground = Ground(options)
        try:
            async with asyncio.timeout(20):
                await scenario(ground)
        finally:
            ground.listener.close()
            for it in (*ground.dialed, *(end.transport for end in ground.ends)):
                it.abort()
            await asyncio.sleep(0)

    uvloop.run(whole())


def test_both_ends_show_who_they_are_and_take_what_is_sent(options) -> None:
    """In both directions, more than a record, and the end of it is said."""

    async def scenario(ground: Ground) -> None:
        port = await ground.listen(ground.own)
        here = await ground.dial(port)
        there = await ground.taken()
        for end, other in ((here, there), (there, here)):
            assert end.transport.get_extra_info("peercert")["subject"]
            shown = end.transport.get_extra_info("sslcontext")
            assert shown_by(shown) == ground.own.fingerprint
            data = bytes(range(256)) * (RECORD_BYTES // 64)
            end.transport.write(data)
            assert await other.wait_bytes(len(data)) == data
        here.transport.close()
        await there.is_lost.wait()

    run(options, scenario)


@pytest.mark.parametrize(
    ("server", "own", "fault"),
    [
        ({}, {"client_ca": "other/ca.pem"}, Fault.UNTRUSTED),
        (None, {}, Fault.NO_TLS),
    ],
)
def test_what_is_met_is_told_to_who_dials(
    options, certificates: Path, server: dict[str, object] | None, own: dict[str, str], fault: Fault
) -> None:
    """A certificate of another authority, and a port that speaks first, in clear."""
    given = {key: certificates / value for key, value in own.items()}

    async def scenario(ground: Ground) -> None:
        class Speaking(End):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                self.transport.write(b"\0\0\0\x25 a challenge in clear, of members")

        if server is None:
            ground._end = Speaking  # type: ignore[method-assign]
        port = await ground.listen(None if server is None else ground.own)
        dialing = ServerTls(options(client="required", **given), dials=True)
        with pytest.raises(DialFailedError) as failed:
            await ground.dial(port, dialing)
        assert failed.value.fault is fault

    run(options, scenario)


def test_that_we_are_refused_is_told_though_it_comes_late(options, certificates: Path) -> None:
    """
    By TLS 1.3 the end that dials is done before the other one has seen its certificate: the
    refusal is read later, and is no loss without a reason.
    """

    async def scenario(ground: Ground) -> None:
        other = ServerTls(options(client="required", client_ca=certificates / "other" / "ca.pem"))
        end = await ground.dial(await ground.listen(other))
        await end.is_lost.wait()
        assert [it.fault for it in ground.told] == [Fault.REFUSED]

    run(options, scenario)


def test_an_end_that_closes_is_no_answer(options) -> None:
    """Who waits hears it, and does not wait for ever."""

    async def scenario(ground: Ground) -> None:
        class Closing(End):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                self.transport.close()

        ground._end = Closing  # type: ignore[method-assign]
        with pytest.raises(DialFailedError, match="it closed the connection"):
            await ground.dial(await ground.listen(None))

    run(options, scenario)


def test_who_does_not_begin_is_served_in_clear_where_that_is_wanted(options) -> None:
    """
    One that waits for us to speak first, after a moment, and one that speaks in clear at once;
    whoever begins with TLS is not kept waiting.
    """

    async def scenario(ground: Ground) -> None:
        silent: list[End] = []

        def make() -> End:
            silent.append(End())
            return silent[-1]

        port = await ground.listen(ground.own, make_silent=make)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await ground.dial(port)
        await ground.taken()
        assert loop.time() - began < 0.4
        assert (len(ground.ends), len(silent)) == (1, 0)
        _, speaking = await loop.create_connection(End, "127.0.0.1", port)
        speaking.transport.write(b"hello")
        while len(silent) < 1:
            await asyncio.sleep(0)
        assert await silent[0].wait_bytes(5) == b"hello"
        _, waiting = await loop.create_connection(End, "127.0.0.1", port)
        while len(silent) < 2 or silent[1].transport is None:
            await asyncio.sleep(0)
        silent[1].transport.write(b"welcome")
        assert await waiting.wait_bytes(7) == b"welcome"
        for end in (*silent, speaking, waiting):
            end.transport.close()

    run(options, scenario)


def test_contexts_are_known_by_what_they_show(options) -> None:
    """One that is none of ours shows nothing that is known."""
    assert shown_by(ssl.create_default_context()) == ""
