"""
The admin port itself: uvicorn inside the node's own loop.

A socket costs a stranger nothing, so there is a bound on them, and a time in which each must have
sent a whole request; see `places` for who goes when the port is full. By TLS whoever
has not finished his handshake does not count as inside, see `transport.handshakes`.

The node decides when to stop, so no signal handlers are installed here. The socket is bound before
uvicorn sees it: a port that is taken is an OSError for the node to report, where uvicorn would end
the process.

Owned by the node's task; `start` and `stop` are called once each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.admin.asked_of import CONNECTION_STATE
from holdfast.admin.endpoint import TLS_REQUIRED
from holdfast.admin.places import Places
from holdfast.admin.settings import AdminPortSettings
from holdfast.model.networks import is_same_machine
from holdfast.transport.ends import address_of, is_within_machine
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.listener import Apart, PortListener
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls

FINISH_SECONDS_MAX: Final = 10.0
"""So long may a request take whose connection had to make room for somebody else's."""

LAST_SECONDS_MAX: Final = 1.0
"""So long one may be on its way to such a connection."""

_CLOSE: Final = (b"connection", b"close")

_logger = logging.getLogger("holdfast.admin.http")
_logger.setLevel(logging.ERROR)  # a warning for each thing that strangers send would fill the log

STOP_SECONDS_MAX = 2
DATE_SECONDS = 1.0
"""How old the date of an answer may be."""
BACKLOG = 32
"""Short: those that wait to be accepted take a descriptor each, beside those that are inside."""


class AdminServer:
    """Serves one application at one address."""

    __slots__ = ("_apart", "_host", "_port", "_server", "_socket", "_task", "_tls", "_told_path")

    def __init__(
        self,
        application: ASGIApp,
        *,
        host: str,
        port: int,
        settings: AdminPortSettings | None = None,
        tls: tuple[ServerTls, Handshakes] | None = None,
        apart: Handshakes | None = None,
        told_path: Callable[[], str] = lambda: "",
    ) -> None:
        """
        Serve nobody yet, see `start`.

        Args:
            tls: What is shown, and the line of those who come; None: in clear.
            apart: The line of those who come from this machine, which no stranger may fill.
            told_path: Where the file is by which the node's own user finds out how to ask; who
                speaks in clear where TLS is spoken is told, on this machine.
        """
        self._host = host
        self._port = port
        self._tls = tls
        self._apart = None if apart is None else Apart(is_same_machine, apart)
        self._told_path = told_path
        self._server = _EmbeddedServer(
            _Config(
                application,
                settings or AdminPortSettings(),
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                # Who asks, and by what, is what the socket shows: headers say what the asker likes.
                proxy_headers=False,
                forwarded_allow_ips="",
                workers=1,  # else the environment says how many
                http=AdminConnection,
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

    @property
    def bound(self) -> tuple[str, int]:
        """The address and the port that the open socket is bound to."""
        assert self._socket is not None, "start it first"
        host, port = self._socket.getsockname()[:2]
        return host, port

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
        self._server.listener = PortListener(
            self._server.make_protocol,
            PortSettings() if self._tls is None else self._tls[1].settings,
            tls=self._tls,
            plain_answer=self._plain_answer,
            apart=self._apart,
        )
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="admin port")
        accepting = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait({self._task, accepting}, return_when=asyncio.FIRST_COMPLETED)
        accepting.cancel()

    def _plain_answer(self, transport: asyncio.Transport) -> bytes:
        """What somebody hears who speaks in clear where TLS is spoken: HTTP, as that speaks."""
        fault = {"code": TLS_REQUIRED, "message": "this port speaks TLS: ask it by https://"}
        if is_within_machine(transport):
            fault["token_file"] = self._told_path()
        body = json.dumps({"error": fault}).encode()
        head = (
            "HTTP/1.1 426 Upgrade Required\r\nContent-Type: application/json\r\nUpgrade: TLS/1.2"
            f"\r\nConnection: Upgrade, close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def stop(self) -> None:
        """Finish requests under way, at most STOP_SECONDS_MAX seconds, and close the port."""
        if self._task is None:
            return
        self._server.end()
        await self._task
        self._task = None


class _Config(uvicorn.Config):
    """What uvicorn is to do, and who may come in."""

    def __init__(self, application: ASGIApp, settings: AdminPortSettings, **options: Any) -> None:
        super().__init__(application, timeout_keep_alive=settings.idle_seconds_max, **options)
        self.port_settings = settings
        self.places = Places[AdminConnection](
            settings.connection_count_max,
            is_idle=lambda it: it.is_idle,
            leaves_waiting=lambda it: it.leaves_waiting,
            source_of=lambda it: it.source,
            is_here=lambda it: it.is_here,
        )


class AdminConnection(H11Protocol):
    """One connection to the admin port; its first request must come soon and quickly."""

    config: _Config

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = _logger
        self.app_state = self.app_state | {CONNECTION_STATE: self}
        self.is_lost = False
        """Whether nobody is there any more to take an answer."""
        self.source = ""
        """The address that it is from; empty: its socket does not tell."""
        self.is_here = False
        """Whether it is from this machine."""
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._finishing: asyncio.TimerHandle | None = None
        self._ignored_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, or close one for it."""
        super().connection_made(transport)
        self.flow = _Reading(transport, self.conn)
        self.source = address_of(transport)
        self.is_here = is_within_machine(transport)
        leaving = self.config.places.enter(self, self.loop.time())
        if leaving is not None:
            leaving.transport.abort()
        if leaving is not self:
            self._watch()

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What the other end has shown by TLS, verified; None: nothing."""
        found: Mapping[str, Any] | None = self.transport.get_extra_info("peercert")
        return found

    @property
    def is_idle(self) -> bool:
        """Whether nothing of a request is here that is not answered."""
        return self._is_answered and self.conn.their_state is h11.IDLE

    @property
    def leaves_waiting(self) -> bool:
        """Whether we wait for its other end: for the head of a request, or to take an answer."""
        return self._is_answered or self.flow.write_paused

    @property
    def _is_answered(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def hold(self, who: str) -> bool:
        """
        Let it be held by who has sent the request that is to be answered; empty: nobody known.

        False: there is no place for one more connection of his.
        """
        held = self.config.places.hold(self, who, self.loop.time())
        if held.leaving is not None:
            held.leaving.transport.abort()
        if held.finishing is not None:
            held.finishing.finish()
        return held.is_held

    def finish(self) -> None:
        """Answer the request that is here, or one that is on its way now, and close; or soon."""
        if self._finishing is None and not self.transport.is_closing():
            self._finishing = self.loop.call_later(LAST_SECONDS_MAX, self._finish_now)
            self._say_last()

    def _finish_now(self) -> None:
        """Take no more requests."""
        self._finishing = self.loop.call_later(FINISH_SECONDS_MAX, self.transport.abort)
        self.shutdown()

    def _say_last(self) -> None:
        """Have the answer to the present request say that it is the last one, and close behind."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.keep_alive = False
        if not cycle.response_started:
            cycle.scope["headers"] = [*cycle.scope["headers"], _CLOSE]  # So uvicorn says it, too.

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another."""
        self.config.places.leave(self)
        self._stop_watching()
        self._stop_patience()
        if self._finishing is not None:
            self._finishing.cancel()
        super().connection_lost(exc)
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        """Take bytes; a request that has begun must come to its end in time."""
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > self.config.port_settings.ignored_bytes_max:
                self.transport.abort()
                return
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._watch()
        else:
            self._stop_watching()

    def handle_events(self) -> None:
        """Do what has come whole, then read on if more is needed for the next."""
        super().handle_events()
        if self._finishing is not None:
            self._say_last()
        if self.conn.their_state is h11.IDLE:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Wait for the asker to take the answer, but not for ever."""
        super().pause_writing()
        if self._patience is None and not self.transport.is_closing():
            seconds = self.config.port_settings.answer_seconds_max
            self._patience = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: some of the answer was taken."""
        self._stop_patience()
        super().resume_writing()

    def send_400_response(self, *message: str, **named: str) -> None:
        """Tell that this is no HTTP; where an answer is under way already, just close."""
        cycle: RequestResponseCycle | None = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if not is_answering and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(*message, **named)
            return
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.abort()

    def _watch(self) -> None:
        if self._timer is None and not self.transport.is_closing():
            seconds = self.config.port_settings.request_seconds_max
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Reading(FlowControl):
    """
    Whether a connection is read.

    uvicorn reads on with each answer, to see whether the asker is still there, and keeps what comes
    for later. So whoever asks faster than it is answered filled the memory. Here nothing is read
    while a request that has come is not answered.
    """

    def __init__(self, transport: asyncio.Transport, connection: h11.Connection) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Read on, unless another request is there already."""
        connection = self._connection
        if self.read_paused and connection.their_state is h11.DONE and connection.trailing_data[0]:
            return
        super().resume_reading()


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that is a guest in somebody else's loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._ending = asyncio.Event()
        self.listener: PortListener | None = None
        """Takes the connections, a few a turn; to be set before it serves."""

    def make_protocol(self) -> asyncio.Protocol:
        """Serve one more connection."""
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        assert sockets and self.listener is not None, "it was bound beforehand"
        self.servers = []
        self.listener.use(sockets[0])
        self.started = True
        self.accepting.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.listener is not None:
            self.listener.close()
        await super().shutdown(sockets)

    def end(self) -> None:
        """Serve nobody new, and return once what is under way is answered."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Set the clock of the answers each second; uvicorn's own looks ten times as often."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
