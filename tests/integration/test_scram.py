"""
Logins by SCRAM on a running node: by our own commands, and by a client that others wrote.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest
import requests
from requests_scram import HTTPSCRAMAuth
from scramp import ScramException

from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PASSWORD = "correct-horse-battery"
OTHER = "staple-and-more-of-it"
ON_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def command(node: LocalNode, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "holdfast", *arguments, "--admin", node.admin]
    return subprocess.run(
        line, capture_output=True, text=True, timeout=60, check=False, input=stdin
    )


def typed(admin: str, password: str, *arguments: str, word: str = "") -> tuple[int, str]:
    """
    Run a command as somebody who types his password, and a word where he is asked whether to send
    it; gives its code and all it has shown.
    """
    line = [sys.executable, "-m", "holdfast", *arguments, "--admin", admin]
    running = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, *line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    shown = b""
    try:
        # The space comes once the terminal shows nothing; what was typed before would be lost.
        answers = {rb"Password of \S+: ": password, rb"Send it\? \[y/N\]: ": word}
        for question in [it for it, answer in answers.items() if answer]:
            while re.search(question, shown) is None:
                piece = running.stdout.read1()
                assert piece, shown
                shown += piece
            running.stdin.write(f"{answers[question]}\n".encode())
            running.stdin.flush()
        shown += running.stdout.read()
        return running.wait(timeout=60), shown.decode()
    finally:
        running.kill()
        running.communicate()


@contextmanager
def overheard(node: LocalNode, port: int) -> Iterator[tuple[str, bytearray]]:
    """A way to the admin port, at a port, on which everything that is sent there is kept."""
    heard = bytearray()
    passing: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    passing.append(threading.Thread(target=pass_on, args=(server.accept()[0],)))
                    passing[-1].start()

        def pass_on(client: socket.socket) -> None:
            with client, socket.create_connection((node.host, node.admin_port)) as target:
                back = threading.Thread(target=copy, args=(target, client, bytearray()))
                back.start()
                copy(client, target, heard)
                back.join(30)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in (serving, *passing):
                each.join(30)


def copy(source: socket.socket, target: socket.socket, heard: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            heard += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def offered(node: LocalNode) -> str:
    """The ways to log in that the admin port offers."""
    connection = HTTPConnection(node.admin, timeout=20)
    try:
        connection.request("GET", "/queues")
        return connection.getresponse().headers["WWW-Authenticate"]
    finally:
        connection.close()


def messages_in(heard: bytes) -> list[bytes]:
    return re.findall(rb"Authorization: (\S+)", heard)


def assert_not_in(heard: bytes, name: str, password: str) -> None:
    said = bytes(heard)
    for secret in (password.encode(), b64encode(f"{name}:{password}".encode())):
        assert secret not in said


def by_scram_of_others(node: LocalNode, name: str, password: str) -> requests.Response:
    # Else it takes the strongest that it knows, whatever is offered.
    auth = HTTPSCRAMAuth(name, password, mechanisms=["SCRAM-SHA-256"])
    with requests.Session() as session:
        return session.get(f"http://{node.admin}/users", auth=auth, timeout=20)


def test_a_password_is_shown_without_being_sent(start_cluster) -> None:
    """
    Users who were there before have no keys, and keep SCRAM from being offered until each has set
    his password anew (S19); then our commands send it no more, the node proves itself to them, and
    so does a client that nobody here wrote. Who has the old password, or a wrong one, is refused.
    """
    cluster = start_cluster("single")
    node = cluster.leader()
    node.wait_until(lambda it: it["format_level"] >= ACCESS_LEVEL, "at the level of users")
    add = ("users", "add", "--password-stdin", "--role", "admin")
    assert command(node, *add, "ada", stdin=PASSWORD).returncode == 0
    assert node.stop() == 0
    node.arguments = [*node.arguments, "--scram"]
    node.start()
    node.wait_until(lambda it: it["serving"], "serving")
    assert command(node, *add, "ben", stdin=PASSWORD).returncode == 0
    listed = command(node, "users", "list")
    assert re.search(r"ada .*yes, not by SCRAM", listed.stdout)
    assert "SCRAM is not offered before 1 passwords were set anew" in listed.stderr
    assert "SCRAM" not in offered(node)
    (way,) = free_ports(1)
    with overheard(node, way) as (admin, heard):
        code, shown = typed(admin, PASSWORD, "users", "list", "--user", "ada", word="n")
        assert (code, "the password was not sent" in shown) == (1, True), shown
        assert_not_in(heard, "ada", PASSWORD)
        code, shown = typed(admin, PASSWORD, "users", "list", "--user", "ada", word="y")
        assert code == 0, shown
        assert b64encode(f"ada:{PASSWORD}".encode()) in bytes(heard)

    again = ("users", "password", "ada", "--password-stdin")
    assert command(node, *again, stdin=OTHER).returncode == 0
    assert offered(node).startswith('SCRAM-SHA-256 realm="holdfast", Basic')
    assert "SCRAM" not in command(node, "users", "list").stdout
    with overheard(node, way) as (admin, heard):
        code, shown = typed(admin, OTHER, "users", "roles", "ben", "viewer", "--user", "ada")
        assert (code, f"it was sent to {admin}, which this node" in shown) == (1, True), shown
    assert node.stop() == 0
    node.arguments = [*node.arguments, "--admin-names", f"127.0.0.1:{way}"]
    node.start()
    node.wait_until(lambda it: it["serving"], "serving")
    with overheard(node, way) as (admin, heard):
        code, shown = typed(admin, OTHER, "users", "roles", "ben", "viewer", "--user", "ada")
        assert (code, "user ben has roles: viewer" in shown) == (0, True), shown
        for wrong in (PASSWORD, "x"):
            code, shown = typed(admin, wrong, "users", "list", "--user", "ada")
            assert (code, "login or passcode is wrong" in shown) == (1, True), shown
        assert set(messages_in(heard)) == {b"SCRAM-SHA-256"}
        assert_not_in(heard, "ada", OTHER)
        assert_not_in(heard, "ada", PASSWORD)

    assert by_scram_of_others(node, "ada", OTHER).status_code == 200
    for name in ("ada", "nobody"):
        with pytest.raises(ScramException, match="invalid-proof"):
            by_scram_of_others(node, name, PASSWORD)
    assert by_scram_of_others(node, "ben", PASSWORD).status_code == 403
    assert requests.get(f"http://{node.admin}/users", auth=("ada", OTHER), timeout=20).ok
    assert node.stop() == 0
    assert_nothing_is_left(node)


def assert_nothing_is_left(node: LocalNode) -> None:
    """Neither passwords nor what they could be tried on is shown of the log (S14)."""
    line = [sys.executable, "-m", "holdfast", "store", "dump", str(node.data), "--format", "jsonl"]
    found = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
    users: list[dict[str, Any]] = [
        it for it in map(json.loads, found.splitlines()) if it.get("kind", it.get("type")) == "user"
    ]
    assert any("scram" in it["credentials"] for it in users), found[:2000]
    assert "iterations" not in found
    for path in (it for it in node.data.rglob("*") if it.is_file()):
        data = path.read_bytes()
        assert PASSWORD.encode() not in data
        assert OTHER.encode() not in data
