"""
Members' links by TLS: who is dialed how, and who is taken in, while a cluster is changed over.

    accept    dial by TLS, and in clear whoever does not speak it; take both
    require   dial by TLS, take TLS

So a running cluster goes from clear to `accept` and from there to `require` node by node: whoever
meets whom, both know a way that the other one takes. A member that dials in clear waits for the
other end to speak first, and one that dials by TLS does not; so who says nothing is spoken to.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final, TypeVar, cast

from holdfast.replication.handshake import DIGEST_BYTES, REFUSED, frame
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.listener import Apart, PortListener
from holdfast.transport.tls import ServerTls
from holdfast.transport.tls_dialing import DialedConnection, DialFailedError, Dials
from holdfast.transport.tls_faults import Fault

IN_CLEAR_REFUSED: Final = "links go by TLS only there (peer_tls = 'require'), this came in clear"

LinkT = TypeVar("LinkT", bound=asyncio.BaseProtocol)

_TOLD: Final = {
    Fault.UNTRUSTED: "its certificate is not trusted: {}",
    Fault.NO_TLS: "it does not speak TLS, which peer_tls = 'require' asks for",
    Fault.REFUSED: "it refuses our certificate: {}",
    Fault.WANTED: "it refuses our certificate",
    Fault.LOST: "TLS came to nothing: {}",
}


class PeerTls:
    """How a node's links go by TLS."""

    def __init__(
        self, shown: ServerTls, handshakes: Handshakes, members: Handshakes, *, is_required: bool
    ) -> None:
        """
        Show this, which is read for dialing, too.

        Args:
            handshakes: The line of whoever comes.
            members: The line of those who come from where members are: nobody else stands in it.
        """
        self.is_required = is_required
        self._shown = shown
        self._handshakes = handshakes
        self._members = members
        self._dials = Dials(handshakes.settings)
        # All links have one slice of a turn.
        self._dials.records = self._members.records = handshakes.records

    async def listen(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        address: tuple[str, int],
        backlog: int,
        *,
        is_members: Callable[[str], bool],
    ) -> PortListener:
        """
        Take connections in.

        Args:
            is_members: Whether members are where an address is.

        Raises:
            OSError: The address cannot be listened on.
        """
        listener = PortListener(
            make,
            self._handshakes.settings,
            tls=(self._shown, self._handshakes),
            make_silent=_Refusing if self.is_required else make,
            apart=Apart(lambda there, _: is_members(there), self._members),
        )
        await listener.open(*address, backlog)
        return listener

    async def dial(
        self, make: Callable[[], LinkT], host: str, port: int, tell: Callable[[str], None]
    ) -> LinkT:
        """
        Make a connection; its protocol has heard `connection_made`. Cancelling gives it up.

        Args:
            tell: Called where the other end refuses us after it was made.

        Raises:
            OSError: It cannot be made; by TLS with a sentence that says why.
        """
        loop = asyncio.get_running_loop()
        transport, dialed = await loop.create_connection(
            lambda: DialedConnection(
                make, self._shown, self._dials, tell=lambda error: tell(_told(error))
            ),
            host,
            port,
        )
        try:
            return cast("LinkT", await dialed.wait_open())
        except DialFailedError as error:
            if self.is_required or error.fault is not Fault.NO_TLS:
                raise OSError(0, _told(error)) from error
        except BaseException:
            transport.abort()
            raise
        _, link = await loop.create_connection(make, host, port)
        return link


def _told(error: DialFailedError) -> str:
    return _TOLD[error.fault].format(error)


class _Refusing(asyncio.Protocol):
    """One that came in clear where that is not taken: it is told so, as a member is."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say why, and close."""
        content = json.dumps({"reason": IN_CLEAR_REFUSED, "is_fenced": False}).encode()
        stream = cast("asyncio.Transport", transport)
        stream.write(frame(REFUSED, bytes(DIGEST_BYTES) + content))
        stream.close()
