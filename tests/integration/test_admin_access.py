"""
Who may ask a running node what: web pages, other users, the operator's own commands.
"""

from __future__ import annotations

import json
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from holdfast.admin.token_file import FILE_NAME
from holdfast.spark.log.client import RemoteLog
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def ask(node: LocalNode, path: str, **headers: str) -> tuple[int, bytes]:
    """What any program on this machine is answered."""
    connection = HTTPConnection(node.admin, timeout=10)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=names)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_a_web_page_cannot_read_the_log_and_the_operator_types_nothing(start_cluster) -> None:
    """
    A page under a name that was made to mean 127.0.0.1 (DNS rebinding) could read every message of
    the log. It gets nothing; a program without a proof gets no message; the operator's commands and
    a reader of the log on this machine work as before.
    """
    node = start_cluster("single").leader()
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.publish("/queue/private", b"a private word")

    rebound = f"evil.example:{node.admin_port}"
    for path in ("/log?from=1", "/status", "/metrics", "/health"):
        status, content = ask(node, path, Host=rebound, **node.proof())
        assert (status, b"private" in content) == (421, False)
    for path in ("/log?from=1", "/log/position", "/segments", "/holds", "/connections"):
        assert ask(node, path)[0] == 403
        assert ask(node, path, **node.proof())[0] == 200
    status, content = ask(node, "/log?from=1", Origin="http://localhost", **node.proof())
    assert (status, b"private" in content) == (403, False)
    assert b"a private word" in ask(node, "/log?from=1", **node.proof())[1]

    assert "private" in command("queues", "--admin", node.admin).stdout
    assert command("cluster", "status", "--admin", node.admin).returncode == 0
    log = RemoteLog((node.admin,))
    blocks = list(log.blocks(1, log.position().last_index))
    assert blocks
    purged = command("queues", "purge", "private", "--yes", "--admin", node.admin)
    assert "1 messages were removed" in purged.stdout

    token = (node.data / FILE_NAME).read_text().split()[-1]
    assert token not in node.log_path.read_text()


def test_another_user_is_told_what_to_do(start_cluster) -> None:
    """
    Who may not read the node's files hears which file it is, and what else does.
    """
    node = start_cluster("single").leader()
    (node.data / FILE_NAME).rename(node.data / "away")
    found = command("queues", "purge", "x", "--yes", "--admin", node.admin)
    assert found.returncode != 0
    said = " ".join(found.stderr.split())
    assert "run this as the user of the node" in said
    assert "--secret-file" in said
    status, content = ask(node, "/segments")
    assert (status, json.loads(content)["error"]["code"]) == (403, "authentication")
