"""
TLS at the end that dials, with the same care for what is sent as at the one that is dialed.

Such connections are our own, few, and nobody's but ours to begin: so there is no line for their
handshakes. All else is as in `tls_connection`, of which it is the other side.

Invariants:
    Who waits for it hears once: what is within it, or why there is nothing.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from holdfast.transport.ends import address_of
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.porch import Stranger
from holdfast.transport.tls import ServerTls
from holdfast.transport.tls_connection import TlsConnection
from holdfast.transport.tls_faults import Fault, met


class DialFailedError(Exception):
    """A connection by TLS was not made; `fault` is what was met. Caught by who dials."""

    def __init__(self, fault: Fault, why: str) -> None:
        super().__init__(why)
        self.fault = fault


class Dials(Handshakes):
    """The connections of one node to others: each goes on as soon as it can."""

    def enter(self, stranger: Stranger, arrived: Stranger | None = None) -> bool:
        """Nobody is asked for room."""
        return True

    def go_on(self, stranger: Stranger) -> None:
        """Let it do its next step here and now."""
        stranger.proceed()

    def linger(self, stranger: Stranger) -> None:
        """There is nobody to be told why."""

    def done(self, stranger: Stranger) -> None:
        """Nobody waits for its room."""

    def leave(self, stranger: Stranger) -> None:
        """Nobody waits for its room."""

    def failed(self, stranger: Stranger, reason: str) -> None:
        """Who dialed hears it."""


class DialedConnection(TlsConnection):
    """One connection that we made."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls,
        dials: Dials,
        *,
        tell: Callable[[DialFailedError], None],
    ) -> None:
        """
        Serve the other end with a protocol of our own, once it has shown who it is.

        Args:
            tls: With what connections to others go by.
            tell: Called where the other end refuses us after all, which it may say late.
        """
        super().__init__(make_protocol, tls, dials)
        self._tell = tell
        self._opened: asyncio.Future[asyncio.BaseProtocol] = (
            asyncio.get_running_loop().create_future()
        )

    async def wait_open(self) -> asyncio.BaseProtocol:
        """
        Wait for the protocol within, which has heard `connection_made` then.

        Raises:
            DialFailedError: There is none.
        """
        return await asyncio.shield(self._opened)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.source = address_of(transport, "?")
        self._begin()
        self.proceed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(Fault.LOST, "it closed the connection")
        super().connection_lost(exc)

    def _wrap(self) -> None:
        assert self._tls.dialing is not None, "it was read for dialing, too"
        self._context = self._tls.dialing
        self._object = self._context.wrap_bio(self._incoming, self._outgoing)

    def _open(self) -> None:
        super()._open()
        if not self._opened.done():
            self._opened.set_result(self._within)

    def _shaking_failed(self, error: Exception) -> None:
        self._fail(*_met(error))
        super().give_up("")

    def _broken(self, error: Exception) -> None:
        self._tell(DialFailedError(*_met(error)))
        super()._broken(error)

    def give_up(self, reason: str) -> None:
        self._fail(Fault.LOST, reason)
        super().give_up(reason)

    def _fail(self, fault: Fault, why: str) -> None:
        if not self._opened.done():
            self._opened.set_exception(DialFailedError(fault, why))
            self._opened.exception()  # Who gave up waiting does not want it.


def _met(error: Exception) -> tuple[Fault, str]:
    return met(error) if isinstance(error, ssl.SSLError) else (Fault.LOST, str(error))
