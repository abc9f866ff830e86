"""
Handshakes and logins of no use at a port by TLS of a real node: refused or closed, nobody let in.

The seed of each run is in its name; a failure is replayed by running that test again.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.client import blocking
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalNode
from holdfast.transport.certificates import make_client, make_node, open_authority
from tests.fuzz.logins import PASSWORD, make_ada
from tests.fuzz.spoilt_bytes import spoilt

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SEEDS = range(3)
HANDSHAKES = 60
LOGINS = 60
FLIGHTS_MAX = 6
"""Of an exchange; one that is not spoilt has three."""
WRONG = (
    b"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\npasscode:correct-horse-batter\n\n\0",
    b"STOMP\naccept-version:1.0,1.2\nhost:h\nlogin:bob\npasscode:correct-horse-battery\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:h\npasscode:hf_ada_c29tZXRoaW5n\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:h\nlogin:\npasscode:\nclient-id:x\n\n\0",
)


@dataclass(frozen=True)
class Door:
    """A node with a user, its port by TLS, and what is shown there."""

    node: LocalNode
    port: int
    folder: Path

    def context(self, certificate: str = "") -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if certificate:
            made.load_cert_chain(self.folder / certificate)
        return made


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One node for all of these, which asks for certificates and does without."""
    folder = tmp_path_factory.mktemp("fuzz")
    authority, _ = open_authority(folder)
    make_node(authority, folder / "node.pem", "node", [], 30)
    make_client(authority, folder / "bob.pem", "bob", 30)
    (folder / "h.toml").write_text(
        f'[tls.all]\ncertificate = "{folder}/node.pem"\n'
        f'client_ca = "{folder}/ca.pem"\nclient = "wanted"\n'
    )
    (port,) = free_ports(1)
    flags = ["--config", str(folder / "h.toml"), "--listen", f"127.0.0.1:{port},tls=all"]
    node = LocalNode("a", folder, flags)
    node.start()
    try:
        make_ada(node)
        yield Door(node, port, folder)
    finally:
        node.kill()


def assert_unharmed(door: Door) -> None:
    """It runs, logged no exception, holds no dead connection, and lets in who may come."""
    text = door.node.log_path.read_text(errors="replace")
    assert "Traceback" not in text, text[-6000:]
    door.node.wait_until(lambda status: status["connections"] == 0, "rid of its connections", 10)
    uri = f"stomp+ssl://localhost:{door.port}?caFile={door.folder}/ca.pem"
    with blocking.connect(uri, login="ada", passcode=PASSWORD) as connection:
        connection.ping()


def shake(door: Door, draw: random.Random) -> str:
    """Begin a handshake, a flight of which may be spoilt; give what was said by TLS."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = door.context("bob.pem" if draw.random() < 0.5 else "")
    end = context.wrap_bio(back, there, server_hostname="localhost")
    spoilt_flight, has_spoken = draw.randrange(4), False
    with (
        socket.create_connection(("127.0.0.1", door.port), timeout=0.3) as client,
        suppress(OSError),
    ):
        for flight in range(FLIGHTS_MAX):
            with suppress(ssl.SSLWantReadError):
                if has_spoken:
                    return end.read().decode()
                end.do_handshake()
                has_spoken = True
                end.write(draw.choice(WRONG))
            data = there.read()
            client.sendall(spoilt(draw, data) if flight == spoilt_flight else data)
            if not (heard := client.recv(65_536)):
                break
            back.write(heard)
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_handshakes_of_no_use_do_no_harm(door: Door, seed: int) -> None:
    """
    A flight of most has bytes changed, left out or put in, with a certificate of nobody or none;
    some end well, and show a wrong login. Nobody is let in, and who may come comes.
    """
    draw = random.Random(f"handshakes {seed}")
    heard = [shake(door, draw).partition("\n")[0] for _ in range(HANDSHAKES)]
    assert {"", "ERROR"} == set(heard)

    assert_unharmed(door)


@pytest.mark.parametrize("seed", SEEDS)
def test_logins_that_are_none_let_nobody_in(door: Door, seed: int) -> None:
    """By TLS, with a wrong password, another's or none, and bytes of the frame changed."""
    draw = random.Random(f"logins {seed}")
    context = door.context()
    for _ in range(LOGINS):
        place = (f"127.0.{seed + 1}.{draw.randrange(2, 250)}", 0)
        with (
            socket.create_connection(
                ("127.0.0.1", door.port), timeout=0.3, source_address=place
            ) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
            suppress(OSError),
        ):
            client.sendall(spoilt(draw, draw.choice(WRONG)))
            assert not client.recv(65_536).startswith(b"CONNECTED")

    assert_unharmed(door)
