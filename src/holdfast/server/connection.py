"""
One client's socket: bytes in, bytes out, and when to stop reading.

Bytes wait in `incoming` until the next turn of the loop; answers leave with one write per turn. A
client that is ahead of the disk, of the memory or of a slow subscriber is not read from; its
heart-beats go on meanwhile, and its silence is not held against it.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from holdfast.sessions.stomp import StompSession

if TYPE_CHECKING:
    from holdfast.server.loop import Conductor


class ClientConnection(asyncio.Protocol):
    """The shell around one session."""

    __slots__ = (
        "commit_count",
        "conductor",
        "connected_at",
        "incoming",
        "is_lost",
        "is_output_full",
        "is_paused",
        "is_ready",
        "session",
        "transport",
        "uncommitted_bytes",
    )

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor
        self.incoming: deque[bytes] = deque()
        self.session: StompSession
        self.transport: asyncio.Transport
        self.is_ready = False
        """Whether it stands in the conductor's list of connections to read."""
        self.is_paused = False
        """Whether the socket is not read for now."""
        self.is_output_full = False
        self.is_lost = False
        self.connected_at = conductor.clock.monotonic()
        self.uncommitted_bytes = 0
        self.commit_count = 0
        """The conductor's count of commits when `uncommitted_bytes` was started anew."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new socket."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=self.conductor.settings.output_high_bytes)
        self.conductor.opened(self)

    def data_received(self, data: bytes) -> None:
        """Keep bytes for the next turn."""
        self.incoming.append(data)
        conductor = self.conductor
        if self.commit_count != conductor.commit_count:
            self.commit_count = conductor.commit_count
            self.uncommitted_bytes = 0
        self.uncommitted_bytes += len(data)
        if self.uncommitted_bytes > conductor.settings.connection_uncommitted_bytes_max:
            conductor.pause(self)
        if not self.is_ready:
            self.is_ready = True
            conductor.ready.append(self)
            conductor.schedule()

    def pause_writing(self) -> None:
        """The socket is behind: no deliveries until it has caught up."""
        self.is_output_full = True
        self.session.room_bytes = 0

    def resume_writing(self) -> None:
        """The socket has caught up."""
        self.is_output_full = False
        self.conductor.output_drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: what it held goes back."""
        del exc
        self.is_lost = True
        self.conductor.lost(self)

    def flush(self) -> None:
        """Send what the session has written; close if it is done."""
        session = self.session
        if session.out:
            if not self.is_lost:
                self.transport.write(b"".join(session.out))
            session.out.clear()
        if not self.is_lost and not self.is_output_full:
            unsent = self.transport.get_write_buffer_size()
            session.room_bytes = self.conductor.settings.output_bytes_max - unsent
        if session.is_closing and not self.is_lost:
            self.transport.close()
