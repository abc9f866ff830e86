"""
One connection to an admin port: by what it shows who asks.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from holdfast.admin import node_user
from holdfast.admin.answer_proofs import ANSWER_HEADER, Expected
from holdfast.admin.forwarding import ForwardCheck, Forwarded
from holdfast.admin.reached import Standing
from holdfast.admin.token_file import write_token
from holdfast.errors import AuthenticationError, ConfigError
from holdfast.spark.log import admin_link
from holdfast.spark.log.admin_link import AdminLink

TOKEN = "44" * 32


class GuardedConnection:
    """A connection to a node that wants the token in its file."""

    asked: ClassVar[list[str]] = []
    check: ClassVar[ForwardCheck] = ForwardCheck.of_machine(TOKEN)
    is_node: ClassVar[bool] = True
    refusal: ClassVar[bytes] = b""

    there: ClassVar[str] = "127.0.0.1"
    host, port = "a", 8161

    def __init__(self, address: str, *, timeout: float) -> None:
        self.sock = SimpleNamespace(
            getpeername=lambda: (self.there, 8161), getsockname=lambda: ("127.0.0.1", 50_000)
        )

    def request(self, method: str, path: str, _data: object, headers: dict[str, str]) -> None:
        header = headers.get("Authorization", "")
        self.asked.append(header)
        request = Forwarded(method, path, "", "", "")
        standing = Standing((self.there, self.port))
        self.taken = self.check.take(header.encode(), request, standing)

    def getresponse(self) -> Any:
        allowed = not self.taken.refusal
        content = io.BytesIO(b"{}" if allowed else self.refusal)
        proof = Expected(TOKEN.encode() if self.is_node else b"", self.taken.proof).proof(200)
        headers = {ANSWER_HEADER: proof}
        status = 200 if allowed else 403
        return SimpleNamespace(status=status, read=content.read, headers=headers)

    def close(self) -> None:
        pass


def test_on_the_nodes_machine_its_own_file_is_the_proof(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Read once for each link; without the file the refusal stays, which says what to do."""
    path = write_token(tmp_path, "127.0.0.1", 8161, TOKEN)
    monkeypatch.setattr(node_user, "listeners_users", lambda *_: frozenset({os.geteuid()}))
    monkeypatch.setattr(GuardedConnection, "asked", [])
    fault = {"code": "authentication", "message": "a proof is needed", "token_file": str(path)}
    monkeypatch.setattr(GuardedConnection, "refusal", json.dumps({"error": fault}).encode())
    monkeypatch.setattr(admin_link, "HTTPConnection", GuardedConnection)
    link = AdminLink("a", "")
    assert link.ask("GET", "/holds", None) == {}
    assert link.read_log(1, 2, 3) == b"{}"
    assert [it.partition(" ")[0] for it in GuardedConnection.asked] == [
        "",
        *["Holdfast-Forward"] * 2,
    ]
    assert TOKEN not in str(GuardedConnection.asked), "it is not sent"
    monkeypatch.setattr(GuardedConnection, "is_node", False)
    with pytest.raises(AuthenticationError, match="a has not proven to be the node"):
        link.read_log(1, 2, 3)
    monkeypatch.setattr(GuardedConnection, "is_node", True)
    GuardedConnection.asked.clear()
    with pytest.raises(AuthenticationError, match="a proof is needed"):
        AdminLink("a", "33" * 32).ask("GET", "/holds", None)
    assert GuardedConnection.asked == [f"Bearer {'33' * 32}"], "who says who he is, is nobody else"
    path.unlink()
    with pytest.raises(AuthenticationError, match="a proof is needed"):
        AdminLink("a", "").read_log(1, 2, 3)


@pytest.mark.parametrize("token", ["hf_YQ.x", "eyJh.b.c"])
def test_a_users_token_is_not_sent_in_clear_to_another_machine(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """Whoever reads it on the way is that user from then on; nothing is sent at all."""
    monkeypatch.setattr(GuardedConnection, "asked", [])
    monkeypatch.setattr(GuardedConnection, "there", "192.0.2.7")
    monkeypatch.setattr(admin_link, "HTTPConnection", GuardedConnection)
    with pytest.raises(ConfigError, match="another machine and is asked in clear"):
        AdminLink("a", token).ask("GET", "/status", None)
    assert GuardedConnection.asked == []
