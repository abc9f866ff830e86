"""
Any login on the admin port of a real node: an answer or a close, never an exception, never let in.

The seed of each run is in its name; a failure is replayed by running that test again.
"""

from __future__ import annotations

import random
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holdfast.admin.by_password import ByPassword
from holdfast.admin.remote import RemoteNode
from holdfast.admin.scram_http import Said, read_challenge, write_authorization
from holdfast.testing.local_cluster import LocalNode
from tests.fuzz.logins import PASSWORD, make_ada
from tests.fuzz.spoilt_bytes import spoilt

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SEEDS = range(3)
REQUESTS = 150
FIRST = b"n,,n=ada,r=fyko+d2lbbFgONRv9qkxdawL"
FINAL = b"c=biws,r=%s,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
HEADERS = (
    b"Basic " + b64encode(b"ada:guess"),
    b"Bearer hf_YWRh." + b"A" * 43,
    b"Bearer eyJhbGciOiJub25lIn0.e30.",
    b"Holdfast-Forward v=1,to=%s,at=1,nonce=%s,body=%s,proof=%s" % ((b"0" * 32,) * 4),
    write_authorization(Said("", FIRST)).encode(),
)
ALLOWED = {400, 401, 403, 413, 421, 429, 431}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """
    One node with one user for all of these, who can log in by SCRAM.
    """
    node = LocalNode("a", tmp_path_factory.mktemp("fuzz"), ["--segment", "1MiB", "--scram"])
    node.start()
    try:
        make_ada(node)
        yield node
    finally:
        node.kill()


def asked(node: LocalNode, header: bytes, source: str) -> tuple[int, dict[str, str]]:
    """Give status and headers of an answer; 0: the connection was closed."""
    place = (node.host, node.admin_port)
    request = b"GET /users HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    heard = b""
    with socket.create_connection(place, timeout=20, source_address=(source, 0)) as client:
        with suppress(ConnectionError):
            client.sendall(request + b"Authorization: " + header + b"\r\n\r\n")
            while data := client.recv(65_536):
                heard += data
    if not heard:
        return 0, {}
    head, *lines = heard.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return int(head.split()[1]), dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_login_that_is_none_lets_anybody_in_or_harms_the_node(
    node: LocalNode, seed: int
) -> None:
    """
    Headers of each kind with bytes changed, and exchanges of SCRAM whose messages have; each from
    some address of a network, as guesses shut their own out. Afterwards the user logs in.
    """
    draw = random.Random(f"admin logins {seed}")
    statuses = set()
    for _ in range(REQUESTS):
        source = f"127.0.{seed}.{draw.randrange(2, 250)}"
        if draw.random() < 0.6:
            statuses.add(asked(node, spoilt(draw, draw.choice(HEADERS)), source)[0])
            continue
        first = FIRST if draw.random() < 0.5 else spoilt(draw, FIRST)
        status, headers = asked(node, write_authorization(Said("", first)).encode(), source)
        challenge = read_challenge([headers.get("www-authenticate", "")])
        if challenge is not None:
            nonce = challenge.message.partition(b",")[0].removeprefix(b"r=")
            final = spoilt(draw, FINAL % nonce)
            said = write_authorization(Said(challenge.sid, final)).encode()
            status, _ = asked(node, said if draw.random() < 0.7 else spoilt(draw, said), source)
        statuses.add(status)
    assert 401 in statuses
    assert statuses - {0} <= ALLOWED
    text = node.log_path.read_text(errors="replace")
    assert "Traceback" not in text, text[-6000:]
    ada = RemoteNode(node.admin, login=ByPassword("ada", PASSWORD))
    assert [it["name"] for it in ada.get("/users")["users"]] == ["ada"]
