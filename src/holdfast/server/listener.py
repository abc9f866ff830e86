"""
The client ports: open while the role admits clients, closed otherwise.

A node that does not serve keeps them closed, so that any failover client finds the leader by
trying. They open and close together, but for those that other machines reach: these wait until it
is known who may come.

Invariants:
    They are open only while the role admits clients, and never again once they are ended.
    No port beyond this machine is open while everybody may do everything, unless that is wanted.
    There is one attempt to open them at a time.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from holdfast.config.address import Address
from holdfast.errors import StoreError
from holdfast.server.protocols import TLS_IS_SPOKEN
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.listener import PortListener
from holdfast.transport.tls import ServerTls

log = structlog.get_logger("holdfast.server")


class Doorkeeper(Protocol):
    """Who says whether clients may come."""

    @property
    def admits_clients(self) -> bool:
        """Whether they may come now."""
        ...

    @property
    def term(self) -> int:
        """Since which election."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ClientPort:
    """One port, and what clients find there."""

    address: Address
    make_protocol: Callable[[], asyncio.BaseProtocol]
    """Serves one client."""

    tls: ServerTls | None = None
    """What is shown by TLS; None: it is in clear."""

    def __str__(self) -> str:
        return f"{self.address} by TLS" if self.tls is not None else str(self.address)


class Listener:
    """Ports that obey a role."""

    __slots__ = (
        "_backlog",
        "_fail",
        "_handshakes",
        "_has_told",
        "_is_ended",
        "_lets_others_in",
        "_open_ports",
        "_opening",
        "_ports",
        "_role",
    )

    def __init__(
        self,
        ports: Sequence[ClientPort],
        role: Doorkeeper,
        handshakes: Handshakes,
        *,
        backlog: int,
        lets_others_in: Callable[[], bool] = lambda: True,
        fail: Callable[[Exception], None],
    ) -> None:
        """
        Serve clients at these ports.

        Args:
            ports: All of them.
            role: When they are open.
            handshakes: Those of TLS, of all ports.
            backlog: So many connections wait at each to be taken.
            lets_others_in: Whether clients of other machines may come.
            fail: Told if a port cannot be opened.
        """
        self._ports = ports
        self._role = role
        self._handshakes = handshakes
        self._backlog = backlog
        self._lets_others_in = lets_others_in
        self._fail = fail
        self._open_ports: dict[ClientPort, PortListener] = {}
        self._opening: asyncio.Task[None] | None = None
        self._has_told = False
        """That others are not let in, in this leadership."""
        self._is_ended = False

    @property
    def is_open(self) -> bool:
        """Clients are let in."""
        return bool(self._open_ports)

    def follow(self) -> None:
        """Open or close the ports as the role says now, and as it is known who may come."""
        if not self._role.admits_clients:
            self._has_told = False
        for port in [it for it in self._open_ports if not self._is_wanted(it)]:
            self._open_ports.pop(port).close()
            if not self._open_ports:
                log.info("client port is closed")
        if self._missing and (self._opening is None or self._opening.done()):
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def end(self) -> None:
        """Close the ports for good."""
        self._is_ended = True
        self.follow()

    def _is_wanted(self, port: ClientPort) -> bool:
        if not self._role.admits_clients or self._is_ended:
            return False
        if port.address.is_loopback or self._lets_others_in():
            return True
        if not self._has_told:
            self._has_told = True
            log.error(
                "clients of other machines are not let in: there are no users, and without any"
                " everybody may do everything",
                port=str(port),
                remedy="make a user (holdfast users add), or let everybody in (anonymous_role)",
            )
        return False

    @property
    def _missing(self) -> list[ClientPort]:
        return [it for it in self._ports if it not in self._open_ports and self._is_wanted(it)]

    async def _open(self) -> None:
        while missing := self._missing:
            opened = await self._listen_at(missing)
            for port in [it for it in opened if not self._is_wanted(it)]:
                opened.pop(port).close()  # The role changed meanwhile.
            if not opened:
                return
            self._open_ports |= opened
            first, *others = map(str, opened)
            more = {"others": ", ".join(others)} if others else {}
            log.info("serving clients", stomp=first, term=self._role.term, **more)

    async def _listen_at(self, ports: Sequence[ClientPort]) -> dict[ClientPort, PortListener]:
        """Open these, as long as they are wanted."""
        opened: dict[ClientPort, PortListener] = {}
        for port in ports:
            if not self._is_wanted(port):
                break
            try:
                opened[port] = await self._listen(port)
            except OSError as error:
                self._is_ended = True
                reason = f"the client port {port.address} cannot be opened: {error.strerror}"
                self._fail(StoreError(reason))
                break
        return opened

    async def _listen(self, port: ClientPort) -> PortListener:
        made = PortListener(
            port.make_protocol,
            self._handshakes.settings,
            tls=None if port.tls is None else (port.tls, self._handshakes),
            plain_answer=TLS_IS_SPOKEN,
        )
        await made.open(port.address.host, port.address.port, self._backlog)
        return made
