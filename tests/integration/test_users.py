"""
Users of running nodes: who is let in where, what is noted of it, and that no secret is left of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PASSWORD = "correct-horse-battery"
OTHER = "staple-and-more-of-it"


def command(node: LocalNode, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "holdfast", *arguments, "--admin", node.admin]
    return subprocess.run(
        line, capture_output=True, text=True, timeout=60, check=False, input=stdin
    )


def ask(
    node: LocalNode, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    """What any program on this machine is answered."""
    connection = HTTPConnection(node.admin, timeout=20)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def at_level(node: LocalNode) -> LocalNode:
    node.wait_until(lambda it: it["format_level"] >= ACCESS_LEVEL, "at the level of users")
    return node


def dumped(node: LocalNode) -> list[dict[str, Any]]:
    """The records of a stopped node's log."""
    line = [sys.executable, "-m", "holdfast", "store", "dump", str(node.data), "--format", "jsonl"]
    found = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(each) for each in found.stdout.splitlines()]


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def try_roles(node: LocalNode, vic: dict[str, str]) -> None:
    """Ask the port as nobody, as a viewer by token and by password, and with a wrong one."""
    assert ask(node, "GET", "/health")[0] == 200
    assert ask(node, "GET", "/queues")[0] == 401
    assert ask(node, "GET", "/queues", **vic)[0] == 200
    assert ask(node, "GET", "/queues", **basic("vic", OTHER))[0] == 200
    status, refused = ask(node, "DELETE", "/queues/a", {}, **vic)
    assert (status, refused["error"]["code"]) == (403, "forbidden")
    assert ask(node, "GET", "/log?from=1", **vic)[0] == 403
    assert ask(node, "GET", "/users", **basic("ada", OTHER))[0] == 401


def test_people_are_known_by_name_and_no_secret_is_left_anywhere(start_cluster, tmp_path) -> None:
    """
    The first user is made on the machine without any login. From then on each may what his role
    allows, clients have to log in, the node's own commands go on, and who did what stands in the
    file. Of passwords and tokens nothing stands in any file of the node, its log and its copies of
    what was said among them (S14).
    """
    audit = tmp_path / "audit.jsonl"
    cluster = start_cluster("single", "--audit-file", str(audit))
    node = at_level(cluster.leader())
    made = command(
        node, "users", "add", "ada", "--role", "admin", "--password-stdin", stdin=PASSWORD
    )
    assert (made.returncode, made.stdout) == (0, "user ada was made\n")
    assert "from now on whoever connects has to log in" in made.stderr
    added = {"name": "vic", "roles": ["viewer"], "password": OTHER}
    assert ask(node, "POST", "/users", added, **basic("ada", PASSWORD))[0] == 200
    token = command(node, "users", "token", "vic", "--expires", "1h").stdout.strip()
    vic = {"Authorization": f"Bearer {token}"}

    try_roles(node, vic)
    with StompSocket(node.stomp_port) as client:
        client.connect(login="vic", passcode=OTHER)
    with StompSocket(node.stomp_port) as client:
        client.send("CONNECT", {"accept-version": "1.2", "host": "/"})
        assert client.read().command == "ERROR"

    assert command(node, "status").returncode == 0
    granted = command(node, "grant", "sales", "read,write", "queue://A.>")
    assert granted.stdout == "role sales may read,write queue://A.>\n"
    token_file = tmp_path / "token"
    token_file.write_text(token)
    shown = command(node, "queues", "--token-file", str(token_file))
    assert shown.returncode == 0
    away = command(node, "users", "list", "--token-file", str(token_file))
    assert (away.returncode, "that takes role admin" in away.stderr) == (1, True)
    token_file.unlink()
    assert node.stop() == 0

    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    told = [(line["who"], line["action"], line["outcome"][:7]) for line in lines]
    for expected in [
        ("the node's machine", "add user", "done"),
        ("ada", "add user", "done"),
        ("the node's machine", "make token", "done"),
        ("vic", "DELETE /queues/a", "user 'v"),
        ("ada", "GET /users", "login o"),
        ("vic", "login", "done"),
        ("", "login", "a login"),
        ("the node's machine", "grant", "done"),
    ]:
        assert expected in told, told
    said = json.dumps([dumped(node), made.stdout, made.stderr, away.stderr])
    secrets = [PASSWORD, OTHER, token, token.partition(".")[2]]
    for path in [*files_below(cluster.directory), audit]:
        data = path.read_bytes()
        assert not any(secret.encode() in data for secret in secrets), path
    assert not any(secret in said for secret in secrets)
    assert "argon2id" not in said


def test_every_change_in_the_log_has_its_record_after_a_kill(start_cluster) -> None:
    """
    Grants are made one after the other, and the node is killed in the middle of them: each that is
    in the log has who made it right behind it, and each that was answered is there (S15).
    """
    node = at_level(start_cluster("single").leader())
    answered: list[str] = []
    begun = threading.Event()

    def grant() -> None:
        proof = node.proof()
        try:
            for number in range(100_000):
                wanted = {"role": f"r{number}", "rights": "read", "pattern": f"queue://q{number}"}
                if ask(node, "POST", "/grants", wanted, **proof)[0] != 200:
                    return
                answered.append(f"r{number} read queue://q{number}")
                if number == 20:
                    begun.set()
        except (OSError, HTTPException):
            return

    granting = threading.Thread(target=grant)
    granting.start()
    assert begun.wait(30)
    node.kill()
    granting.join(30)
    node.start()
    node.wait_until(lambda it: it["serving"], "serving again")
    node.kill()
    records = dumped(node)
    changes = [at for at, it in enumerate(records) if it["type"] in ("user", "grant")]
    assert len(changes) >= len(answered) > 20
    told = []
    for at in changes:
        change, audit = records[at], records[at + 1]
        assert (audit["type"], audit["who"]) == ("audit", "the node's machine")
        assert (audit["index"], audit["source"]) == (change["index"], "admin 127.0.0.1")
        assert audit["object"].split()[0] == change["role"]
        told.append(audit["object"])
    assert told[: len(answered)] == answered


def test_a_member_passes_on_who_asks_and_never_the_password(start_cluster) -> None:
    """
    The leader notes the person, judges by the roles that it knows, and can let in by a password
    that another member has hashed.
    """
    cluster = start_cluster("three")
    leader = at_level(cluster.leader())
    follower = next(it for it in cluster.nodes.values() if it is not leader)
    at_level(follower)
    first = {"name": "ada", "roles": ["admin"], "password": PASSWORD}
    assert ask(follower, "POST", "/users", first, **follower.proof())[0] == 200
    cluster.wait_level()
    ada = basic("ada", PASSWORD)
    assert ask(leader, "GET", "/users", **ada)[0] == 200
    second = {"name": "ben", "roles": ["sales"], "password": OTHER}
    assert ask(follower, "POST", "/users", second, **ada)[0] == 200
    assert ask(leader, "GET", "/status", **basic("ben", OTHER))[0] == 403
    leader.kill()
    records = [it for it in dumped(leader) if it["type"] == "audit"]
    assert [(it["who"], it["object"]) for it in records] == [
        ("the node's machine", "ada admin"),
        ("ada", "ben sales"),
    ]
    assert cluster.leader(but=leader)
    assert ask(follower, "GET", "/users", **ada)[0] == 200
    rescue_alone(cluster, follower, ada)


def rescue_alone(cluster, node, ada) -> None:
    """
    One of three that was started anew, and the others are gone for good: it cannot know its users
    for sure, and tells strangers nothing; the admin whom its log has promotes it.
    """
    for each in cluster.nodes.values():
        each.kill()
    node.start()
    alone = node.wait_until(lambda status: status["role"] == "candidate", "a candidate")
    assert alone["leader"] is None
    for path in ("/status", "/queues", "/metrics"):
        code, told = ask(node, "GET", path)
        assert (code, "does not know yet" in told["error"]["message"]) == (401, True)
    code, told = ask(node, "GET", "/segments", **ada)
    assert code == 503, "it may be that she is nobody any more"
    assert "it has heard of no leader since it was started" in told["error"]["message"]
    code, told = ask(node, "GET", "/users", **ada)
    assert (code, told["is_known"]) == (200, False)
    assert [each["name"] for each in told["users"]] == ["ada", "ben"]
    assert ask(node, "GET", "/status", **basic("ben", OTHER))[0] == 403
    assert ask(node, "GET", "/status", **basic("ada", OTHER))[0] == 401
    wanted = {"name": node.name, "force": True, "peers_are_dead": True}
    assert ask(node, "POST", "/cluster/promote", wanted, **ada)[0] == 200
    assert ask(node, "GET", "/users", **ada)[1]["is_known"] is True
    assert ask(node, "GET", "/segments", **ada)[0] == 200
    assert ask(node, "GET", "/status")[0] == 401
