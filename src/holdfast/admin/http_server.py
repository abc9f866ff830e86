"""
The admin port itself: uvicorn inside the node's own loop.

The node decides when to stop, so no signal handlers are installed here. The socket is bound before
uvicorn sees it: a port that is taken is an OSError for the node to report, where uvicorn would end
the process.

Owned by the node's task; `start` and `stop` are called once each.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.applications import Starlette

STOP_SECONDS_MAX = 2
BACKLOG = 64


class AdminServer:
    """Serves one application at one address."""

    __slots__ = ("_host", "_port", "_server", "_socket", "_task")

    def __init__(self, application: Starlette, *, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server = _EmbeddedServer(
            uvicorn.Config(
                application,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                http="h11",
                timeout_graceful_shutdown=STOP_SECONDS_MAX,
                server_header=False,
            )
        )
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it listens, `host:port`; the real port where 0 was asked for."""
        port = self._socket.getsockname()[1] if self._socket is not None else self._port
        return f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"

    async def start(self) -> None:
        """
        Bind and serve; returns when requests are accepted.

        Raises:
            OSError: The address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._socket = socket.create_server(
            (self._host, self._port), family=family, backlog=BACKLOG
        )
        self._socket.setblocking(False)
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="admin port")
        accepting = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait({self._task, accepting}, return_when=asyncio.FIRST_COMPLETED)
        accepting.cancel()

    async def stop(self) -> None:
        """Finish requests under way, at most STOP_SECONDS_MAX seconds, and close the port."""
        if self._task is None:
            return
        self._server.should_exit = True
        await self._task
        self._task = None


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that is a guest in somebody else's loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
