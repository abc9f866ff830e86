"""
Whom a member dials by TLS and whom in clear; tests/integration/test_secured_links.py has the links.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.replication.handshake import DIGEST_BYTES, REFUSED
from holdfast.replication.message_codec import FRAME_HEADER
from holdfast.replication.peer_tls import IN_CLEAR_REFUSED, PeerTls
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls, TlsOptions

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path):
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    options = TlsOptions(
        name="peers",
        certificate=tmp_path / "a.pem",
        client_ca=tmp_path / "ca.pem",
        client="required",
    )

    def make(*, is_required: bool) -> PeerTls:
        shown = ServerTls(options, dials=True)
        lines = Handshakes(PortSettings()), Handshakes(PortSettings())
        return PeerTls(shown, *lines, is_required=is_required)

    return make


class Own(asyncio.Protocol):
    """A link of ours."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


class Speaking(asyncio.Protocol):
    """A member of before, which speaks first."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"\0\0\0\x25A" + bytes(36))  # type: ignore[attr-defined]


def test_who_speaks_no_tls_is_dialed_in_clear_unless_that_is_required(made) -> None:
    """While a cluster is changed over; afterwards it is said why there is no link."""

    async def scenario() -> None:
        server = await asyncio.get_running_loop().create_server(Speaking, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()[:2]
        link = await made(is_required=False).dial(Own, *place, print)
        with pytest.raises(OSError, match="does not speak TLS, which peer_tls = 'require' asks"):
            await made(is_required=True).dial(Own, *place, print)
        link.transport.close()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(scenario())


def test_members_have_a_line_of_their_own(made) -> None:
    """Strangers with 192 sockets that left their handshakes lying let no member in."""

    async def scenario() -> None:
        tls = made(is_required=True)
        there: list[str] = []
        listener = await tls.listen(
            asyncio.Protocol,
            ("127.0.0.1", 0),
            8,
            is_members=lambda source: bool(there.append(source)) or source == "127.0.0.2",
        )
        place = listener.sockets[0].getsockname()[:2]
        writers = []
        for source in ("127.0.0.1", "127.0.0.2"):
            _, writer = await asyncio.open_connection(*place, local_addr=(source, 0))
            writer.write(b"\x16\x03")
            writers.append(writer)
        while not (len(tls._handshakes) and len(tls._members)):
            await asyncio.sleep(0)
        assert sorted(there) == ["127.0.0.1", "127.0.0.2"]
        for writer in writers:
            writer.close()
        while len(tls._handshakes) or len(tls._members):
            await asyncio.sleep(0)
        listener.close()

    asyncio.run(scenario())


def test_who_comes_in_clear_where_tls_is_required_is_told_so(made) -> None:
    """In the words of a refusal, which members of before show as well."""

    async def scenario() -> None:
        listener = await made(is_required=True).listen(
            asyncio.Protocol, ("127.0.0.1", 0), 8, is_members=lambda _: False
        )
        host, port = listener.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(host, port)
        data = await asyncio.wait_for(reader.read(), 10)
        size, kind = FRAME_HEADER.unpack_from(data)
        content = data[FRAME_HEADER.size + DIGEST_BYTES :]
        assert (size, kind) == (1 + DIGEST_BYTES + len(content), REFUSED)
        assert json.loads(content) == {"reason": IN_CLEAR_REFUSED, "is_fenced": False}
        writer.close()
        listener.close()

    asyncio.run(scenario())
