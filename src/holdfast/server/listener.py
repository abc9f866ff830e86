"""
The client port: open while the role admits clients, closed otherwise.

A node that does not serve keeps it closed, so that any failover client finds the leader by trying.

Invariants:
    The port is open only while the role admits clients, and never again once it is ended.
    There is one attempt to open it at a time.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from holdfast.config.address import Address
from holdfast.errors import StoreError

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


class Listener:
    """One port that obeys a role."""

    __slots__ = (
        "_address",
        "_backlog",
        "_fail",
        "_is_ended",
        "_opening",
        "_protocol",
        "_role",
        "_server",
    )

    def __init__(
        self,
        address: Address,
        role: Doorkeeper,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        backlog: int,
        fail: Callable[[Exception], None],
    ) -> None:
        """Serve each client with a `protocol` of its own; `fail` if the port cannot be opened."""
        self._address = address
        self._role = role
        self._protocol = protocol
        self._backlog = backlog
        self._fail = fail
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_ended = False

    @property
    def is_open(self) -> bool:
        """Clients are let in."""
        return self._server is not None

    def follow(self) -> None:
        """Open or close the port as the role says now."""
        if not self._is_wanted:
            self._close()
        elif self._server is None and (self._opening is None or self._opening.done()):
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def end(self) -> None:
        """Close the port for good."""
        self._is_ended = True
        self._close()

    @property
    def _is_wanted(self) -> bool:
        return self._role.admits_clients and not self._is_ended

    async def _open(self) -> None:
        address = self._address
        if not self._is_wanted:
            return
        try:
            server = await asyncio.get_running_loop().create_server(
                self._protocol,
                address.host,
                address.port,
                backlog=self._backlog,
                reuse_address=True,
            )
        except OSError as error:
            self._is_ended = True
            self._fail(StoreError(f"the client port {address} cannot be opened: {error.strerror}"))
            return
        if not self._is_wanted:
            server.close()  # The role changed meanwhile.
            return
        self._server = server
        log.info("serving clients", stomp=str(address), term=self._role.term)

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            log.info("client port is closed")
