"""Tests of server/holder_watch.py: a process that is gone is told, one that is silent is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.leases.contract import Claimant
from holdfast.server.holder_watch import HolderWatch, pause_after
from holdfast.testing.free_ports import free_ports


def claimant(port: int, holder: str = "h") -> Claimant:
    """A holder whose admin port is this one."""
    return Claimant(holder=holder, name="a", admin=f"127.0.0.1:{port}", stomp="")


class Told:
    """What came so far; more of it can be waited for."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._came = asyncio.Event()

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
    """A port that takes connections and says nothing."""

    def __init__(self) -> None:
        [self.number] = free_ports(1)
        self.taken = Told()
        self.server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Begin to take connections."""
        self.server = await asyncio.start_server(self._connected, "127.0.0.1", self.number)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        watch = HolderWatch(gone.take)
        watch.follow(claimant(port.number))
        await port.taken.until(1)
        assert not gone.all
        await port.end()
        await gone.until(1)
        assert {"h"} == set(gone.all)
        watch.end()

    asyncio.run(run())


def test_a_connection_that_ends_alone_tells_nothing() -> None:
    """The port is still listened to: it closes what is idle."""

    async def run() -> None:
        gone, port = Told(), Port()
        await port.listen()
        watch = HolderWatch(gone.take)
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
        watch = HolderWatch(gone.take)
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


def test_an_address_that_never_answered_tells_nothing() -> None:
    """It may be one that only its own machine reaches, and another's port here refuses."""

    async def run() -> None:
        gone, port = Told(), Port()
        refused = Told()
        watch = HolderWatch(gone.take)
        connect = asyncio.open_connection

        async def told(*address: Any) -> Any:
            try:
                return await connect(*address)
            except ConnectionRefusedError:
                refused.take(address)
                raise

        asyncio.open_connection = told  # type: ignore[assignment]
        try:
            watch.follow(claimant(port.number))
            await refused.until(2)
        finally:
            asyncio.open_connection = connect
            watch.end()
        assert not gone.all

    asyncio.run(run())


def test_a_port_that_outlives_its_connections_by_a_moment_is_asked_again_at_once() -> None:
    """What ends or fails one time after the other is asked ever more rarely."""
    assert 0.0 == pause_after(0.2, lasted_seconds=60.0)
    pauses = [0.0]
    while pauses[-1] < 0.2:
        pauses.append(pause_after(pauses[-1], lasted_seconds=0.001))

    assert [0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2] == pytest.approx(pauses)
    assert 0.2 == pause_after(0.2, lasted_seconds=0.001)
