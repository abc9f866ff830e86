"""
Links to the other members: listen, dial, reconnect, and who of several is let in.

The only asynchronous part of this package, with the single link (peer_link.py): it moves bytes and
tells the driver what came, decides nothing. Between two members there is one link; who has the
earlier name dials first, the other one helps out when that fails.

Invariants:
    The driver hears of a link only after both sides proved the secret and `judge` let the node in.
    One link per member.
    What cannot be sent is dropped with its link: the driver starts over when a new link is up.

Owned by the loop thread; one task per peer to dial, none per message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.environment.randomness import Randomness
from holdfast.model.networks import network_of
from holdfast.replication.formation import Refusal
from holdfast.replication.handshake import NONCE_BYTES, SECRETS_DIFFER
from holdfast.replication.messages import Hello, Message
from holdfast.replication.peer_address import host_of, split_address
from holdfast.replication.peer_link import LinkOwner, PeerLink
from holdfast.replication.peer_tls import PeerTls
from holdfast.replication.secret_doubt import SecretDoubt
from holdfast.replication.settings import LinkSettings
from holdfast.replication.strangers import Strangers
from holdfast.replication.tellings import Tellings
from holdfast.transport.listener import PortListener

logger = logging.getLogger("holdfast.replication")


class PeerLinks:
    """All links of one node; implements `driver.Links`."""

    def __init__(
        self,
        *,
        secret: bytes,
        randomness: Randomness,
        listen: str = "",
        settings: LinkSettings | None = None,
        tls: PeerTls | None = None,
    ) -> None:
        """
        Make links that serve nobody yet; see `attach` and `start`.

        Args:
            secret: What all members know; proven, never sent.
            listen: `host:port` for the other members; empty to accept nobody.
            tls: How links go by TLS; None: they are in clear.
        """
        self.settings = settings or LinkSettings()
        self.secret = secret
        self._randomness = randomness
        self._listen = listen
        self._tls = tls
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
        self._listener: PortListener | None = None
        """The same by TLS."""
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
            backlog = self.settings.strangers_max

            def make() -> PeerLink:
                return PeerLink(self, "")

            if self._tls is not None:
                self._listener = await self._tls.listen(
                    make,
                    (host, port),
                    backlog,
                    is_members=lambda there: network_of(there) in self._member_sources(),
                )
            else:
                # All that wait are accepted at once, before any of them can be turned away.
                self._server = await loop.create_server(make, host, port, backlog=backlog)
        self._is_started = True
        self.set_peers(self._addresses)

    @property
    def address(self) -> str:
        """Where this node really listens; of use when the port was 0."""
        port = self._listener or self._server
        if port is None or not port.sockets:
            return ""
        host, number = port.sockets[0].getsockname()[:2]
        return f"{host}:{number}"

    def secured(self) -> set[str]:
        """With whom there is a link by TLS."""
        return {name for name, link in self._links.items() if link.is_secured}

    async def close(self) -> None:
        """Close everything; messages already given to a link are still flushed."""
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dialers.values():
            task.cancel()
        await asyncio.gather(*self._dialers.values(), return_exceptions=True)
        self._dialers.clear()
        for port in (self._server, self._listener):
            if port is not None:
                port.close()
        for link in [*self._links.values(), *self._strangers, *self._dialed]:
            link.close()
        self._links.clear()
        if self._server is not None:
            await self._server.wait_closed()

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
                link = await self._connected(peer, host, port)
        except (OSError, TimeoutError, ValueError, KeyError) as error:
            self._note_reason(peer, _told(error))
            return peer in self._links
        await link.wait_decided()
        return peer in self._links

    async def _connected(self, peer: str, host: str, port: int) -> PeerLink:
        def make() -> PeerLink:
            return PeerLink(self, peer)

        if self._tls is not None:
            return await self._tls.dial(make, host, port, lambda reason: self.report(peer, reason))
        _, link = await asyncio.get_running_loop().create_connection(make, host, port)
        return link

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
        return met | {network_of(host_of(address)) for address in self._addresses.values()}

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
        if self._timer is None:
            self._watch_later()
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
        self._timer = None
        if self._links:  # A node alone is not woken for links that it has not.
            self._watch_later()

    def _watch_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.settings.watch_seconds, self._watch)


def _told(error: Exception) -> str:
    """Why a dial failed, as the system says it."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "that is no address" if isinstance(error, ValueError | KeyError) else str(error)
