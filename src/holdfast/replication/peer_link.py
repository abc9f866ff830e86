"""
One link to another member: prove, frame, say that we live, notice that the other side does not.

A link whose other side closed or reset it is told apart from one that fell silent, because a dead
leader is replaced at once and a silent one only after a timeout. What a link is for, and which of
two stays, is decided by all of them together (peer_links.py).

Invariants:
    Who is shut out by a refusal is what this node was when it dialed and is still.
    Messages of one link arrive in order.
    A link is judged by bytes that do not move, never by a whole message in time: one entry may be
    larger than every buffer and take longer than every timeout.

Owned by the loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Protocol, cast

from holdfast.errors import AuthenticationError, RemoteProtocolError
from holdfast.model.networks import network_of
from holdfast.replication.formation import Refusal
from holdfast.replication.frame_buffer import Frame, FrameBuffer
from holdfast.replication.handshake import PING, AcceptorHandshake, DialerHandshake, Step, frame
from holdfast.replication.link_certificates import certificates_of
from holdfast.replication.message_codec import (
    APPEND_REQUEST,
    FRAME_BYTES_MAX,
    decode_message,
    encode_message,
)
from holdfast.replication.messages import Hello, Message
from holdfast.replication.settings import LinkSettings

logger = logging.getLogger("holdfast.replication")

_CLOSED_BY_PEER = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
_PING = frame(PING)


class LinkOwner(Protocol):
    """Who the links serve: the driver."""

    @property
    def hello(self) -> Hello: ...

    def judge(self, hello: Hello) -> Refusal | None: ...
    def link_up(self, peer: str, hello: Hello) -> None: ...
    def link_down(self, peer: str, *, closed: bool) -> None: ...
    def refused(self, peer: str, refusal: Refusal) -> None: ...
    def receive(self, peer: str, message: Message) -> None: ...
    def moving(self, peer: str, *, has_entries: bool) -> None: ...


class LinkSet(Protocol):
    """All links of one node, as one of them sees them; peer_links.py is the real one."""

    settings: LinkSettings
    secret: bytes

    @property
    def owner(self) -> LinkOwner: ...
    def nonce(self) -> bytes: ...
    def opened(self, link: PeerLink) -> None: ...
    def admit(self, link: PeerLink, hello: Hello) -> Refusal | None: ...
    def established(self, link: PeerLink, hello: Hello) -> None: ...
    def lost(self, link: PeerLink, *, closed: bool) -> None: ...
    def received(self, peer: str, messages: list[Message]) -> None: ...
    def moving(self, peer: str, *, has_entries: bool = False) -> None: ...
    def refused(self, peer: str, refusal: Refusal) -> None: ...
    def report(self, peer: str, reason: str) -> None: ...
    def is_awaited(self, peer: str) -> bool: ...
    def doubt_secret(self, peer: str) -> None: ...
    def report_stranger(self, source: str, reason: str) -> None: ...


class PeerLink(asyncio.Protocol):
    """One connection; a stranger until its handshake is done."""

    def __init__(self, links: LinkSet, expected: str) -> None:
        self._links = links
        self.expected = expected
        """Whom we dialed; empty if the other side dialed."""
        self.hello: Hello | None = None
        """Who is at the other end, once the link is made."""
        self.source = ""
        """Where the other side is, as strangers are counted."""
        self.is_secured = False
        """Whether it goes by TLS."""
        self._transport: asyncio.Transport | None = None
        self._handshake: DialerHandshake | AcceptorHandshake | None = None
        self._buffer = FrameBuffer(links.settings.handshake_bytes_max)
        loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._decided: asyncio.Future[None] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed_here = False
        self._is_proven = False
        self.made_at = self._received_at = loop.time()
        self._sent_at = 0.0
        self._told_at = 0.0
        self._written_bytes = self._taken_bytes = 0
        self._taken_at = loop.time()
        self._read_bytes = 0
        """Taken in since everybody else had a turn."""

    async def wait_lost(self) -> None:
        """Wait until the connection is gone; cancelling stops the wait only."""
        await asyncio.shield(self._lost)

    async def wait_decided(self) -> None:
        """Wait until the link is made or will never be; cancelling stops the wait only."""
        await asyncio.shield(self._decided)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        links = self._links
        peer = transport.get_extra_info("peername")
        self.source = network_of(str(peer[0]) if isinstance(peer, tuple) else str(peer))
        links.opened(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(links.settings.handshake_seconds, self.give_up)
        shown = certificates_of(transport)
        self.is_secured = shown is not None
        begun = links.secret, links.owner.hello, links.nonce(), shown
        if self.expected:
            self._handshake = DialerHandshake(*begun)
            if shown is not None and (reason := shown.refusal(self.expected)):
                links.report(self.expected, reason)  # It is not told who we are.
                self.close()
        else:
            handshake = AcceptorHandshake(*begun)
            self._handshake = handshake
            self._transport.write(handshake.challenge())

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits, and the driver if the link had been made."""
        if self._timer is not None:
            self._timer.cancel()
        for future in (self._lost, self._decided):
            if not future.done():
                future.set_result(None)
        is_by_peer = exc is None or isinstance(exc, _CLOSED_BY_PEER)
        self._links.lost(self, closed=is_by_peer and not self._is_closed_here)

    def data_received(self, data: bytes) -> None:
        """Cut into frames; take a step of the handshake or pass messages on."""
        self._count_read(len(data))
        try:
            frames = self._buffer.feed(data)
            if self.hello is None:
                while frames and not self._is_proven and not self._is_closed_here:
                    kind, buffer, start, end = frames.pop(0)
                    assert isinstance(buffer, bytes), "before the proof no frame is large"
                    self._take_step(kind, buffer[start:end])
            if self.hello is not None and not self._is_closed_here:
                if frames:
                    self._pass_on(frames)
                elif self._buffer.held_bytes:
                    self._note_part()
        except (RemoteProtocolError, AuthenticationError) as error:
            self._fail(error)

    def _count_read(self, size: int) -> None:
        """Read no more for now if this was much: the event loop goes on reading while there is."""
        assert self._transport is not None
        if not self._read_bytes:
            asyncio.get_running_loop().call_soon(self._read_on)
        self._read_bytes += size
        if self._read_bytes > self._links.settings.read_bytes_max:
            self._transport.pause_reading()

    def _read_on(self) -> None:
        is_paused = self._read_bytes > self._links.settings.read_bytes_max
        self._read_bytes = 0
        if is_paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, messages: list[Message]) -> None:
        """Write all messages with one call."""
        transport = self._transport
        if transport is None or self._is_closed_here:
            return
        parts: list[bytes] = []
        for message in messages:
            parts += encode_message(message)
        self._sent_at = asyncio.get_running_loop().time()
        if transport.get_write_buffer_size() == 0:
            self._taken_at = self._sent_at
        self._written_bytes += sum(map(len, parts))
        transport.writelines(parts)

    def watch(self, now: float) -> None:
        """Say that we live if nothing else was said; give up a link that fell silent."""
        settings = self._links.settings
        transport = self._transport
        if transport is None or self._is_closed_here:
            return
        waiting = transport.get_write_buffer_size()
        taken = self._written_bytes - waiting
        if taken != self._taken_bytes:
            self._taken_bytes, self._taken_at = taken, now
            if waiting and self.hello is not None:
                self._links.moving(self.hello.name)
        if waiting and now - self._taken_at > settings.silence_seconds:
            logger.warning("%s takes nothing; its link is given up", self._name())
            self.give_up()
        elif now - self._received_at > settings.silence_seconds:
            logger.warning("nothing came from %s; its link is given up", self._name())
            self.give_up()
        elif now - self._sent_at >= settings.ping_seconds and not waiting:
            transport.write(_PING)
            self._written_bytes += len(_PING)
            self._sent_at = now

    def close(self) -> None:
        """Flush and close; the driver does not take it for the peer's death."""
        self._is_closed_here = True
        if self._transport is not None:
            self._transport.close()

    def replace(self) -> None:
        """Close in favour of another link to the same peer, which is told already."""
        self.hello = None
        self.close()

    def give_up(self) -> None:
        """Close at once, whatever was not yet taken."""
        self._is_closed_here = True
        if self._transport is not None:
            self._transport.abort()

    def _name(self) -> str:
        if self.hello is not None:
            return self.hello.name
        return self.expected or self.source

    def _note_part(self) -> None:
        """Something came, and nothing whole yet."""
        now = asyncio.get_running_loop().time()
        self._received_at = now
        if now - self._told_at >= self._links.settings.watch_seconds:
            self._told_at = now
            assert self.hello is not None
            has_entries = self._buffer.held_kind == APPEND_REQUEST
            self._links.moving(self.hello.name, has_entries=has_entries)

    def _pass_on(self, frames: list[Frame]) -> None:
        hello = self.hello
        assert hello is not None
        self._received_at = asyncio.get_running_loop().time()
        messages = [
            decode_message(kind, buffer, start, end)
            if isinstance(buffer, bytes)
            else buffer.message()
            for kind, buffer, start, end in frames
            if kind != PING
        ]
        if messages:
            self._links.received(hello.name, messages)

    def _take_step(self, kind: int, payload: bytes) -> None:
        handshake = self._handshake
        transport = self._transport
        assert handshake is not None and transport is not None
        if isinstance(handshake, DialerHandshake):
            answer = handshake.receive(kind, payload)
            if answer:
                transport.write(answer)
        else:
            handshake.receive(kind, payload)
        peer = handshake.peer
        if peer is None:
            return
        refusal = self._links.admit(self, peer)
        if isinstance(handshake, AcceptorHandshake):
            if refusal is None:
                transport.write(handshake.welcome())
            else:
                transport.write(handshake.refuse(refusal))
        if refusal is not None:
            self.close()
            return
        assert handshake.step is Step.DONE
        self._establish(peer)

    def _establish(self, peer: Hello) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._is_proven = True
        self._buffer.bytes_max = FRAME_BYTES_MAX
        self.made_at = self._received_at = asyncio.get_running_loop().time()
        self._links.established(self, peer)
        # Set last: whoever is told first must not find this link lost by an old one's end.
        self.hello = peer
        assert self._handshake is not None
        present = self._links.owner.hello
        if self._handshake.own is not present:
            # What was news meanwhile went to those that were linked, and is not told again.
            self.send([present])
        if not self._decided.done():
            self._decided.set_result(None)

    def _fail(self, error: Exception) -> None:
        handshake = self._handshake
        if isinstance(handshake, DialerHandshake) and handshake.refusal is not None:
            refusal = _as_it_binds(handshake.refusal, handshake.own, self._links.owner.hello)
            self._links.refused(self.expected, refusal)
        elif isinstance(handshake, AcceptorHandshake) and handshake.peer is None:
            if self._links.is_awaited(handshake.claimed):
                self._links.doubt_secret(handshake.claimed)
            else:
                self._links.report_stranger(self.source, str(error))
            assert self._transport is not None
            self._transport.write(handshake.refuse(Refusal(f"there it says: {error}")))
        else:
            self._links.report(self._name(), str(error))
        self.close()


def _as_it_binds(refusal: Refusal, said: Hello, present: Hello) -> Refusal:
    """
    A refusal as far as it says something of what this node is now.

    It answers what was said as the handshake began. Whoever was promoted or taken along since may
    be let in, or shut out the other one: that is found out by dialing again.
    """
    before = said.cluster_id, said.generation, said.lineage, said.shut_out
    is_same = before == (present.cluster_id, present.generation, present.lineage, present.shut_out)
    return refusal if is_same else replace(refusal, is_fenced=False)
