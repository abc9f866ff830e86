"""
One TCP or TLS connection to one broker, from CONNECT to its end; the only sockets of the client.

Bytes in go through the STOMP codec and out to the owner, a read at a time; frames out are gathered
until the loop's next turn and written together, so that a thousand small sends are one system call.
A link never comes back: the session opens another one.

Invariants:
    The owner hears `link_lost` exactly once per established link, and no frame after it.
    A silent broker is given up after its heart-beat and some grace, unless we stopped reading.

Owned by the session's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Protocol, TypeAlias, cast

from holdfast.client.address import Address
from holdfast.client.race import open_socket
from holdfast.client.settings import ClientSettings, TlsSettings
from holdfast.client.tls_failures import TLS_REQUIRED, in_clear, tls_failure
from holdfast.client.wire import VERSION, control
from holdfast.environment.told_in_clear import why_not_told
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    HoldfastError,
    LinkError,
    LinkLostError,
    RemoteProtocolError,
)
from holdfast.model.limits import KiB
from holdfast.model.networks import is_same_machine
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import Frame, ProtocolFailed
from holdfast.protocols.stomp.heart_beat import HEART_BEAT, HeartBeat
from holdfast.transport.tls_faults import ALERT

logger = logging.getLogger("holdfast.client")

WRITE_BYTES = 256 * KiB
"""Gathered frames of this size are written at once instead of at the loop's next turn."""


GOODBYE_SECONDS = 1.0
"""How long the end of TLS is waited for at most."""

_OF_OUR_HEADERS = {"bad-header", "header-too-long", "header-block-too-large"}
"""Codes of a refused CONNECT: its client-id, login or passcode is one that no broker takes."""


SocketEnd: TypeAlias = "tuple[Any, ...]"


class LinkOwner(Protocol):
    """Who hears what a link brings."""

    def frames_received(self, link: Link, frames: list[Frame]) -> None:
        """Frames of one read, in the order of the wire."""

    def link_lost(self, link: Link, error: HoldfastError) -> None:
        """The link is gone; nothing more comes from it."""


class Link(asyncio.Protocol):
    """See the module's docstring; made by `open_link`."""

    def __init__(self, address: Address, owner: LinkOwner) -> None:
        self.address = address
        self.greeting: dict[str, str] = {}
        """Headers of CONNECTED."""

        self.connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._stomp = StompConnection("client")
        self._transport: asyncio.Transport | None = None
        self._is_lost: asyncio.Future[None] = self._loop.create_future()
        """Done once the socket is closed."""
        self._goodbye: asyncio.Task[None] | None = None
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._failure: HoldfastError | None = None
        self._is_paused = False
        self._is_established = False
        self._is_closed = False

    @property
    def ends(self) -> tuple[SocketEnd | None, SocketEnd | None]:
        """Address and port of the other end and of ours, where the socket has them."""
        assert self._transport is not None, "it is open"
        there, here = (self._transport.get_extra_info(it) for it in ("peername", "sockname"))
        return there or None, here or None

    def write(self, frame: bytes) -> None:
        """Send a frame with the others of this turn; nothing happens on a link that is lost."""
        gathered = self._gathered
        if not gathered:
            self._loop.call_soon(self._write_gathered)
        gathered.append(frame)
        self._gathered_bytes += len(frame)
        if self._gathered_bytes >= WRITE_BYTES:
            self._write_gathered()

    def _write_gathered(self) -> None:
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = []
        self._gathered_bytes = 0
        if self._transport is not None and not self._is_closed:
            self._transport.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))
            self._stomp.note_sent(self._loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open (asyncio)."""
        # uvloop's transports keep the contract of asyncio.Transport without inheriting from it.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came in (asyncio)."""
        if self._is_closed:
            return
        if not self._is_established and self.address.tls is None and data.startswith(ALERT):
            self.abort(in_clear(self.address))
            return
        stomp = self._stomp
        stomp.note_received(self._loop.time())
        stomp.receive_data(data)
        frames: list[Frame] = []
        for event in stomp.events_received():
            if isinstance(event, Frame):
                frames.append(event)
            elif isinstance(event, ProtocolFailed):
                self._failure = event.error
        if frames and not self._is_established:
            frames = self._greeted(frames)
        if frames:
            self._owner.frames_received(self, frames)
        if self._failure is not None:
            self.abort(self._failure)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed (asyncio)."""
        if not self._is_lost.done():
            self._is_lost.set_result(None)
        if self._failure is None and isinstance(error, ssl.SSLError):
            self._failure = tls_failure(self.address, error)
        reason = f": {error}" if error else ""
        self._end(self._failure or LinkLostError(f"{self.address} closed the connection{reason}"))

    def _greeted(self, frames: list[Frame]) -> list[Frame]:
        """Take the answer to CONNECT; give what came behind it."""
        first = frames[0]
        if first.command == "ERROR":
            self._failure = connect_refusal(self.address, first)
            return []
        if first.command != "CONNECTED":
            self._failure = RemoteProtocolError(f"{self.address} answered with {first.command}")
            return []
        if self._stomp.version != VERSION:
            self._failure = RemoteProtocolError(
                f"{self.address} speaks STOMP {self._stomp.version}; {VERSION} is needed",
                code="version",
            )
            return []
        self.greeting = first.headers
        if not self.connected.done():
            self._is_established = True
            self.connected.set_result(None)
        return frames[1:]

    def start_heart_beats(self, send_milliseconds: int, receive_milliseconds: int) -> None:
        """Begin to give signs of life and to expect them, as agreed with the broker."""
        mine = (send_milliseconds, receive_milliseconds)
        self._stomp.negotiate_heart_beats(mine, self._stomp.peer_heart_beat)
        self._stomp.note_received(self._loop.time())
        self._stomp.note_sent(self._loop.time())
        self._plan_deadline()

    def _plan_deadline(self) -> None:
        deadline = self._stomp.deadline
        if deadline is not None and not self._is_closed:
            self._timer = self._loop.call_at(deadline, self._deadline_passed)

    def _deadline_passed(self) -> None:
        now = self._loop.time()
        if self._is_paused:
            # What the broker may have sent lies unread in the socket: it is not silent.
            self._stomp.note_received(now)
        outcome = self._stomp.handle_deadline(now)
        if outcome is HeartBeat.SEND:
            self.write(HEART_BEAT)
            # Noted now: the write itself waits for the end of this turn.
            self._stomp.note_sent(now)
        elif outcome is HeartBeat.PEER_DEAD:
            self.abort(LinkLostError(f"{self.address} gave no sign of life in time"))
            return
        self._plan_deadline()

    @property
    def is_closed(self) -> bool:
        """Whether the link has ended, for whatever reason."""
        return self._is_closed

    @property
    def is_paused(self) -> bool:
        """Whether the socket is left unread."""
        return self._is_paused

    def pause_reading(self) -> None:
        """Leave the socket unread, so that the broker stops delivering."""
        if self._transport is not None and not self._is_paused and not self._is_closed:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None and self._is_paused and not self._is_closed:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self, error: HoldfastError) -> None:
        """Give the link up now; what was not written is dropped."""
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    def close(self) -> None:
        """End the link when everything given to `write` is written."""
        self._write_gathered()
        if self._transport is not None:
            if not self._transport.is_closing():  # Closed twice, Python's cannot be aborted.
                self._transport.close()
            if self.address.tls is not None and not self._is_lost.done():
                self._goodbye = self._loop.create_task(self._wait_for_goodbye(self._transport))
        self._end(LinkLostError("the link was closed by the application"))

    async def _wait_for_goodbye(self, transport: asyncio.Transport) -> None:
        """Give the other end a moment to answer the end of TLS; whoever ends the loop ends it."""
        try:
            await asyncio.wait({self._is_lost}, timeout=GOODBYE_SECONDS)
        finally:
            transport.abort()

    def _end(self, error: HoldfastError) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_established:
            self._owner.link_lost(self, error)
        elif not self.connected.done():
            self.connected.set_exception(error)


async def open_link(
    address: Address, owner: LinkOwner, settings: ClientSettings, *, term: int = 0, shown: str = ""
) -> Link:
    """
    Open a link and wait for CONNECTED.

    Args:
        shown: By what a broker knows again whose client this is.
        term: The highest term seen, told to the broker, which is deposed by no such word.

    Raises:
        LinkLostError: Nobody answered, or not in time.
        AuthenticationError: The broker knows neither us nor our passcode.
        CertificateError: Its certificate is not to be trusted.
        RemoteProtocolError: What answers does not speak STOMP 1.2.
        ConfigError: A TLS file, the host's name or the passcode cannot be used, or the passcode
            would be sent in clear to another machine, or to another user of this one.
    """
    seconds = address.connect_seconds_max or settings.connect_seconds_max
    link = Link(address, owner)
    beats = tuple(
        round(interval * 1000)
        for interval in (settings.heart_beat_send_seconds, settings.heart_beat_receive_seconds)
    )
    try:
        async with asyncio.timeout(seconds):
            await _open_socket(link, settings)
            _require_private(link, settings)
            link.write(_connect_frame(address, settings, beats, term, shown))
            await link.connected
    except TimeoutError as error:
        lost = LinkLostError(f"{address} did not answer within {seconds:g} s")
        _discard(link, lost)
        raise lost from error
    except ssl.SSLError as error:
        failure = tls_failure(address, error)
        _discard(link, failure)
        raise failure from error
    except OSError as error:
        lost = LinkLostError(f"{address} cannot be reached: {error}")
        _discard(link, lost)
        raise lost from error
    except ValueError as error:
        # A name or a passcode that no encoding takes; a UnicodeError is one.
        wrong = ConfigError([f"{address} cannot be used: {error}"])
        _discard(link, wrong)
        raise wrong from error
    except BaseException:
        _discard(link, LinkLostError(f"connecting to {address} was given up"))
        raise
    link.start_heart_beats(*beats)
    return link


def _discard(link: Link, error: HoldfastError) -> None:
    link.abort(error)
    # Nobody asks any more how it ended; asyncio would log a failure that nobody asked for.
    with contextlib.suppress(HoldfastError, asyncio.CancelledError, asyncio.InvalidStateError):
        link.connected.result()


async def _open_socket(link: Link, settings: ClientSettings) -> None:
    address = link.address
    context = None
    if address.tls is not None:
        # What the URI says about TLS goes before the settings, as a whole.
        tls = settings.tls if address.tls == TlsSettings() else address.tls
        context = tls.build_context()
    is_secret_in_clear = context is None and bool(settings.passcode)
    opened = await open_socket(address.host, address.port, is_one_loopback=is_secret_in_clear)
    await asyncio.get_running_loop().create_connection(
        lambda: link,
        sock=opened,
        ssl=context,
        server_hostname=(address.name or address.host) if context is not None else None,
    )


def _require_private(link: Link, settings: ClientSettings) -> None:
    """
    Let a passcode leave this machine by TLS only, and go to nobody else on it.

    Raises:
        ConfigError: It would be sent in clear where it may be somebody else's then.
    """
    address = link.address
    if not settings.passcode or address.tls is not None:
        return
    there, here = link.ends
    if there is not None and is_same_machine(there[0], here[0] if here else None):
        if here is not None and (reason := why_not_told(there, here)):
            raise ConfigError([f"{address} is not used: {reason}"])
        return
    is_allowed = address.plain_without_tls
    if is_allowed is None:
        is_allowed = settings.plain_without_tls
    if is_allowed:
        return
    reason = (
        f"{address} is another machine and is spoken to in clear: the passcode would be readable on"
        f" the way. Connect by TLS (stomp+ssl://), or allow it by plain_without_tls"
        f" (?plainWithoutTls=true)"
    )
    raise ConfigError([reason])


def _connect_frame(
    address: Address, settings: ClientSettings, beats: tuple[int, ...], term: int, shown: str
) -> bytes:
    headers = {
        "accept_version": VERSION,
        "host": settings.host or address.name or address.host,
        "heart_beat": f"{beats[0]},{beats[1]}",
    }
    optional = {
        "login": settings.login,
        "passcode": settings.passcode,
        "client_id": settings.client_id,
        "holdfast_term": str(term) if term else None,
        "holdfast_client": shown or None,
        "holdfast_carry": "true" if settings.carries_headers else None,
    }
    headers |= {name: value for name, value in optional.items() if value is not None}
    return control("CONNECT", **headers)


def connect_refusal(
    address: Address, frame: Frame
) -> LinkError | RemoteProtocolError | ConfigError:
    """The error that an ERROR frame in answer to CONNECT means."""
    code = frame.headers.get("code", "refused")
    text = frame.headers.get("message") or frame.body.decode(errors="replace").strip()
    sentence = f"{address} refused the connection: {text or code}"
    if code.startswith(("authentication", "not-authorized", "login")):
        return AuthenticationError(sentence)
    if code == TLS_REQUIRED:
        return in_clear(address)
    if code in _OF_OUR_HEADERS:
        return ConfigError([sentence])
    return RemoteProtocolError(sentence, code=code)
