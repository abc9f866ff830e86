"""
A listening port with an accept loop of its own, so that a crowd at the door stops nothing else.

asyncio and uvloop take all that wait in one go, a thousand of them if the queue is so long. Here a
turn of the loop takes a few; the next ones have theirs. Whoever comes is asked for by address
before anything is worked out for it, and with TLS goes through `handshakes`: counted by its address
from the moment it is taken, also while it is looked at whether it speaks TLS at all. Who finds no
place there waits for one as a bare socket (`porch`). A port may
have a line apart for those whom strangers must not keep out; then nobody waits at its door.

Invariants:
    A port that is closed takes nobody any more, whatever was planned.
    Want of descriptors or memory closes nothing: the port is looked at again soon.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls
from holdfast.transport.tls_connection import PlainAnswer, TlsConnection

SHORTAGE_SECONDS: Final = 0.2
"""How long nobody is taken after there was no descriptor for it."""

SILENCE_SECONDS: Final = 0.5
"""Who dials by TLS speaks first, with the end of the connection's own handshake."""

RECORD_OF_HANDSHAKE: Final = b"\x16"
"""RFC 8446, 5.1."""

_NOBODY: Final = {errno.EAGAIN, errno.EINTR, errno.ECONNABORTED}
_SHORTAGES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

logger = logging.getLogger("holdfast.transport")


class Apart(NamedTuple):
    """Who has a line of his own, which others cannot fill."""

    takes: Callable[[str, str], bool]
    """Whether one from there (the first address) to here (the second) belongs to it."""
    handshakes: Handshakes


class PortListener:
    """The sockets of one address."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        settings: PortSettings,
        *,
        tls: tuple[ServerTls, Handshakes] | None = None,
        plain_answer: PlainAnswer = b"",
        admits: Callable[[str], bool] = lambda _: True,
        make_silent: Callable[[], asyncio.BaseProtocol] | None = None,
        apart: Apart | None = None,
    ) -> None:
        """
        Serve each connection with a protocol of its own.

        Args:
            tls: What is shown, and the line of those who come; None: in clear.
            plain_answer: What is sent to a client that speaks in clear where TLS is spoken.
            make_silent: Serves who does not begin with TLS within `SILENCE_SECONDS`: where others
                may wait for us to speak first. None: nobody may.
            admits: Whether anybody of this address may come in; whoever may not is closed.
            apart: By TLS, who has a line of his own.
        """
        self._make_protocol = make_protocol
        self._settings = settings
        self._tls = tls
        self._plain_answer = plain_answer
        self._admits = admits
        self._make_silent = make_silent
        self._apart = apart
        self._sockets: list[socket.socket] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: set[_Arrived] = set()
        """Who was taken and has no place yet."""

    async def open(self, host: str, port: int, backlog: int) -> None:
        """
        Bind and listen; returns when connections are taken.

        Raises:
            OSError: It cannot be bound.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, place in dict.fromkeys(found):
                self._bind(socket.socket(family, kind, protocol), place)
            for bound in self._sockets:
                bound.listen(backlog)
                loop.add_reader(bound, self._accept, bound)
        except OSError:
            self.close()
            raise

    def _bind(self, made: socket.socket, place: tuple[object, ...]) -> None:
        self._sockets.append(made)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(place)

    def use(self, bound: socket.socket) -> None:
        """Take connections from a socket that is bound and listens."""
        bound.setblocking(False)
        self._sockets.append(bound)
        asyncio.get_running_loop().add_reader(bound, self._accept, bound)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """What it listens on."""
        return tuple(self._sockets)

    def close(self) -> None:
        """Take nobody any more; whoever is connected stays."""
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            loop.remove_reader(bound)
            bound.close()
        self._sockets.clear()
        for arrived in tuple(self._waiting):
            arrived.give_up("the port was closed")

    def _accept(self, bound: socket.socket) -> None:
        for _ in range(self._settings.accept_count_max):
            if self._is_door_shut(bound):
                asyncio.get_running_loop().remove_reader(bound)
                return
            try:
                taken, peer = bound.accept()
            except OSError as error:
                if error.errno not in _NOBODY:
                    self._fall_short(bound, error)
                return
            self._take(taken, str(peer[0]))

    def _is_door_shut(self, bound: socket.socket) -> bool:
        """Whether those who come wait, whoever they are: never where some have a line apart."""
        if self._tls is None or self._apart is not None:
            return False
        return not self._tls[1].expect(lambda: self._resume(bound))

    def _take(self, taken: socket.socket, source: str) -> None:
        taken.setblocking(False)
        if not self._admits(source):
            taken.close()
            return
        line = self._line_for(taken, source)
        if line is None:
            self._begin(taken, None)
            return
        arrived = _Arrived(line, taken, source, (self._waiting, self._begin))
        self._waiting.add(arrived)
        line.let_in(arrived)

    def _begin(self, taken: socket.socket, arrived: _Arrived | None) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(taken, arrived))
        if arrived is not None:
            arrived.task = task
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _line_for(self, taken: socket.socket, source: str) -> Handshakes | None:
        if self._tls is None:
            return None
        if self._apart is not None and self._apart.takes(source, str(taken.getsockname()[0])):
            return self._apart.handshakes
        return self._tls[1]

    async def _connect(self, taken: socket.socket, arrived: _Arrived | None) -> None:
        make: Callable[[], asyncio.BaseProtocol] = partial(self._protocol, arrived)
        try:
            if self._make_silent is not None and not await _begins_with_tls(taken):
                make = self._make_silent
            if not self._sockets:
                taken.close()  # The port was closed meanwhile.
                return
            if arrived is not None:
                arrived.task = None  # From here on whoever takes its place is asked.
            await asyncio.get_running_loop().connect_accepted_socket(make, taken)
        except OSError:
            taken.close()  # It is gone already.
        finally:
            if arrived is not None:
                arrived.handshakes.leave(arrived)

    def _protocol(self, arrived: _Arrived | None) -> asyncio.BaseProtocol:
        if self._tls is None or arrived is None:
            return self._make_protocol()
        return TlsConnection(
            self._make_protocol,
            self._tls[0],
            arrived.handshakes,
            plain_answer=self._plain_answer,
            arrived=arrived,
        )

    def _fall_short(self, bound: socket.socket, error: OSError) -> None:
        """Leave those who wait at the door for a moment."""
        if error.errno not in _SHORTAGES:
            logger.warning("a connection could not be taken: %s", error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(bound)
        loop.call_later(SHORTAGE_SECONDS, self._resume, bound)

    def _resume(self, bound: socket.socket) -> None:
        if bound in self._sockets:
            with contextlib.suppress(OSError):
                asyncio.get_running_loop().add_reader(bound, self._accept, bound)


class _Arrived:
    """Somebody who was taken and is no connection yet."""

    def __init__(
        self,
        handshakes: Handshakes,
        taken: socket.socket,
        source: str,
        port: tuple[set[_Arrived], Callable[[socket.socket, _Arrived], None]],
    ) -> None:
        """Wait for a place; the port's are those that do, and what makes a connection of one."""
        self.handshakes = handshakes
        self.source = source
        self._waiting, self._connect = port
        self._taken = taken
        self._has_spoken = False
        self.task: asyncio.Task[None] | None = None
        """Looks at what it says first; None: it waits for a place, or is about to be a connection,
        which will ask."""

    @property
    def has_spoken(self) -> bool:
        """Whether something has come of it."""
        if not self._has_spoken:
            with contextlib.suppress(OSError):  # Nothing, or nobody any more.
                self._has_spoken = bool(self._taken.recv(1, socket.MSG_PEEK))
        return self._has_spoken

    def begin(self) -> None:
        """Look at what it says first, or make a connection of it: it has a place now."""
        self._waiting.discard(self)
        self._connect(self._taken, self)

    def proceed(self) -> None:
        """It has no handshake yet."""

    def give_up(self, reason: str) -> None:
        """Close it: others need the room."""
        self.handshakes.failed(self, reason)
        self.handshakes.leave(self)
        if self.task is not None:
            self.task.cancel()
        if self.task is not None or self in self._waiting:
            self._waiting.discard(self)
            self._taken.close()


async def _begins_with_tls(taken: socket.socket) -> bool:
    """Look at the first byte without taking it; whoever says nothing in time does not."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    try:
        # By a descriptor of its own: uvloop is done with one it watches a turn later only, and
        # must not meet it again as a connection before that.
        probe = taken.dup()
    except OSError:
        return True  # There are none left: its handshake is waited for, and given up in time.
    loop.add_reader(probe, came.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_SECONDS):
                await came.wait()
        # Also where time is up: a loop that was stopped hears of that before it hears of the byte.
        return probe.recv(1, socket.MSG_PEEK) in (RECORD_OF_HANDSHAKE, b"")
    except OSError:  # There is none, or nobody any more.
        return False
    finally:
        loop.remove_reader(probe)
        probe.close()
