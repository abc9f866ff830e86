"""
The forwarders between hosts that are loopback addresses: they carry the bytes of each connection.

A process of its own on one event loop. It listens where the others reach each host, finds out which
host dialed (by the process that owns the other end), connects to where the host's program listens,
and carries the two directions of the connection, each by the trouble of its link.

Invariants:
    The bytes of one direction keep their order, and none is lost while both ends live.
    Whatever a cut direction carries, its end included, is held until the link is healed.
    What is held is bounded: then no more is read, and the sender's own buffers fill up.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
from collections import deque
from contextlib import suppress
from typing import Any, cast

import uvloop

from trials.chaos.connection_owner import DialerFinder
from trials.chaos.control import LinkTable, cut_lines, encode_line, take_precedence
from trials.chaos.leftovers import end_marked
from trials.chaos.network import NO_TROUBLE, OPERATOR, LinkState

_HELD_BYTES_MAX = 256 * 1024
_WRITE_BYTES_MAX = 256 * 1024
_BACKLOG = 512
_EOF = b""
"""Held among the bytes: the sender has no more to say."""
_RESET = None
"""Held among the bytes: the sender's end broke."""


class End(asyncio.Protocol):
    """Our end of one socket; two of them, with a stream in each direction, make a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport | None = None
        self.outgoing: Stream | None = None
        """Takes what this end reads."""
        self.incoming: Stream | None = None
        """Gives what this end writes."""
        self.is_full = False
        """Whether it takes no more bytes for now."""
        self.has_ended = False
        """Whether it will read no more."""
        self._is_finished = False
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the socket."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)
        self._connection.opened(self)

    def data_received(self, data: bytes) -> None:
        """Carry it to the other end."""
        if self.outgoing is not None:
            self.outgoing.take(data)

    def eof_received(self) -> bool:
        """Carry the end like the bytes before it; the other direction stays open."""
        self.has_ended = True
        if self.outgoing is not None:
            self.outgoing.take(_EOF)
        else:
            self.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was to come here; let the other end know if it does not."""
        is_by_us = self.transport is None or self._is_finished
        self.transport = None
        if self.incoming is not None:
            self.incoming.forget()
        if self.outgoing is not None and not is_by_us:
            self.outgoing.take(_RESET)
        self._connection.closed()

    def pause_writing(self) -> None:
        """Take no more bytes for now."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Take bytes again."""
        self.is_full = False
        if self.incoming is not None:
            self.incoming.move()

    def give(self, data: bytes | None) -> None:
        """Write bytes or the end of them, or break the connection."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
        elif data is _RESET:
            self._is_finished = True
            transport.abort()
        elif self.has_ended:
            self.close()
        else:
            with suppress(OSError):
                transport.write_eof()

    def close(self) -> None:
        """Write what is left and close."""
        self._is_finished = True
        if self.transport is not None:
            self.transport.close()

    def pause(self, *, is_wanted: bool) -> None:
        """Read no more from the socket, or read again."""
        transport = self.transport
        if self._is_paused is is_wanted or transport is None or transport.is_closing():
            return
        self._is_paused = is_wanted
        if is_wanted:
            transport.pause_reading()
        else:
            transport.resume_reading()


class Stream:
    """One direction of one connection: what came from one end and is yet to go to the other."""

    def __init__(
        self, link: LinkState, sender: End, receiver: End, randomness: random.Random
    ) -> None:
        self.link = link
        self._sender = sender
        self._receiver = receiver
        self._randomness = randomness
        self._held: deque[tuple[float, bytes | None]] = deque()
        self._held_bytes = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes | None) -> None:
        """Carry bytes, or the end of them."""
        link = self.link
        receiver = self._receiver
        if link.trouble is NO_TROUBLE and not self._held and not receiver.is_full:
            if receiver.transport is not None:
                self._give(data)
                return
        elif link.trouble.is_cut:
            link.counts.dropped += 1
        delay = link.trouble.stream_delay(self._randomness)
        link.counts.delayed += delay > 0
        self._due = max(self._due, asyncio.get_running_loop().time() + delay)
        self._held.append((self._due, data))
        self._held_bytes += len(data or b"")
        if self._held_bytes > _HELD_BYTES_MAX:
            self._sender.pause(is_wanted=True)
        self.move()

    def move(self) -> None:
        """Pass on what is due, unless the link is cut or the receiver full."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        receiver = self._receiver
        loop = asyncio.get_running_loop()
        while self._held and not self.link.trouble.is_cut and not receiver.is_full:
            due, data = self._held[0]
            if receiver.transport is None:
                return
            if due > loop.time():
                self._timer = loop.call_at(due, self.move)
                return
            self._held.popleft()
            self._held_bytes -= len(data or b"")
            self._give(data)
        if not self._held:
            self._sender.pause(is_wanted=False)

    @property
    def is_ended(self) -> bool:
        """Whether the sender has said its last, though it may not have been passed on."""
        return bool(self._held) and not self._held[-1][1]

    def forget(self) -> None:
        """Drop what is held: the receiver is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()
        self._held_bytes = 0

    def _give(self, data: bytes | None) -> None:
        counts = self.link.counts
        counts.packets += 1
        counts.bytes += len(data or b"")
        self._receiver.give(data)


class Connection:
    """What one host dialed, and our own connection onward to the other."""

    def __init__(self, forwarder: Forwarder, target: str, port: int) -> None:
        self._forwarder = forwarder
        self._target = target
        self._port = port
        self.dialer = End(self)
        self._far = End(self)
        self._task: asyncio.Task[None] | None = None

    def opened(self, end: End) -> None:
        """One of the two sockets is there."""
        if end is self._far:
            assert self._far.incoming is not None, "made before the far end was dialed"
            self._far.incoming.move()
            return
        assert end.transport is not None
        source = self._forwarder.source_of(end.transport)
        if source is None:
            end.transport.abort()
            return
        forwarder = self._forwarder
        there, back = forwarder.link(source, self._target), forwarder.link(self._target, source)
        for link, sender, receiver in (
            (there, self.dialer, self._far),
            (back, self._far, self.dialer),
        ):
            sender.outgoing = receiver.incoming = Stream(
                link, sender, receiver, forwarder.randomness
            )
        forwarder.connections.add(self)
        self.move()

    def closed(self) -> None:
        """One of the two sockets is gone."""
        is_dialing = self._task is not None and not self._task.done()
        if self.dialer.transport is None and self._far.transport is None and not is_dialing:
            self._forwarder.connections.discard(self)

    def move(self) -> None:
        """Do what the links now allow: dial, or carry what was held."""
        there, back = self.dialer.outgoing, self._far.outgoing
        assert there is not None and back is not None, "made when the dialer came"
        if self._far.transport is not None or (self._task is not None and self._task.done()):
            there.move()
            back.move()
        elif self._task is None and not there.link.trouble.is_cut and not back.link.trouble.is_cut:
            if there.is_ended:
                # It gave up while its first packet could not have arrived: nobody hears of it.
                self.dialer.close()
                self._forwarder.connections.discard(self)
            else:
                self._task = asyncio.create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        host = self._forwarder.listen_addresses[self._target]
        try:
            await loop.create_connection(lambda: self._far, host, self._port)
        except OSError:
            if self.dialer.transport is not None:
                self.dialer.transport.abort()
            self._forwarder.connections.discard(self)


class Forwarder:
    """All connections of the network, and the runner's orders."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control = control
        self._dialers = DialerFinder(settings["mark"], OPERATOR)
        self._addresses: dict[str, str] = settings["addresses"]
        self.listen_addresses: dict[str, str] = settings["listen_addresses"]
        self._ports: list[int] = settings["ports"]
        self.randomness = random.Random(settings["seed"])  # noqa: S311 - to repeat
        self._table = LinkTable(self._addresses)
        self.connections: set[Connection] = set()

    def link(self, source: str, target: str) -> LinkState:
        """The directed link; a host's to itself has no trouble and no count."""
        return self._table.links.get((source, target)) or LinkState(source, target)

    def source_of(self, transport: asyncio.Transport) -> str | None:
        """Which host dialed; None if its process is gone already."""
        dialer = transport.get_extra_info("peername")
        listener = transport.get_extra_info("sockname")
        return self._dialers.find(dialer, listener)

    async def run(self) -> None:
        """Serve until the runner closes its side."""
        try:
            servers = [
                await self._listen(host, port) for host in self._addresses for port in self._ports
            ]
        except OSError as error:
            self._control.sendall(encode_line({"problem": str(error)}))
            return
        reader, writer = await asyncio.open_connection(sock=self._control)
        writer.write(encode_line({}))
        buffer = bytearray()
        while received := await reader.read(65_536):
            buffer += received
            for order in cut_lines(buffer):
                writer.write(encode_line(self._obey(order)))
        for server in servers:
            server.close()

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        address = self._addresses[host]
        return await loop.create_server(
            lambda: Connection(self, host, port).dialer, address, port, backlog=_BACKLOG
        )

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._table.obey(order)
        except (ValueError, KeyError, TypeError) as error:
            return {"problem": f"{type(error).__name__}: {error}"}
        if order["do"] != "counts":
            for connection in list(self.connections):
                connection.move()
        return answer


def main() -> None:
    """Serve as the forwarders of one network."""
    take_precedence()
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.argv[2])
    try:
        uvloop.run(Forwarder(control, settings).run())
    finally:
        end_marked(settings["mark"])


if __name__ == "__main__":
    main()
