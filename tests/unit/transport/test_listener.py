"""
A port's own accept loop, on loopback.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from holdfast.transport import listener as module
from holdfast.transport.handshakes import AT_ONCE_SECONDS, HASTE_SECONDS, Handshakes
from holdfast.transport.listener import Apart, PortListener
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls

LOOPS = pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])


class Echo(asyncio.Protocol):
    """Gives back what it gets."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def run(new_loop: Callable[[], asyncio.AbstractEventLoop], work: Awaitable[None]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(10):
            await work

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


async def opened(port: PortListener) -> int:
    await port.open("127.0.0.1", 0, 64)
    return int(port._sockets[0].getsockname()[1])


async def echo(number: int, context: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", number, ssl=context, server_hostname="localhost" if context else None
    )
    writer.write(b"hello")
    found = await reader.read(5)
    writer.close()
    return found


@LOOPS
def test_it_serves_in_clear_and_by_tls(new_loop, options, certificates: Path) -> None:
    """By the same loop; after it is closed nobody comes in."""

    async def work() -> None:
        settings = PortSettings()
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        plain = PortListener(Echo, settings)
        secure = PortListener(Echo, settings, tls=(ServerTls(options()), Handshakes(settings)))
        first, second = await opened(plain), await opened(secure)
        assert await echo(first) == b"hello"
        assert [await echo(second, context) for _ in range(3)] == [b"hello"] * 3
        for port in (plain, secure):
            port.close()
        for number in (first, second):
            with pytest.raises(ConnectionRefusedError):
                await echo(number)

    run(new_loop, work())


@LOOPS
def test_a_renewed_certificate_is_shown_to_who_comes_then(
    new_loop, options, certificates: Path, tmp_path: Path
) -> None:
    """Whoever is connected stays; a context that was loaded into again may show the old one on."""

    async def work() -> None:
        settings = PortSettings()
        shown = ServerTls(options())
        port = PortListener(Echo, settings, tls=(shown, Handshakes(settings)))
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=context, server_hostname="localhost"
        )
        other = ssl.create_default_context(cafile=certificates / "other" / "ca.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            await echo(number, other)
        from holdfast.transport.certificates import make_node, open_authority

        authority, _ = open_authority(certificates / "other")
        make_node(authority, tmp_path / "new.pem", "node", [], 1)
        shown.use(ServerTls(options(certificate=tmp_path / "new.pem")).read())
        assert await echo(number, other) == b"hello"
        writer.write(b"still")
        assert await reader.read(5) == b"still"
        writer.close()
        port.close()

    run(new_loop, work())


@LOOPS
def test_a_turn_takes_a_few_and_the_next_ones_the_rest(new_loop) -> None:
    """A thousand at the door would be a stop of the loop as long as a slow disk's."""

    async def work() -> None:
        taken: list[int] = []
        turn = 0

        def admits(_: str) -> bool:
            taken.append(turn)
            return True

        port = PortListener(Echo, PortSettings(accept_count_max=4), admits=admits)
        await port.open("127.0.0.1", 0, 64)
        address = port._sockets[0].getsockname()
        dialled = [socket.create_connection(address) for _ in range(20)]
        while len(taken) < 20:
            turn += 1
            await asyncio.sleep(0)
        assert max(taken.count(it) for it in set(taken)) == 4
        for each in dialled:
            each.close()
        port.close()
        while port._opening:
            await asyncio.sleep(0)

    run(new_loop, work())


@LOOPS
def test_who_may_not_come_in_is_closed_before_anything_is_worked_out(new_loop) -> None:
    """By its address alone: no protocol is made, and no place in a line is lost by it."""

    async def work() -> None:
        settings = PortSettings(stranger_count_max=16)
        handshakes = Handshakes(settings)
        asked: list[str] = []

        def admits(source: str) -> bool:
            asked.append(source)
            return False

        def make() -> asyncio.Protocol:
            raise AssertionError("nobody comes in")

        port = PortListener(make, settings, tls=(None, handshakes), admits=admits)  # type: ignore[arg-type]
        number = await opened(port)
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", number)) as dialled:
                assert await asyncio.to_thread(dialled.recv, 1) == b""
        assert asked == ["127.0.0.1"] * 20
        port.close()

    run(new_loop, work())


@LOOPS
def test_who_finds_no_room_waits_at_the_door(new_loop, options, certificates: Path) -> None:
    """It is let in when there is room, and not turned away: it is a client that came back."""

    async def work() -> None:
        settings = PortSettings(stranger_count_max=16, handshake_count_max=1)
        handshakes = Handshakes(settings)
        port = PortListener(Echo, settings, tls=(ServerTls(options()), handshakes))
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        found = await asyncio.gather(*(echo(number, context) for _ in range(60)))
        assert found == [b"hello"] * 60
        assert len(handshakes) == 0
        port.close()

    run(new_loop, work())


@LOOPS
def test_a_fleet_waits_for_its_places_beside_a_crowd_that_says_nothing(
    new_loop, options, certificates: Path
) -> None:
    """
    It is of one address that has more than its share: none is closed. Who waits is a socket and no
    connection, and is closed with its port.
    """

    async def work() -> None:
        settings = PortSettings(stranger_count_max=16, handshake_patience_seconds=60)
        handshakes = Handshakes(settings, lent=lambda: 500)
        port = PortListener(Echo, settings, tls=(ServerTls(options()), handshakes))
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        silent = []
        for _ in range(40):
            place = ("127.0.0.2", 0)
            silent.append(socket.create_connection(("127.0.0.1", number), source_address=place))
        while len(port._waiting) < 24:
            await asyncio.sleep(0)
        assert not any(it.has_spoken for it in port._waiting)
        found = await asyncio.gather(*(echo(number, context) for _ in range(40)))
        assert found == [b"hello"] * 40
        while len(handshakes) < 16:
            await asyncio.sleep(0)
        waits = next(iter(port._waiting))
        for each in silent:
            if each.getsockname() == waits._taken.getpeername():
                each.send(b"\x16")
        while not waits.has_spoken:
            await asyncio.sleep(0)
        last = [it._taken for it in port._waiting]
        assert len(last) >= 12, "half of the room was theirs at most while the fleet came"
        port.close()
        assert {it.fileno() for it in last} == {-1}
        assert not port._waiting
        for each in silent:
            each.close()
        while len(handshakes) or port._opening:
            await asyncio.sleep(0)

    run(new_loop, work())


@LOOPS
def test_one_address_keeps_nobody_of_another_out(new_loop, options, certificates: Path) -> None:
    """It fills the room with sockets that say nothing, and dials more; somebody else comes in."""

    async def work() -> None:
        settings = PortSettings(stranger_count_max=20, handshake_patience_seconds=60)
        handshakes = Handshakes(settings)
        port = PortListener(Echo, settings, tls=(ServerTls(options()), handshakes))
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        dialled = [socket.create_connection(("127.0.0.1", number)) for _ in range(40)]
        while not handshakes.failed_count:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(
            *("127.0.0.1", number),
            ssl=context,
            server_hostname="localhost",
            local_addr=("127.0.0.2", 0),
        )
        writer.write(b"hello")
        assert await reader.read(5) == b"hello"
        writer.close()
        for each in dialled:
            each.close()
        port.close()
        while len(handshakes) or port._opening:
            await asyncio.sleep(0)
        assert not handshakes._inside

    run(new_loop, work())


@LOOPS
def test_who_has_a_line_apart_finds_room_whoever_fills_the_others(
    new_loop, options, certificates: Path
) -> None:
    """
    Nobody waits at the door then. And whoever is only looked at, whether it speaks TLS at all, is
    counted by its address as well, and gives way to others.
    """

    async def work() -> None:
        settings = PortSettings(stranger_count_max=20, handshake_patience_seconds=60)
        common, apart = Handshakes(settings), Handshakes(settings)
        port = PortListener(
            Echo,
            settings,
            tls=(ServerTls(options()), common),
            make_silent=Echo,
            apart=Apart(lambda there, here: (there, here) == ("127.0.0.9", "127.0.0.1"), apart),
        )
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        dialled = []
        for count in range(40):
            place = (f"127.0.0.{2 + count % 2}", 0)
            dialled.append(socket.create_connection(("127.0.0.1", number), source_address=place))
        while common.failed_count < 20:
            await asyncio.sleep(0)
        assert len(common) == 20
        for source in ("127.0.0.9", "127.0.0.4"):
            reader, writer = await asyncio.open_connection(
                *("127.0.0.1", number),
                ssl=context,
                server_hostname="localhost",
                local_addr=(source, 0),
            )
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            writer.close()
            common.clock = lambda: asyncio.get_running_loop().time() + HASTE_SECONDS
        assert common.failed_count == 21
        for each in dialled:
            each.close()
        while len(common) or len(apart) or port._opening:
            await asyncio.sleep(0)
        port.close()

    run(new_loop, work())


@LOOPS
def test_idle_sockets_of_ones_own_machine_keep_nobody_out(
    new_loop, options, certificates: Path
) -> None:
    """
    Whoever may nothing is at the same address as the operator, and fills their line: who comes next
    has a place all the same.
    """

    async def work() -> None:
        settings = PortSettings(stranger_count_max=16)
        common, apart = (Handshakes(settings, has_door=False) for _ in range(2))
        port = PortListener(
            *(Echo, settings),
            tls=(ServerTls(options()), common),
            apart=Apart(lambda there, here: there == here, apart),
        )
        number = await opened(port)
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        dialled = [socket.create_connection(("127.0.0.1", number)) for _ in range(40)]
        while apart.failed_count < 24:
            await asyncio.sleep(0)
        assert len(apart) == 16
        apart.clock = lambda: asyncio.get_running_loop().time() + 2 * AT_ONCE_SECONDS
        for _ in range(3):
            assert await echo(number, context) == b"hello"
        for each in dialled:
            each.close()
        while len(apart) or port._opening:
            await asyncio.sleep(0)
        port.close()

    run(new_loop, work())


@LOOPS
@pytest.mark.parametrize(
    ("came", "is_tls"), [(b"\x16\x03", True), (b"CONNECT", False), (b"", False)]
)
def test_what_came_while_the_loop_was_stopped_counts(
    new_loop, monkeypatch: pytest.MonkeyPatch, came: bytes, is_tls: bool
) -> None:
    """
    Time is up before the loop hears of it: a link went in clear after that, until it broke.
    """
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.0)

    async def work() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(came)
            assert await module._begins_with_tls(ours) is is_tls

    run(new_loop, work())


class Short:
    """A socket that has no descriptor for who comes, until it has."""

    def __init__(self, bound: socket.socket, count: int) -> None:
        self.bound = bound
        self.count = count

    def accept(self) -> object:
        if self.count:
            self.count -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self.bound.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self.bound, name)


@LOOPS
def test_want_of_descriptors_is_waited_out(new_loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port does not spin meanwhile, and nobody is lost by it."""
    monkeypatch.setattr(module, "SHORTAGE_SECONDS", 0.01)

    async def work() -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        short = Short(bound, 3)
        port = PortListener(Echo, PortSettings())
        port.use(short)  # type: ignore[arg-type]
        assert await echo(bound.getsockname()[1]) == b"hello"
        assert short.count == 0
        port.close()

    run(new_loop, work())


@LOOPS
def test_an_address_that_is_taken_is_an_error_and_leaves_nothing(new_loop) -> None:
    """Of several sockets of one name the others are closed again."""

    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = PortListener(Echo, PortSettings())
            with pytest.raises(OSError, match=r"(?i)in use"):
                await port.open("127.0.0.1", taken.getsockname()[1], 8)
            assert port._sockets == []

    run(new_loop, work())
