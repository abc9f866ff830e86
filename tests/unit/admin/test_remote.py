"""
Asking another node, over a connection that is a fake.
"""

from __future__ import annotations

import io
import json
from http.client import HTTPException

import pytest

from holdfast.admin import remote
from holdfast.admin.remote import Answer, RemoteNode, admin_token, queue_path
from holdfast.errors import (
    DestinationError,
    HoldfastError,
    LinkLostError,
    MembershipError,
    NotLeaderError,
)

SECRET = b"0123456789abcdef"


class PaperResponse(io.BytesIO):
    status = 200


class PaperConnection:
    """An HTTP connection that notes what is asked and answers from the class's fields."""

    asked: list[tuple[object, ...]]
    status = 200
    content: bytes = b"{}"
    failure: Exception | None = None

    def __init__(self, address: str, *, timeout: float) -> None:
        self.address = address

    def request(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> None:
        if self.failure is not None:
            raise self.failure
        self.asked.append((self.address, method, path, data, headers))

    def getresponse(self) -> PaperResponse:
        response = PaperResponse(self.content)
        response.status = self.status
        return response

    def close(self) -> None:
        pass


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> type[PaperConnection]:
    class Connection(PaperConnection):
        pass

    Connection.asked = []
    monkeypatch.setattr(remote, "HTTPConnection", Connection)
    return Connection


def test_a_question_is_a_plain_get(connection) -> None:
    """
    Without a secret no authorization is sent.
    """
    connection.content = b'{"name": "a"}'
    assert RemoteNode("h:1").get("/status") == {"name": "a"}
    assert connection.asked == [("h:1", "GET", "/status", None, {"Accept": "application/json"})]


def test_a_change_carries_a_token_and_not_the_secret(connection) -> None:
    """
    The secret stays where it is; a passed-on change says who passed it on.
    """
    RemoteNode("h:1", secret=SECRET, forwarded_by="b").change("POST", "/cluster/transfer")
    _, _, _, data, headers = connection.asked[0]
    assert json.loads(data) == {}
    assert headers["Authorization"] == f"Bearer {admin_token(SECRET)}"
    assert headers["holdfast-forwarded-by"] == "b"
    assert SECRET.decode() not in str(connection.asked)


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        ({"code": "membership", "message": "m"}, MembershipError, "m"),
        ({"code": "destination", "message": "d"}, DestinationError, "d"),
        ({"code": "not-leader", "leader": "b"}, NotLeaderError, "the leader is b"),
        ({"code": "from the future", "message": "f"}, HoldfastError, "f"),
        (None, HoldfastError, "HTTP status 409"),
    ],
)
def test_an_error_there_is_the_same_error_here(connection, fault, kind, sentence: str) -> None:
    """
    A caller need not know on which node a change was refused.
    """
    connection.status, connection.content = 409, json.dumps({"error": fault}).encode()
    with pytest.raises(kind, match=sentence):
        RemoteNode("h:1").change("POST", "/cluster/transfer", {})


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError(111, "Connection refused"), TimeoutError(), HTTPException()]
)
def test_no_answer_is_a_lost_link_with_the_address(connection, failure: Exception) -> None:
    """
    The sentence says which port and why, even where the system gives no reason.
    """
    connection.failure = failure
    with pytest.raises(LinkLostError, match=r"no answer from the admin port h:1: ."):
        RemoteNode("h:1").get("/status")


@pytest.mark.parametrize("content", [b"<html>", b"[]", b""])
def test_what_is_no_json_object_is_no_answer(connection, content: bytes) -> None:
    """
    Something else listens on that port.
    """
    connection.content = content
    with pytest.raises(LinkLostError, match="h:1 did not answer in JSON"):
        RemoteNode("h:1").send("GET", "/status")


def test_a_queues_name_is_quoted_whole() -> None:
    """
    A slash or a space in a name does not change the path.
    """
    assert queue_path("orders/new one") == "/queues/orders%2Fnew%20one"


def test_an_answer_keeps_its_status() -> None:
    """
    `send` judges nothing; it is for passing answers on.
    """
    assert Answer(503, {}).status == 503
