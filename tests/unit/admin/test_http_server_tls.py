"""
The admin port by TLS, on loopback: who is let in, and what is said where TLS and clear text meet.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.admin.access import Access
from holdfast.admin.http_api import build_application
from holdfast.admin.http_server import AdminServer
from holdfast.admin.operations import Operations
from holdfast.admin.remote import RemoteNode
from holdfast.admin.token_file import write_token
from holdfast.errors import LinkLostError
from holdfast.spark.log.admin_link import AdminLink
from holdfast.transport.certificates import make_client, make_node, open_authority
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls, TlsOptions

pytestmark = pytest.mark.slow

TOKEN = "33" * 32


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    authority, _ = open_authority(folder)
    make_node(authority, folder / "a.pem", "a", [], 1)
    make_client(authority, folder / "joe.pem", "joe", 1)
    return folder


class Served:
    """A port by TLS, and the file in which its token lies."""

    def __init__(self, node, files: Path, folder: Path, **given: object) -> None:
        options = TlsOptions(name="ops", certificate=files / "a.pem", **given)  # type: ignore[arg-type]
        self.files, self.folder = files, folder
        self.tls = ServerTls(options)
        self.handshakes = Handshakes(PortSettings())
        path = str(folder / "admin-token")
        access = Access(local_token=TOKEN, token_path=path)
        self.server = AdminServer(
            build_application(Operations(node), access=access),
            host="127.0.0.1",
            port=0,
            tls=(self.tls, self.handshakes),
            told_path=access.told_path,
        )

    async def start(self, *, fingerprint: str | None = None) -> None:
        await self.server.start()
        shown = self.tls.fingerprint if fingerprint is None else fingerprint
        write_token(self.folder, *self.server.bound, TOKEN, shown)

    @property
    def url(self) -> str:
        return f"https://{self.server.address}?caFile={self.files}/ca.pem"

    async def get(self, address: str, path: str = "/segments") -> dict[str, object]:
        return await asyncio.to_thread(RemoteNode(address).get, path)


def run(served: Served, scenario: Callable[[], Awaitable[None]], **given: str) -> None:
    async def whole() -> None:
        await served.start(**given)
        try:
            await scenario()
        finally:
            await served.server.stop()

    asyncio.run(whole())


def test_on_the_nodes_machine_the_file_tells_whom_to_believe(node, files, tmp_path) -> None:
    """
    Nobody names a scheme or an authority: the command asks in clear, is told of the file, and asks
    again by TLS, of the certificate in it and no other; the token never goes in clear.
    """
    served = Served(node, files, tmp_path)

    async def scenario() -> None:
        assert (await served.get(served.server.address))["segments"]
        assert (await served.get(served.url))["segments"]
        assert served.handshakes.failed_count == 1  # What came in clear.

    run(served, scenario)


def test_a_certificate_that_is_not_in_the_file_gets_no_token(node, files, tmp_path) -> None:
    """Somebody who took the port of a node that is gone, and has not its key, is asked nothing."""
    served = Served(node, files, tmp_path)

    async def scenario() -> None:
        with pytest.raises(LinkLostError, match="not the one that the node's file tells of"):
            await served.get(served.server.address)

    run(served, scenario, fingerprint="0" * 64)


def test_where_clear_and_tls_meet_each_says_so(node, files, tmp_path) -> None:
    """One sentence each, with what to write instead."""
    served = Served(node, files, tmp_path)
    plain = AdminServer(build_application(Operations(node)), host="127.0.0.1", port=0)

    async def scenario() -> None:
        (tmp_path / "admin-token").unlink()
        address = served.server.address
        with pytest.raises(LinkLostError, match=f"{address} speaks TLS: ask it as https:"):
            await served.get(address, "/status")
        with pytest.raises(LinkLostError, match=r"is not trusted: .*name its authority by \?caFi"):
            await served.get(f"https://{address}", "/status")
        await plain.start()
        with pytest.raises(LinkLostError, match=f"does not speak TLS; ask it as {plain.address}"):
            await served.get(f"https://{plain.address}", "/status")
        await plain.stop()

    run(served, scenario)


def test_it_may_want_a_certificate_of_who_asks(node, files, tmp_path) -> None:
    """And the reader of the log for Spark asks in the same ways."""
    given = {"client": "required", "client_ca": files / "ca.pem"}
    served = Served(node, files, tmp_path, **given)

    async def scenario() -> None:
        with pytest.raises(LinkLostError, match=r"wants a certificate of ours: give \?certificate"):
            await served.get(served.url, "/status")
        own = f"{served.url}&certificateFile={files}/joe.pem"
        assert (await served.get(own, "/status"))["name"] == "a"

        def read() -> dict[str, object]:
            with AdminLink(own, "") as link:
                return link.ask("GET", "/segments", None)

        assert (await asyncio.to_thread(read))["segments"]

    run(served, scenario)


def test_who_says_nothing_is_no_connection_yet(node, files, tmp_path) -> None:
    """
    Sockets without a handshake are strangers in a line of their own: they take no operator's place,
    and one that speaks HTTP in clear is answered in HTTP.
    """
    served = Served(node, files, tmp_path)

    async def scenario() -> None:
        host, port = served.server.bound
        silent = [await asyncio.open_connection(host, port) for _ in range(70)]
        assert (await served.get(served.url, "/health"))["alive"]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 426 ")
        assert json.loads(body)["error"]["code"] == "tls-required"
        for _, each in [*silent, (reader, writer)]:
            each.close()

    run(served, scenario)


def test_a_renewed_certificate_is_shown_from_then_on(node, files, tmp_path) -> None:
    """The port need not be opened again."""
    served = Served(node, files, tmp_path)

    async def scenario() -> None:
        def shown() -> bytes:
            host, port = served.server.bound
            return ssl.get_server_certificate((host, port)).encode()

        before = await asyncio.to_thread(shown)
        authority, _ = open_authority(files)
        make_node(authority, files / "a.pem", "a", [], 1)
        served.tls.use(await asyncio.to_thread(served.tls.read))
        assert await asyncio.to_thread(shown) != before
        assert (await served.get(served.url, "/health"))["alive"]

    run(served, scenario)
