"""Tests of server/holder_watch.py: a process that is gone is told, one that is silent is not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.admin.process_mark import mark_of, place_mark_of
from holdfast.environment.network_place import network_place
from holdfast.leases.contract import Claimant
from holdfast.server import holder_watch
from holdfast.server.holder_watch import HolderWatch, pause_after
from holdfast.testing.free_ports import free_ports
from holdfast.transport.certificates import make_node, open_authority


def claimant(port: int, holder: str = "h", scheme: str = "") -> Claimant:
    """A holder whose admin port is this one."""
    return Claimant(holder=holder, name="a", admin=f"{scheme}127.0.0.1:{port}", stomp="")


class Told:
    """What came so far; more of it can be waited for."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._came = asyncio.Event()

    def told(self, holder: str, is_here: bool) -> None:
        """Somebody is gone."""
        self.take((holder, is_here))

    def take(self, it: Any) -> None:
        """One more has come."""
        self.all.append(it)
        self._came.set()

    async def until(self, count: int) -> None:
        """Wait for so many in all."""
        async with asyncio.timeout(20):
            while len(self.all) < count:
                self._came.clear()
                await self._came.wait()


class Port:
    """An admin port: it tells which process it is, and goes on with the connection."""

    def __init__(self, holder: str = "h", tls: ssl.SSLContext | None = None) -> None:
        place = place_mark_of(holder, network_place())
        self.told: bytes = json.dumps({"process": mark_of(holder), "place": place}).encode()
        self.tls = tls
        self.answers = True
        [self.number] = free_ports(1)
        self.taken = Told()
        self.server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Begin to take connections."""
        self.server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.number, ssl=self.tls
        )

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self.answers:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.told))
            writer.write(self.told)
        self.taken.take(writer)
        await reader.read()  # Until the other side closes it.
        writer.close()

    async def end(self) -> None:
        """Be gone, with every connection, as the kernel has it when a process ends."""
        assert self.server is not None, "it listens"
        self.server.close()
        for writer in self.taken.all:
            writer.close()
            await writer.wait_closed()


def test_a_process_that_ends_is_told_at_once() -> None:
    """Its connection ends, and the port refuses a new one."""

    async def run() -> None:
        gone, port = Told(), Port()
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(port.number))
        await port.taken.until(1)
        assert not gone.all
        await port.end()
        await gone.until(1)
        assert {("h", True)} == set(gone.all)
        watch.end()

    asyncio.run(run())


@pytest.mark.parametrize("place", [None, place_mark_of("h", "elsewhere"), ["h"]], ids=range(3))
def test_a_tunnel_to_it_that_closes_is_told_as_of_another_machine(place: Any) -> None:
    """Its end is here, and the process is not: that one may live."""

    async def run() -> None:
        gone, port = Told(), Port()
        port.told = json.dumps({"process": mark_of("h"), "place": place}).encode()
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(port.number))
        await port.taken.until(1)
        await port.end()
        await gone.until(1)
        assert {("h", False)} == set(gone.all)
        watch.end()

    asyncio.run(run())


def test_a_connection_that_ends_alone_tells_nothing() -> None:
    """The port is still listened to: it closes what is idle."""

    async def run() -> None:
        gone, port = Told(), Port()
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(port.number))
        for count in (1, 2, 3):
            await port.taken.until(count)
            port.taken.all[-1].close()
        await port.taken.until(4)
        assert not gone.all
        watch.end()
        await port.end()

    asyncio.run(run())


def test_it_follows_whoever_holds_the_lease_now_and_nobody_twice() -> None:
    """The one before is of no account any more; nor is anybody without a port."""

    async def run() -> None:
        gone, port, other = Told(), Port(), Port()
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(other.number, "before"))
        before = watch._task
        watch.follow(claimant(port.number))
        now = watch._task
        watch.follow(claimant(port.number))
        assert now is watch._task
        assert before is not None
        await asyncio.gather(before, return_exceptions=True)
        assert before.cancelled()
        await port.taken.until(1)
        for nobody in (None, Claimant(holder="x", name="x", admin="", stomp="")):
            watch.follow(nobody)
            assert watch._task is None
        await port.end()
        assert not gone.all

    asyncio.run(run())


@contextmanager
def refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Connections that were refused; what comes of one is seen once there is another one."""
    refused, connect = Told(), asyncio.open_connection

    async def told(*address: Any, **options: Any) -> Any:
        try:
            return await connect(*address, **options)
        except ConnectionRefusedError:
            refused.take(address)
            raise

    with monkeypatch.context() as patched:
        patched.setattr(holder_watch, "_STRANGE_SECONDS", 0.01)
        patched.setattr(asyncio, "open_connection", told)
        yield refused


def test_an_address_that_never_answered_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one that only its own machine reaches, and another's port here refuses."""

    async def run() -> None:
        gone, port = Told(), Port()
        watch = HolderWatch(gone.told)
        with refusals(monkeypatch) as refused:
            watch.follow(claimant(port.number))
            await refused.until(2)
        watch.end()
        assert not gone.all

    asyncio.run(run())


@pytest.mark.parametrize(
    "told",
    [
        json.dumps({"process": mark_of("another")}).encode(),
        b'{"alive": true, "name": "a of an earlier version"}',
        b"<html>another program</html>",
        b'{"process": ["h"]}',
        b"[]",
        b"{" * 20_000,
        b"[" * 10_000,
    ],
    ids=range(7),
)
def test_somebody_else_at_its_address_tells_nothing_when_he_goes(
    monkeypatch: pytest.MonkeyPatch, told: bytes
) -> None:
    """A port of loopback is each machine's own; ActiveMQ's console has the same number."""

    async def run() -> None:
        gone, port = Told(), Port()
        port.told = told
        await port.listen()
        watch = HolderWatch(gone.told)
        with refusals(monkeypatch) as refused:
            watch.follow(claimant(port.number))
            await port.taken.until(1)
            await port.end()
            await refused.until(2)
        assert not gone.all
        assert watch._task is not None
        assert not watch._task.done(), "it goes on: the holder may come to be reached"
        watch.end()

    asyncio.run(run())


def test_who_takes_the_place_of_the_holder_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The holder was there; another one answers now, and that one goes."""

    async def run() -> None:
        gone, port = Told(), Port()
        await port.listen()
        watch = HolderWatch(gone.told)
        with refusals(monkeypatch) as refused:
            watch.follow(claimant(port.number))
            await port.taken.until(1)
            port.told = b"{}"
            port.taken.all[-1].close()
            await port.taken.until(2)
            await port.end()
            await refused.until(2)
        assert not gone.all
        watch.end()

    asyncio.run(run())


def test_an_answer_that_does_not_come_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that is busy for a moment is still the one that was there."""
    monkeypatch.setattr(holder_watch, "_ANSWER_SECONDS", 0.05)

    async def run() -> None:
        gone, port = Told(), Port()
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(port.number))
        await port.taken.until(1)
        port.answers = False
        port.taken.all[-1].close()
        await port.taken.until(3)
        assert not gone.all
        await port.end()
        await gone.until(1)
        watch.end()

    asyncio.run(run())


def test_a_holder_that_speaks_tls_is_watched_as_well(tmp_path: Path) -> None:
    """Whatever its certificate: nothing is told it, and its mark is no secret."""
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "a.pem")

    async def run() -> None:
        gone, port = Told(), Port(tls=context)
        await port.listen()
        watch = HolderWatch(gone.told)
        watch.follow(claimant(port.number, scheme="https://"))
        await port.taken.until(1)
        await port.end()
        await gone.until(1)
        watch.end()

    asyncio.run(run())


def test_what_is_no_address_is_watched_by_nobody() -> None:
    """It stands in a row that others write."""

    async def run() -> None:
        watch = HolderWatch(Told().told)
        for text in ("nonsense", "ftp://a:1", "https://a", "a:99999999", "https://a:1/x"):
            watch.follow(Claimant(holder=text, name="x", admin=text, stomp=""))
            assert watch._task is None

    asyncio.run(run())


def test_a_port_that_outlives_its_connections_by_a_moment_is_asked_again_at_once() -> None:
    """What ends or fails one time after the other is asked ever more rarely."""
    assert 0.0 == pause_after(0.2, lasted_seconds=60.0)
    pauses = [0.0]
    while pauses[-1] < 0.2:
        pauses.append(pause_after(pauses[-1], lasted_seconds=0.001))

    assert [0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2] == pytest.approx(pauses)
    assert 0.2 == pause_after(0.2, lasted_seconds=0.001)
