"""
The client port obeys the role, whatever comes when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog.testing

from holdfast.config.address import Address
from holdfast.server.listener import ClientPort, Listener
from holdfast.testing.free_ports import free_ports
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings


@dataclass(slots=True)
class FakeRole:
    """Admits clients when it is told to."""

    admits_clients: bool = True
    term: int = 7


@dataclass(slots=True)
class Port:
    """A listener with its role, and what it failed with."""

    role: FakeRole = field(default_factory=FakeRole)
    failures: list[Exception] = field(default_factory=list)
    address: Address = field(default_factory=lambda: Address("127.0.0.1", free_ports(1)[0]))
    others: list[Address] = field(default_factory=list)
    lets_others_in: bool = True
    listener: Listener = field(init=False)

    def __post_init__(self) -> None:
        others = [ClientPort(it, asyncio.Protocol) for it in self.others]
        self.listener = Listener(
            [ClientPort(self.address, asyncio.Protocol), *others],
            self.role,
            Handshakes(PortSettings()),
            backlog=8,
            lets_others_in=lambda: self.lets_others_in,
            fail=self.failures.append,
        )

    async def settle(self) -> None:
        """Let what was begun come to its end."""
        if self.listener._opening is not None:
            await self.listener._opening

    async def is_reachable(self, address: Address | None = None) -> bool:
        address = address or self.address
        try:
            _, writer = await asyncio.open_connection(address.host, address.port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True


def run(work: Callable[[Port], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(10):
            port = Port()
            try:
                await work(port)
            finally:
                port.listener.end()

    asyncio.run(scenario())


def test_the_port_opens_and_closes_with_the_role() -> None:
    """
    Again and again: a node may lead, lose the lead, and lead once more.
    """

    async def work(port: Port) -> None:
        for admits in (True, False, True):
            port.role.admits_clients = admits
            port.listener.follow()
            port.listener.follow()
            await port.settle()
            assert (port.listener.is_open, await port.is_reachable()) == (admits, admits)

    with structlog.testing.capture_logs() as lines:
        run(work)
    opened = [line["term"] for line in lines if line["event"] == "serving clients"]
    assert opened == [7, 7]


def test_a_role_that_ends_while_the_port_opens_keeps_it_closed() -> None:
    """
    Opening takes a while: whoever leads no more by then would let clients in.
    """

    async def before(port: Port) -> None:
        port.listener.follow()
        port.role.admits_clients = False
        port.listener.follow()
        await port.settle()
        assert (port.listener.is_open, await port.is_reachable()) == (False, False)

    async def meanwhile(port: Port) -> None:
        loop = asyncio.get_running_loop()
        find = loop.getaddrinfo

        async def slow(*arguments, **options):
            found = await find(*arguments, **options)
            port.role.admits_clients = False
            return found

        loop.getaddrinfo = slow  # type: ignore[method-assign]
        port.listener.follow()
        await port.settle()
        assert (port.listener.is_open, await port.is_reachable()) == (False, False)

    run(before)
    run(meanwhile)


def test_an_ended_port_opens_no_more() -> None:
    """
    A node that stops may be told of roles until its last moment.
    """

    async def work(port: Port) -> None:
        port.listener.follow()
        await port.settle()
        port.listener.end()
        port.listener.follow()
        await port.settle()
        assert not await port.is_reachable()

    run(work)


def test_a_port_that_cannot_be_opened_is_a_failure_told_once() -> None:
    """
    The node ends by it, and does not try for ever meanwhile.
    """

    async def work(port: Port) -> None:
        taken = await asyncio.start_server(lambda *_: None, port.address.host, port.address.port)
        async with taken:
            for _ in range(3):
                port.listener.follow()
                await port.settle()
        (failure,) = port.failures
        assert str(port.address) in str(failure)
        assert not port.listener.is_open

    run(work)


def test_several_ports_open_together_or_not_at_all() -> None:
    """
    A client that finds one of them open is served as by any other; half a node is no node.
    """

    async def work(port: Port) -> None:
        other = Address("127.0.0.1", free_ports(1)[0])
        several = Port(others=[other])
        several.listener.follow()
        await several.settle()
        assert await several.is_reachable()
        assert await several.is_reachable(other)
        several.listener.end()
        taken = await asyncio.start_server(lambda *_: None, other.host, other.port)
        async with taken:
            again = Port(others=[other])
            again.listener.follow()
            await again.settle()
            assert not await again.is_reachable()
            assert [str(other) in str(it) for it in again.failures] == [True]

    run(work)


def test_a_port_that_others_reach_waits_until_it_is_known_who_may_come() -> None:
    """
    The one on this machine is open meanwhile; the operator is told once, and how to go on (S1).
    """

    async def work(port: Port) -> None:
        outer = Address("0.0.0.0", free_ports(1)[0])
        several = Port(others=[outer], lets_others_in=False)
        try:
            for _ in range(3):
                several.listener.follow()
                await several.settle()
            assert several.listener.is_open
            found = [await several.is_reachable(it) for it in (several.address, outer)]
            assert found == [True, False]
            for lets_in in (True, False):
                several.lets_others_in = lets_in
                several.listener.follow()
                await several.settle()
                found = [await several.is_reachable(it) for it in (several.address, outer)]
                assert found == [True, lets_in]
        finally:
            several.listener.end()

    with structlog.testing.capture_logs() as lines:
        run(work)
    told = [line for line in lines if line["log_level"] == "error"]
    assert ["holdfast users add" in line["remedy"] for line in told] == [True]
    assert "anonymous_role" in told[0]["remedy"]


def test_users_that_come_while_ports_open_open_the_others_as_well() -> None:
    """
    Nobody calls again for that.
    """

    async def work(port: Port) -> None:
        outer = Address("0.0.0.0", free_ports(1)[0])
        several = Port(others=[outer], lets_others_in=False)
        try:
            several.listener.follow()
            several.lets_others_in = True
            several.listener.follow()
            await several.settle()
            found = [await several.is_reachable(it) for it in (several.address, outer)]
            assert found == [True, True]
        finally:
            several.listener.end()

    run(work)
