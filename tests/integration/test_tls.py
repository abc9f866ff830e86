"""
TLS on real ports: clients that nobody here wrote, certificates renewed under traffic, and crowds.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import stomp
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from holdfast.client import blocking
from holdfast.errors import CertificateError, LinkLostError, RemoteProtocolError
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import Authority, make_client, make_node, open_authority
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 20.0


class Secured:
    """A cluster with a port that shows a certificate and one that wants to see one as well."""

    def __init__(self, folder: Path, start: Callable[..., LocalCluster], topology: str) -> None:
        self.folder = folder
        self.authority, _ = open_authority(folder)
        self.renew_node()
        make_client(self.authority, folder / "joe.pem", "joe", 30)
        self.revoke([])
        tables = [
            "[ports]\nstranger_count_max = 64\n",
            f'[tls.outside]\ncertificate = "{folder}/node.pem"\n',
            f'[tls.inside]\ncertificate = "{folder}/node.pem"\nclient_ca = "{folder}/ca.pem"\n',
            f'client = "required"\ncrl = "{folder}/crl.pem"\n',
        ]
        (folder / "h.toml").write_text("".join(tables))
        self.outside, self.inside = free_ports(2)
        listen = [f"127.0.0.1:{self.outside},tls=outside", f"127.0.0.1:{self.inside},tls=inside"]
        flags = ["--config", str(folder / "h.toml"), "--listen", listen[0], "--listen", listen[1]]
        self.cluster = start(topology, *flags, is_patient=True)
        self.node: LocalNode = self.cluster.leader()

    def renew_node(self) -> None:
        make_node(self.authority, self.folder / "node.pem", "node", [], 30)

    def revoke(self, names: list[str]) -> None:
        (self.folder / "crl.pem").write_bytes(revoked(self.authority, self.folder, names))

    def uri(self, port: int, own: str = "") -> str:
        also = f"&certificateFile={self.folder}/{own}" if own else ""
        return f"stomp+ssl://localhost:{port}?caFile={self.folder}/ca.pem{also}"

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / "ca.pem")

    def reload(self, text: str) -> None:
        """Have a SIGHUP obeyed, and wait for the word of it."""
        before = self.log().count(text)
        self.node.signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_SECONDS
        while self.log().count(text) == before and time.monotonic() < until:
            time.sleep(0.01)
        assert self.log().count(text) > before

    def wait_for(self, text: str) -> None:
        """Wait until the node's log has it: it is written by a thread."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self.log() and time.monotonic() < until:
            time.sleep(0.01)
        assert text in self.log()

    def log(self) -> str:
        return self.node.log_path.read_text()


def revoked(authority: Authority, folder: Path, names: list[str]) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now - timedelta(minutes=5))
        .next_update(now + timedelta(days=7))
    )
    for name in names:
        shown = x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes())
        entry = x509.RevokedCertificateBuilder().serial_number(shown.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(now).build())
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def secured(tmp_path: Path, start_cluster) -> Callable[[str], Secured]:
    return lambda topology: Secured(tmp_path, start_cluster, topology)


class Heard(stomp.ConnectionListener):
    """What stomp.py was sent."""

    def __init__(self) -> None:
        self.frames: queue.Queue[object] = queue.Queue()

    def on_message(self, frame: object) -> None:
        self.frames.put(frame)


def shown_serial(secured: Secured, port: int) -> int:
    """The number of the certificate that a port shows now."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as opened,
        secured.context().wrap_socket(opened, server_hostname="localhost") as secure,
    ):
        shown = secure.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)


def test_clients_of_others_speak_tls_with_it(secured) -> None:
    """
    stomp.py sends and reads, openssl trusts what it is shown, and ours says what is wrong.
    """
    it: Secured = secured("single")
    heard = Heard()
    there = [("localhost", it.outside)]
    client = stomp.Connection12(there)
    client.set_ssl(for_hosts=there, ca_certs=str(it.folder / "ca.pem"))
    client.set_listener("heard", heard)
    client.connect(wait=True)
    client.subscribe("/queue/q", id="1", ack="auto")
    body = "x" * 100_000
    client.send("/queue/q", body)
    assert heard.frames.get(timeout=PATIENCE_SECONDS).body == body  # type: ignore[attr-defined]
    client.disconnect()
    run = subprocess.run(
        [
            *("openssl", "s_client", "-connect", f"127.0.0.1:{it.outside}"),
            *("-verify_return_error", "-verify_hostname", "localhost"),
            *("-CAfile", it.folder / "ca.pem"),
        ],
        input="CONNECT\naccept-version:1.2\nhost:h\n\n\0",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert "Verification: OK" in run.stdout
    assert "TLSv1.3" in run.stdout

    with blocking.connect(it.uri(it.inside, "joe.pem")) as ours:
        ours.send("/queue/q", b"by joe")
    with pytest.raises(CertificateError, match="wants a certificate of ours"):
        blocking.connect(it.uri(it.inside))
    with pytest.raises(CertificateError, match="not trusted"):
        blocking.connect(f"stomp+ssl://localhost:{it.outside}")
    with pytest.raises(RemoteProtocolError, match=r"speaks TLS; connect by stomp\+ssl"):
        blocking.connect(f"stomp://localhost:{it.outside}")
    with pytest.raises(RemoteProtocolError, match="does not speak TLS; write stomp://"):
        blocking.connect(it.uri(it.node.stomp_port))
    it.wait_for("it showed no certificate, and one is required")
    it.wait_for("this looks like TLS, and this port speaks STOMP in clear")


def test_certificates_are_renewed_under_traffic(secured) -> None:
    """
    S8. A new certificate is shown to who comes then, a broken one to nobody, a revoked client is
    let in no more; and who was connected all the while has lost nothing.
    """
    it: Secured = secured("single")
    with blocking.connect(it.uri(it.inside, "joe.pem")) as lasting:
        lasting.send("/queue/q", b"0")
        first = shown_serial(it, it.outside)
        it.renew_node()
        assert shown_serial(it, it.outside) == first, "nobody asked for it yet"
        it.reload("certificates were read anew")
        second = shown_serial(it, it.outside)
        assert second != first
        lasting.send("/queue/q", b"1")
        (it.folder / "node.pem").write_text("half a fi")
        it.reload("not read anew: what was shown before is shown on")
        assert shown_serial(it, it.outside) == second
        it.renew_node()
        it.revoke(["joe"])
        it.reload("certificates were read anew")
        with pytest.raises((CertificateError, LinkLostError), match=r"(?i)revoked"):
            blocking.connect(it.uri(it.inside, "joe.pem"))
        lasting.send("/queue/q", b"2")
    assert it.node.is_running
    with blocking.connect(it.uri(it.outside)) as reader, reader.subscribe("/queue/q") as found:
        assert [found.receive(PATIENCE_SECONDS).body for _ in range(3)] == [
            b"0",
            b"1",
            b"2",
        ]


async def crowd(it: Secured, count: int) -> list[float]:
    """So many clients at once, each with a whole handshake; how long each took."""
    context = it.context()

    async def one() -> float:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            it.outside,
            ssl=context,
            server_hostname="localhost",
            ssl_handshake_timeout=120,
        )
        writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
        writer.close()
        return time.monotonic() - began

    return await asyncio.gather(*(one() for _ in range(count)))


def test_a_crowd_at_the_door_costs_no_election(secured) -> None:
    """
    S4. Hundreds come at once by TLS from one address, many times those for which there is a place,
    after others that begin a handshake and leave it lying, or say nothing at all: none is closed,
    the leader leads on, and who was there is answered meanwhile.
    """
    it: Secured = secured("three")
    term = it.node.status()["term"]  # type: ignore[index]
    greeting = greeting_of(it)
    there = ("127.0.0.1", it.outside)
    strangers = [
        socket.create_connection(there, source_address=("127.0.0.2", 0)) for _ in range(200)
    ]
    with contextlib.ExitStack() as stack, StompSocket(it.node.stomp_port) as there:
        for number, stranger in enumerate(strangers):
            stack.enter_context(stranger)
            if number % 2:
                stranger.sendall(greeting)
        there.connect()
        stop = False
        longest = 0.0

        async def answered() -> None:
            nonlocal longest
            while not stop:
                began = time.monotonic()
                await asyncio.to_thread(there.publish, "/queue/q", b"x")
                longest = max(longest, time.monotonic() - began)

        async def scenario() -> list[float]:
            nonlocal stop
            asking = asyncio.create_task(answered())
            try:
                return await crowd(it, 400)
            finally:
                stop = True
                await asking

        assert len(asyncio.run(scenario())) == 400
    assert it.node.status()["term"] == term  # type: ignore[index]
    assert longest < 5, "half of the shortest silence before an election"


def greeting_of(it: Secured) -> bytes:
    """The first words of a client of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = it.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
