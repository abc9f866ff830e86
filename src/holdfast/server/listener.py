"""
The client ports: open while the role admits clients, closed otherwise.

A node that does not serve keeps them closed, so that any failover client finds the leader by
trying. They open and close together.

Invariants:
    They are open only while the role admits clients, and never again once they are ended.
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


@dataclass(frozen=True, slots=True)
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
        "_is_ended",
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
        fail: Callable[[Exception], None],
    ) -> None:
        """Serve clients at these ports; `fail` if one cannot be opened."""
        self._ports = ports
        self._role = role
        self._handshakes = handshakes
        self._backlog = backlog
        self._fail = fail
        self._open_ports: list[PortListener] = []
        self._opening: asyncio.Task[None] | None = None
        self._is_ended = False

    @property
    def is_open(self) -> bool:
        """Clients are let in."""
        return bool(self._open_ports)

    def follow(self) -> None:
        """Open or close the ports as the role says now."""
        if not self._is_wanted:
            self._close()
        elif not self._open_ports and (self._opening is None or self._opening.done()):
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def end(self) -> None:
        """Close the ports for good."""
        self._is_ended = True
        self._close()

    @property
    def _is_wanted(self) -> bool:
        return self._role.admits_clients and not self._is_ended

    async def _open(self) -> None:
        opened: list[PortListener] = []
        for port in self._ports:
            if not self._is_wanted:
                break  # The role changed meanwhile.
            try:
                opened.append(await self._listen(port))
            except OSError as error:
                self._is_ended = True
                reason = f"the client port {port.address} cannot be opened: {error.strerror}"
                self._fail(StoreError(reason))
                break
        if not self._is_wanted:
            for each in opened:
                each.close()
            return
        self._open_ports = opened
        first, *others = map(str, self._ports)
        more = {"others": ", ".join(others)} if others else {}
        log.info("serving clients", stomp=first, term=self._role.term, **more)

    async def _listen(self, port: ClientPort) -> PortListener:
        made = PortListener(
            port.make_protocol,
            self._handshakes.settings,
            tls=None if port.tls is None else (port.tls, self._handshakes),
            plain_answer=TLS_IS_SPOKEN,
        )
        await made.open(port.address.host, port.address.port, self._backlog)
        return made

    def _close(self) -> None:
        if self._open_ports:
            for each in self._open_ports:
                each.close()
            self._open_ports = []
            log.info("client port is closed")
