"""
Links to the other members: listen, dial, prove, frame, reconnect.

The only asynchronous part of this package: it moves bytes and tells the driver what came, decides
nothing. Between two members there is one link; who has the earlier name dials first, the other one
helps out when that fails. A link whose other side closed or reset it is told apart from one that
fell silent, because a dead leader is replaced at once and a silent one only after a timeout.

Invariants:
    Who is shut out by a refusal is what this node was when it dialed and is still.
    The driver hears of a link only after both sides proved the secret and `judge` let the node in.
    One link per member; messages of one link arrive in order.
    A link is judged by bytes that do not move, never by a whole message in time: one entry may be
    larger than every buffer and take longer than every timeout.
    What cannot be sent is dropped with its link: the driver starts over when a new link is up.

Owned by the loop thread; one task per peer to dial, none per message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, cast

from holdfast.environment.randomness import Randomness
from holdfast.errors import AuthenticationError, RemoteProtocolError
from holdfast.replication.formation import Refusal
from holdfast.replication.frame_buffer import Frame, FrameBuffer
from holdfast.replication.handshake import (
    NONCE_BYTES,
    PING,
    SECRETS_DIFFER,
    AcceptorHandshake,
    DialerHandshake,
    Step,
    frame,
)
from holdfast.replication.message_codec import (
    APPEND_REQUEST,
    FRAME_BYTES_MAX,
    decode_message,
    encode_message,
)
from holdfast.replication.messages import Hello, Message
from holdfast.replication.secret_doubt import SecretDoubt
from holdfast.replication.settings import LinkSettings
from holdfast.replication.strangers import Strangers, source_of
from holdfast.replication.tellings import Tellings

logger = logging.getLogger("holdfast.replication")

_CLOSED_BY_PEER = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
_PING = frame(PING)


class LinkOwner(Protocol):
    """Who the links serve: the driver."""

    hello: Hello

    def judge(self, hello: Hello) -> Refusal | None: ...
    def link_up(self, peer: str, hello: Hello) -> None: ...
    def link_down(self, peer: str, *, closed: bool) -> None: ...
    def refused(self, peer: str, refusal: Refusal) -> None: ...
    def receive(self, peer: str, message: Message) -> None: ...
    def moving(self, peer: str, *, has_entries: bool) -> None: ...


class PeerLinks:
    """All links of one node; implements `driver.Links`."""

    def __init__(
        self,
        *,
        secret: bytes,
        randomness: Randomness,
        listen: str = "",
        settings: LinkSettings | None = None,
    ) -> None:
        """
        Make links that serve nobody yet; see `attach` and `start`.

        Args:
            secret: What all members know; proven, never sent.
            listen: `host:port` for the other members; empty to accept nobody.
        """
        self.settings = settings or LinkSettings()
        self.secret = secret
        self._randomness = randomness
        self._listen = listen
        self._owner: LinkOwner | None = None
        self._wake: Callable[[], None] = lambda: None
        self._links: dict[str, PeerLink] = {}
        self._strangers: Strangers[PeerLink] = Strangers(self.settings)
        self._dialed: set[PeerLink] = set()
        """Our own connections that are not yet links; never counted against strangers."""
        self._sources: dict[str, set[str]] = {}
        """Where each member was met, see strangers.py."""
        self._addresses: dict[str, str] = {}
        self._dialers: dict[str, asyncio.Task[None]] = {}
        self.reasons: dict[str, str] = {}
        """Why there is no link with a member, as far as it was tried since the last one."""
        self._tellings = Tellings(
            self.settings.refusal_log_seconds_min, self.settings.refusal_log_seconds_max
        )
        self._doubt: SecretDoubt | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_started = False

    @property
    def owner(self) -> LinkOwner:
        """The driver these links serve."""
        assert self._owner is not None, "attach the driver first"
        return self._owner

    def attach(self, owner: LinkOwner, wake: Callable[[], None]) -> None:
        """Serve this driver; `wake` is called after anything was told to it, to have a turn."""
        self._owner = owner
        self._wake = wake

    async def start(self) -> None:
        """Listen and dial. Raises OSError if the address cannot be listened on."""
        loop = asyncio.get_running_loop()
        if self._listen:
            host, port = split_address(self._listen)
            # All that wait are accepted at once, before any of them can be turned away.
            self._server = await loop.create_server(
                lambda: PeerLink(self, ""), host, port, backlog=self.settings.strangers_max
            )
        self._is_started = True
        self._timer = loop.call_later(self.settings.watch_seconds, self._watch)
        self.set_peers(self._addresses)

    @property
    def address(self) -> str:
        """Where this node really listens; of use when the port was 0."""
        if self._server is None or not self._server.sockets:
            return ""
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def close(self) -> None:
        """Close everything; messages already given to a link are still flushed."""
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dialers.values():
            task.cancel()
        await asyncio.gather(*self._dialers.values(), return_exceptions=True)
        self._dialers.clear()
        if self._server is not None:
            self._server.close()
        for link in [*self._links.values(), *self._strangers, *self._dialed]:
            link.close()
        self._links.clear()
        if self._server is not None:
            await self._server.wait_closed()

    # Asked by the driver --------------------------------------------------------------------------

    def send(self, peer: str, messages: list[Message]) -> None:
        """Send these in order, or lose them if there is no link; never waits."""
        link = self._links.get(peer)
        if link is not None:
            link.send(messages)

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Keep links to exactly these members; `addresses` is `host:port` by name."""
        self._addresses = dict(addresses)
        for name in set(self._sources) - set(addresses):
            del self._sources[name]
        for name in set(self.reasons) - set(addresses):
            del self.reasons[name]
        for name in set(self._dialers) - set(addresses):
            self._dialers.pop(name).cancel()
        for name in set(self._links) - set(addresses):
            self._links[name].close()
        if self._is_started:
            for name, address in addresses.items():
                if name not in self._dialers and address:
                    self._dialers[name] = asyncio.create_task(self._keep(name))

    def drop(self, peer: str) -> None:
        """Close the link to this peer, if there is one; when it dials it is told why."""
        link = self._links.get(peer)
        if link is not None:
            link.close()

    # Dialing --------------------------------------------------------------------------------------

    async def _keep(self, peer: str) -> None:
        """Have a link to this peer for ever: dial whenever there is none. Never ends by itself."""
        settings = self.settings
        pause = settings.dial_seconds_min
        is_later = peer < self.owner.hello.name
        while True:
            link = self._links.get(peer)
            if link is not None:
                await link.wait_lost()
                pause = settings.dial_seconds_min
            if is_later and pause == settings.dial_seconds_min:
                await asyncio.sleep(settings.yield_seconds)
            if peer not in self._links and not await self._dial(peer):
                await asyncio.sleep(pause * self._randomness.uniform(0.5, 1.0))
                pause = min(2 * pause, settings.dial_seconds_max)

    async def _dial(self, peer: str) -> bool:
        """Make one attempt; true if there is a link afterwards."""
        try:
            host, port = split_address(self._addresses[peer])
            # Not wait_for: in Python 3.11 it swallows a cancellation that meets the connection.
            async with asyncio.timeout(self.settings.handshake_seconds):
                _, link = await asyncio.get_running_loop().create_connection(
                    lambda: PeerLink(self, peer), host, port
                )
        except (OSError, TimeoutError, ValueError, KeyError) as error:
            self._note_reason(peer, _told(error))
            return peer in self._links
        await link.wait_decided()
        return peer in self._links

    # Told by the links ----------------------------------------------------------------------------

    def opened(self, link: PeerLink) -> None:
        """A connection was made that has proven nothing yet; one in excess gives way."""
        if link.expected:
            self._dialed.add(link)
            return
        source = link.source
        leaving = self._strangers.enter(link, source, self._member_sources())
        if leaving is not None:
            self.report_stranger(source, "too many connections prove nothing; the oldest give way")
            leaving.give_up()

    def _member_sources(self) -> set[str]:
        """Where members connect from: where they were met, and what their addresses say."""
        met = set[str]().union(*self._sources.values())
        return met | {source_of(host_of(address)) for address in self._addresses.values()}

    def nonce(self) -> bytes:
        """Random bytes for one handshake."""
        return self._randomness.bytes(NONCE_BYTES)

    def admit(self, link: PeerLink, hello: Hello) -> Refusal | None:
        """Say why a proven node gets no link now; None if it gets one."""
        refusal = self.owner.judge(hello)
        if refusal is None and link.expected not in {"", hello.name}:
            refusal = Refusal(f"the address of {link.expected} belongs to {hello.name}")
        if refusal is not None:
            self.report(hello.name, refusal.reason)
            self._note_reason(link.expected, refusal.reason)
            return refusal
        present = self._links.get(hello.name)
        if present is None or present.hello is None:
            return None
        if present.hello.instance == hello.instance:
            # Both sides dialed at once: the one dialed by the earlier name stays, on both sides.
            earlier = min(hello.name, self.owner.hello.name)
            dialer = self.owner.hello.name if link.expected else hello.name
            return None if dialer == earlier else Refusal("there is a link already")
        if present.hello.node_id != hello.node_id:
            return Refusal(f"another node called {hello.name} is connected")
        return None

    def established(self, link: PeerLink, hello: Hello) -> None:
        """Both sides are proven: from now on messages flow."""
        self._forget(link)
        self.reasons.pop(hello.name, None)
        if self._doubt is not None and self._doubt.forget(hello.name):
            self._tellings.forget("")
        if hello.name in self._addresses:
            # The newest place only: what a member left may be anybody's.
            self._sources[hello.name] = {link.source}
        present = self._links.get(hello.name)
        if present is not None:
            is_restarted = present.hello is None or present.hello.instance != hello.instance
            present.replace()
            self.owner.link_down(hello.name, closed=is_restarted)
        self._links[hello.name] = link
        self.owner.link_up(hello.name, hello)
        self._wake()

    def lost(self, link: PeerLink, *, closed: bool) -> None:
        """A connection is gone."""
        self._forget(link)
        hello = link.hello
        if hello is not None and self._links.get(hello.name) is link:
            del self._links[hello.name]
            if asyncio.get_running_loop().time() - link.made_at > self.settings.silence_seconds:
                # One that the other side took back at once is no news.
                self._tellings.forget(hello.name)
            if self._is_started:
                self.owner.link_down(hello.name, closed=closed)
                self._wake()

    def _forget(self, link: PeerLink) -> None:
        self._dialed.discard(link)
        self._strangers.leave(link)

    def refused(self, peer: str, refusal: Refusal) -> None:
        """A peer did not let us in."""
        if peer in self._links:
            return  # Both sides dialed at once and the other link stayed.
        self._note_reason(peer, refusal.reason)
        if not refusal.is_fenced and SECRETS_DIFFER in refusal.reason:
            self.doubt_secret(peer)
            return
        if refusal.is_fenced or self._is_due(peer, refusal.reason):
            self.owner.refused(peer, refusal)
            self._wake()

    def report(self, peer: str, reason: str) -> None:
        """Log why there is no link: once, and then seldom."""
        self._note_reason(peer, reason)
        if self._is_due(peer, reason):
            logger.warning("no link with %s: %s", peer, reason)

    def _is_due(self, peer: str, reason: str) -> bool:
        return self._tellings.is_due(peer, reason, asyncio.get_running_loop().time())

    def _note_reason(self, peer: str, reason: str) -> None:
        if self.is_awaited(peer):
            self.reasons[peer] = reason

    def doubt_secret(self, peer: str) -> None:
        """Log that a member has another secret, and whose is wrong if that can be told."""
        if self._doubt is None:
            self._doubt = SecretDoubt(self.owner.hello.name, self.settings.doubt_seconds)
        now = asyncio.get_running_loop().time()
        sentence = self._doubt.note(peer, self._links.keys(), now)
        if sentence and self._is_due("", sentence):
            logger.warning("%s", sentence)

    def is_awaited(self, peer: str) -> bool:
        """Whether this is a member, and there is no link with it."""
        return peer in self._addresses and peer not in self._links

    def report_stranger(self, source: str, reason: str) -> None:
        """Log why somebody unknown was turned away; seldom, whatever the number."""
        if self._strangers.is_news(source, asyncio.get_running_loop().time()):
            logger.warning("no link with somebody at %s: %s", source, reason)

    def received(self, peer: str, messages: list[Message]) -> None:
        """Messages came; the driver gets them all, then one turn."""
        receive = self.owner.receive
        for message in messages:
            receive(peer, message)
        self._wake()

    def moving(self, peer: str, *, has_entries: bool = False) -> None:
        """A part of a message went or came: the other side lives, though it says nothing whole."""
        self.owner.moving(peer, has_entries=has_entries)
        self._wake()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for link in list(self._links.values()):
            link.watch(now)
        self._timer = loop.call_later(self.settings.watch_seconds, self._watch)


class PeerLink(asyncio.Protocol):
    """One connection; a stranger until its handshake is done."""

    def __init__(self, links: PeerLinks, expected: str) -> None:
        self._links = links
        self.expected = expected
        """Whom we dialed; empty if the other side dialed."""
        self.hello: Hello | None = None
        """Who is at the other end, once the link is made."""
        self.source = ""
        """Where the other side is, as strangers are counted."""
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

    # Called by the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        links = self._links
        peer = transport.get_extra_info("peername")
        self.source = source_of(str(peer[0]) if isinstance(peer, tuple) else str(peer))
        links.opened(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(links.settings.handshake_seconds, self.give_up)
        if self.expected:
            self._handshake = DialerHandshake(links.secret, links.owner.hello, links.nonce())
        else:
            handshake = AcceptorHandshake(links.secret, links.owner.hello, links.nonce())
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

    # Called by PeerLinks --------------------------------------------------------------------------

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


def _told(error: Exception) -> str:
    """Why a dial failed, as the system says it."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "that is no address" if isinstance(error, ValueError | KeyError) else str(error)


def host_of(address: str) -> str:
    """The host of `host:port`, or nothing."""
    return address.rpartition(":")[0].strip("[]")


def split_address(address: str) -> tuple[str, int]:
    """
    Host and port of `host:port` or `[ipv6]:port`.

    Raises:
        ValueError: There is no port.
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
