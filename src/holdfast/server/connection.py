"""
One client's socket: bytes in, bytes out, and when to stop reading.

Bytes wait in `incoming` until the next turn of the loop; answers leave with one write per turn. A
client that is ahead of the disk, of the memory, of a slow subscriber or of the loop itself is not
read from, nor is one that does not take its answers; its heart-beats go on meanwhile, and its
silence is not held against it.

Invariants:
    What waits in `incoming` and in the socket's buffer is bounded, whatever the client does: it is
    not read again before it is served, and before it has taken what it asked for. What waits in
    all of them is bounded by their shares (`reading`).

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final, Protocol, cast

from holdfast.broker.receipts import Receipts
from holdfast.environment.clock import Clock
from holdfast.server.keep_alive import AGAIN_SECONDS, keep_alive
from holdfast.server.reading import Reading
from holdfast.server.settings import ServerSettings
from holdfast.sessions.registration import Registration
from holdfast.sessions.session import LARGE_BYTES, Session
from holdfast.transport.ends import is_within_machine
from holdfast.transport.unread import holds_unread

_NOTED_BYTES: Final = 4096
"""What waits for a socket below this is not worth a note."""


class Watch(Protocol):
    """Who counts what clients make the node hold."""

    is_half_full: bool

    def note_unsent(self, connection: ClientConnection, size: int) -> None:
        """Take note of what a connection's socket has not taken."""


class Keeper(Protocol):
    """The loop, as far as a connection needs it."""

    settings: ServerSettings
    reading: Reading
    ready: list[ClientConnection]
    """Those who brought something."""
    coming: list[ClientConnection]
    """The same of those who have not said yet who they are."""
    receipts: Receipts
    """What waits to be committed."""
    commit_count: int
    protocols: tuple[Registration, ...]
    """What is spoken on a port that says nothing else."""
    received_bytes: int
    """What all clients sent since the last commit, while something waits to be committed."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    @property
    def held_memory(self) -> Watch:
        """Who is told of what is not taken."""

    def opened(self, connection: ClientConnection) -> None:
        """Take a new client, or turn it away."""

    def lost(self, connection: ClientConnection) -> None:
        """Give back what a client held."""

    def part(self, connection: ClientConnection) -> None:
        """Give a client a while to take its last words."""

    def pause(self, connection: ClientConnection) -> None:
        """Stop reading from a client until there is room for more."""

    def output_drained(self, connection: ClientConnection) -> None:
        """Let a client have deliveries again: its socket has caught up."""

    def schedule(self) -> None:
        """Turn as soon as the sockets that are ready now have been read."""


class ClientConnection(asyncio.BufferedProtocol):
    """The shell around one session."""

    __slots__ = (
        "ask_at",
        "commit_count",
        "keeper",
        "connected_at",
        "has_unfinished",
        "has_unsent",
        "incoming",
        "incoming_bytes",
        "is_deferred",
        "is_lost",
        "is_output_full",
        "is_paused",
        "is_ready",
        "look_at",
        "overdue_at",
        "protocols",
        "session",
        "transport",
        "uncommitted_bytes",
        "written_bytes",
    )

    def __init__(self, keeper: Keeper, protocols: tuple[Registration, ...] | None = None) -> None:
        """Serve a client of a port for these protocols; None: for all that the node serves."""
        self.keeper = keeper
        self.protocols = keeper.protocols if protocols is None else protocols
        self.incoming: deque[bytes] = deque()
        self.incoming_bytes = 0
        """What was added to `incoming` since it was last empty."""
        self.session: Session
        self.transport: asyncio.Transport
        self.has_unfinished = False
        """Whether it is among the keeper's unfinished frames."""
        self.has_unsent = False
        """Whether it is among those who do not take what they asked for."""
        self.is_ready = False
        """Whether it stands in the keeper's list of connections to read."""
        self.is_deferred = False
        """What it brought is not served before it takes its answers; it is not in that list."""
        self.is_paused = False
        """Whether the socket is not read for now."""
        self.is_output_full = False
        self.written_bytes = 0
        """What its socket was given, beside heart-beats, since it was opened."""
        self.is_lost = False
        self.look_at = 0.0
        """No heart-beat is due, or missed, before then."""
        self.overdue_at: float | None = None
        """When it should have said who it is, and what it had brought was not read yet."""
        self.connected_at = keeper.clock.monotonic()
        self.ask_at = self.connected_at + AGAIN_SECONDS
        """When it is looked whether its machine is still there."""
        self.uncommitted_bytes = 0
        self.commit_count = 0
        """The keeper's count of commits when `uncommitted_bytes` was started anew."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new socket."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=self.keeper.settings.output_high_bytes)
        opened = transport.get_extra_info("socket")
        if opened is not None:
            keep_alive(opened)
        self.keeper.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where the next bytes are to be put, and how many at most."""
        del sizehint
        return self.keeper.reading.room

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes, which are there until somebody else is read."""
        self.data_received(bytes(self.keeper.reading.room[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Keep bytes for the next turn."""
        self.incoming.append(data)
        keeper = self.keeper
        if self.commit_count != keeper.commit_count:
            self.commit_count = keeper.commit_count
            self.uncommitted_bytes = 0
        self.uncommitted_bytes += len(data)
        self.incoming_bytes += len(data)
        if keeper.receipts.proposed_count:
            keeper.received_bytes += len(data)
        settings = keeper.settings
        if (
            self.incoming_bytes > keeper.reading.share_bytes
            or keeper.received_bytes > settings.received_bytes_max
            or self.uncommitted_bytes > settings.connection_uncommitted_bytes_max
        ):
            keeper.pause(self)
        if not self.is_ready:
            self.is_ready = True
            (keeper.ready if self.session.is_connected else keeper.coming).append(self)
            keeper.schedule()

    def pause_writing(self) -> None:
        """The socket is behind: no deliveries until it has caught up."""
        self.is_output_full = True
        self.session.room_bytes = 0

    def resume_writing(self) -> None:
        """The socket has caught up."""
        self.is_output_full = False
        self.keeper.held_memory.note_unsent(self, self.transport.get_write_buffer_size())
        self.keeper.output_drained(self)

    @property
    def taken_bytes(self) -> int:
        """How much of what it was given its socket has taken; heart-beats that wait count less."""
        return self.written_bytes - self.transport.get_write_buffer_size()

    @property
    def is_deaf(self) -> bool:
        """Whether the client asks, and does not take the answers."""
        if not self.is_output_full or self.is_lost:
            return False
        settings = self.keeper.settings
        is_half_full = self.keeper.held_memory.is_half_full
        unsent_max = settings.output_high_bytes if is_half_full else settings.unsent_bytes_max
        return self.transport.get_write_buffer_size() > unsent_max

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: what it held goes back."""
        del exc
        self.is_lost = True
        self.session.disconnected()  # At once: it may be back before what it held is given back.
        self.keeper.lost(self)

    @property
    def has_unread(self) -> bool:
        """Whether it has brought something that was not served: in here, or still in its socket."""
        return self.is_ready or holds_unread(self.transport)

    @property
    def peer(self) -> str:
        """Where the client is."""
        peer = self.transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "?"

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """
        Give what the client has shown of itself by TLS, checked; None: nothing.

        As `ssl.SSLSocket.getpeercert` has it: `subject`, `subjectAltName` and so on.
        """
        found: Mapping[str, Any] | None = self.transport.get_extra_info("peercert")
        return found

    @property
    def is_private(self) -> bool:
        """Whether nobody between can read what is sent: by TLS, or within this machine."""
        if self.transport.get_extra_info("sslcontext") is not None:
            return True
        return is_within_machine(self.transport)

    def abort(self) -> None:
        """End it here and now."""
        self.transport.abort()

    def flush(self) -> int:
        """Send what the session has written and give how much; close if it is done."""
        session = self.session
        written = 0
        if session.out:
            if not self.is_lost:
                written = self._write(session.out)
                self.written_bytes += written
            session.out.clear()
        if not self.is_lost:
            unsent = self.transport.get_write_buffer_size()
            if unsent > _NOTED_BYTES or self.has_unsent or session.large:
                self.keeper.held_memory.note_unsent(self, unsent)
            if not self.is_output_full:
                session.room_bytes = self.keeper.settings.output_bytes_max - unsent
        if session.is_closing and not self.is_lost:
            self.transport.close()
            self.keeper.part(self)
        return written

    def _write(self, out: list[bytes]) -> int:
        """Write small pieces as one; large ones as they are, as others may be given them too."""
        given_bytes = self.keeper.settings.output_bytes_max - self.session.room_bytes
        if given_bytes < LARGE_BYTES or len(max(out, key=len)) < LARGE_BYTES:
            data = b"".join(out)
            self.transport.write(data)
            return len(data)
        written = 0
        for is_large, pieces in groupby(out, key=_is_large):
            for piece in pieces if is_large else (b"".join(pieces),):
                self.transport.write(piece)
                written += len(piece)
        return written


def _is_large(piece: bytes) -> bool:
    return len(piece) >= LARGE_BYTES
