"""
Asking another node, over a connection that is a fake.
"""

from __future__ import annotations

import io
import json
import os
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from holdfast.admin import endpoint, node_user, remote
from holdfast.admin.answer_proofs import ANSWER_HEADER, Expected
from holdfast.admin.by_password import ByPassword
from holdfast.admin.forwarding import ForwardCheck, Forwarded, digest_of, proof_in
from holdfast.admin.person import Person, on_behalf
from holdfast.admin.process_mark import mark_of
from holdfast.admin.reached import Standing
from holdfast.admin.remote import Answer, RemoteNode, admin_token, queue_path
from holdfast.admin.token_file import FILE_NAME, write_token
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    DestinationError,
    HoldfastError,
    LinkLostError,
    MembershipError,
    NotLeaderError,
)
from holdfast.security.roles import Duty

LIFE = "0a" * 16
SECRET = b"0123456789abcdef"
TOKEN = "22" * 32


class PaperResponse(io.BytesIO):
    status = 200

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.headers: dict[str, str] = {}

    def prove(self, asked: dict[str, str]) -> PaperResponse:
        """Show who answers, as the node does that knows the secret and wrote the file."""
        header = asked.get("Authorization", "")
        if proof := proof_in(header):
            key = TOKEN.encode() if f"to={mark_of(TOKEN)}," in header else SECRET
            self.headers[ANSWER_HEADER] = Expected(key, proof).proof(self.status)
        return self


class PaperSocket:
    """Both ends of a connection."""

    def __init__(self, there: tuple[str, int], here: tuple[str, int]) -> None:
        self.there, self.here = there, here

    def getpeername(self) -> tuple[str, int]:
        return self.there

    def getsockname(self) -> tuple[str, int]:
        return self.here


class PaperConnection:
    """An HTTP connection that notes what is asked and answers from the class's fields."""

    asked: list[tuple[object, ...]]
    status = 200
    content: bytes = b"{}"
    failure: Exception | None = None
    is_node = True
    """Whether it can prove it."""
    sock: PaperSocket | None = None

    def __init__(self, address: str, *, timeout: float) -> None:
        self.address = address

    def connect(self) -> None:
        self.sock = PaperSocket(("127.0.0.1", 8161), ("127.0.0.2", 50_000))

    def request(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.asked.append((self.address, method, path, data, headers or {}))

    def getresponse(self) -> PaperResponse:
        response = PaperResponse(self.content)
        response.status = self.status
        return response.prove(self.asked[-1][4]) if self.is_node else response

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


def test_who_knows_the_secret_proves_it_for_each_request_anew(connection) -> None:
    """
    The secret stays where it is, and what is sent opens nothing else, nor this a second time.
    """
    connection.content = json.dumps({"alive": True, "process": LIFE}).encode()
    node = RemoteNode("h:1", secret=SECRET, is_private=False)
    for wanted, ask in (("POST", node.change), ("GET", lambda *it: node.get(it[1]))):
        connection.asked.clear()
        ask(wanted, "/a?b=c")
        (met, (_, method, path, data, headers)) = connection.asked
        assert met == ("h:1", "GET", "/health", None, {"Accept": "application/json"})
        passed_on = Forwarded(method, path, "", "", LIFE)
        assert "holdfast-forwarded-by" not in headers
        check = ForwardCheck(SECRET, LIFE)
        proof = headers["Authorization"].encode()
        assert "for its own" in check.take(proof, passed_on, Standing(("::1", 8161))).refusal
        taken = check.take(proof, passed_on, Standing(("127.0.0.1", 8161)))
        assert (taken.refusal, taken.body) == ("", digest_of(data or b""))
        again = check.take(proof, passed_on, Standing(("127.0.0.1", 8161)))
        assert "came before" in again.refusal
        assert admin_token(SECRET) not in str(connection.asked)
        assert SECRET.decode() not in str(connection.asked)


@pytest.mark.parametrize("life", [None, "", "0a", 7, "0a" * 15 + "\r\n"])
def test_who_tells_no_mark_gets_nothing_made_of_the_secret_by_his_own_word(
    connection, life: object
) -> None:
    """
    Any user of the machine can listen where a node did that is stopped, and leave the mark out as
    one of an earlier version does: he was sent what opens every node until the secret is replaced.
    """
    connection.content = json.dumps({"process": life}).encode()
    connection.sock = PaperSocket(("127.0.0.1", 8161), ("127.0.0.1", 50_000))
    node = RemoteNode("127.0.0.1:8161", secret=SECRET)
    for ask in (lambda: node.get("/users"), lambda: node.change("POST", "/reload")):
        connection.asked.clear()
        with pytest.raises(AuthenticationError, match=r"8161 tells no mark .* --earlier-version"):
            ask()
        assert [it[2] for it in connection.asked] == ["/health"]
        assert "Authorization" not in str(connection.asked)


@pytest.mark.parametrize("life", [None, "", "0a", 7, "0a" * 15 + "\r\n"])
def test_a_node_that_is_said_to_be_earlier_gets_the_token_where_nobody_reads_it(
    connection, life: object
) -> None:
    """
    On this machine or by TLS; on the way to another machine nothing, whatever is said.
    """
    connection.content = json.dumps({"process": life}).encode()
    connection.host, connection.port = "h", 1
    connection.sock = PaperSocket(("127.0.0.1", 8161), ("127.0.0.1", 50_000))
    node = RemoteNode("h:1", secret=SECRET, takes_earlier=True)
    node.change("POST", "/cluster/transfer")
    headers = connection.asked[-1][4]
    assert headers["Authorization"] == f"Bearer {admin_token(SECRET)}"
    connection.asked.clear()
    connection.sock = PaperSocket(("10.0.0.1", 8161), ("10.0.0.2", 50_000))
    with pytest.raises(ConfigError, match="is another machine and is asked in clear"):
        node.change("POST", "/cluster/transfer")
    assert [it[2] for it in connection.asked] == ["/health"]
    assert admin_token(SECRET) not in str(connection.asked)


def test_a_change_that_is_passed_on_carries_a_proof_of_its_own(connection) -> None:
    """
    It says who passed it on, and for whom; the token that is good for everything stays at home.
    """
    said = on_behalf(Person("olga", "192.0.2.1", Duty.NONE))
    node = RemoteNode("h:1", secret=SECRET, forwarded_by="b", life=LIFE, on_behalf=said)
    node.change("POST", "/a?b=c")
    _, method, path, data, headers = connection.asked[0]
    assert headers["holdfast-forwarded-by"] == "b"
    passed_on = Forwarded(method, path, "b", said, LIFE)
    taken = ForwardCheck(SECRET, LIFE).take(headers["Authorization"].encode(), passed_on)
    assert (taken.refusal, taken.body) == ("", digest_of(data))
    assert admin_token(SECRET) not in str(connection.asked)


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


def test_who_is_closed_on_asks_again_and_makes_no_change_twice(
    connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A port that is full closes on who comes. A question is asked again; a change may have been
    made, but not by a port that takes nothing in clear, which it says.
    """
    closed: list[str] = []

    def request(self, method: str, path: str, data: object, headers: dict[str, str]) -> None:
        if closed and closed[0] == method:
            closed.pop(0)
            raise ConnectionResetError(104, "Connection reset by peer")
        PaperConnection.request(self, method, path, data, headers)  # type: ignore[arg-type]

    monkeypatch.setattr(connection, "request", request)
    closed[:] = ["GET"] * 2
    assert RemoteNode("h:1").get("/status") == {}
    assert [it[2] for it in connection.asked] == ["/status"]
    closed[:] = ["POST"]
    with pytest.raises(LinkLostError, match="admin port h:1: Connection reset by peer"):
        RemoteNode("h:1").change("POST", "/cluster/transfer")
    assert [it[2] for it in connection.asked] == ["/status", "/health"]
    connection.content = json.dumps({"error": {"code": "tls-required"}}).encode()
    closed[:] = ["POST"]
    with pytest.raises(LinkLostError, match="h:1 speaks TLS: ask it as https://h:1"):
        RemoteNode("h:1").change("POST", "/cluster/transfer")


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


@pytest.fixture
def guarded(connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[PaperConnection]:
    """A node that wants the token in its file, and runs as who asks."""
    monkeypatch.setattr(node_user, "listeners_users", lambda *_: frozenset({os.geteuid()}))
    path = write_token(tmp_path, "127.0.0.1", 8161, TOKEN)
    fault = {"code": "authentication", "message": "a proof is needed", "token_file": str(path)}

    class Guarded(connection):
        refusal = json.dumps({"error": fault}).encode()
        sock = PaperSocket(("127.0.0.1", 8161), ("127.0.0.1", 50_000))
        host, port = "h", 1
        check = ForwardCheck.of_machine(TOKEN)
        standing = Standing(("127.0.0.1", 8161))

        def getresponse(self) -> PaperResponse:
            if self.asked[-1][2] == "/health":
                return PaperResponse(json.dumps({"process": LIFE}).encode())
            _, method, path, data, headers = self.asked[-1]
            header = headers.get("Authorization", "").encode()
            taken = self.check.take(header, Forwarded(method, path, "", "", ""), self.standing)
            allowed = not taken.refusal and taken.body == digest_of(data or b"")
            response = PaperResponse(b"{}" if allowed else self.refusal)
            response.status = 200 if allowed else 403
            return response.prove(self.asked[-1][4]) if self.is_node else response

    return Guarded


def test_on_the_nodes_machine_its_own_file_is_the_proof(
    guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The refusal names the file; who may read it asks again, and nobody typed anything.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    assert RemoteNode("h:1").change("POST", "/cluster/transfer") == {}
    assert [it[1:3] for it in guarded.asked] == [("POST", "/cluster/transfer")] * 2
    assert RemoteNode("h:1").get("/segments?from=1") == {}
    assert TOKEN not in str(guarded.asked), "it is not sent: who sees it could prove the same"


def test_who_refuses_the_secret_is_not_believed_what_proves_him_instead(
    guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens where a node is stopped would choose by what he is known."""
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    with pytest.raises(AuthenticationError, match="a proof is needed"):
        RemoteNode("h:1", secret=SECRET).change("POST", "/cluster/transfer")
    assert [it[2] for it in guarded.asked] == ["/health", "/cluster/transfer"]
    assert TOKEN not in str(guarded.asked)


def test_who_names_a_file_that_he_cannot_read_proves_nothing(
    guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was killed leaves its file: with what a command sends nobody answers for it."""
    monkeypatch.setattr(remote, "HTTPConnection", guarded)

    def answered(self: PaperConnection) -> PaperResponse:
        header = self.asked[-1][4].get("Authorization", "")
        response = PaperResponse(b"{}" if header else guarded.refusal)
        response.status = 200 if header else 403
        shown = header.removeprefix("Bearer ")
        response.headers[ANSWER_HEADER] = Expected(shown.encode(), proof_in(header)).proof(200)
        return response

    monkeypatch.setattr(guarded, "getresponse", answered)
    for is_private in (True, False):
        with pytest.raises(AuthenticationError, match="has not proven to be the node"):
            node = RemoteNode("h:1", is_private=is_private)
            node.change("POST", "/users/password", {"password": "new horse 22"})
        if is_private:
            assert "new horse" not in str(guarded.asked)
    assert TOKEN not in str(guarded.asked)


@pytest.mark.parametrize("is_by_tls", [False, True])
def test_a_file_that_anybody_can_make_proves_nothing(
    guarded, monkeypatch: pytest.MonkeyPatch, is_by_tls: bool
) -> None:
    """
    Nor does a port by TLS that it vouches for: whoever had made it and listens there was sent the
    password that is set, and by Basic the operator's own.
    """
    if is_by_tls:
        told = json.loads(guarded.refusal)["error"]
        write_token(Path(told["token_file"]).parent, "127.0.0.1", 8161, TOKEN, "5" * 64)
        guarded.refusal = json.dumps({"error": {**told, "code": "tls-required"}}).encode()
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    monkeypatch.setattr(node_user, "listeners_users", lambda *_: frozenset({54_321}))
    told_all: list[str] = []
    asking = ByPassword("ops", "right horse 1", may_tell=lambda it: bool(told_all.append(it)))
    for node in (RemoteNode("h:1"), RemoteNode("h:1", login=asking)):
        if node.login and not is_by_tls:
            continue  # Nothing is asked again of who says who he is.
        with pytest.raises(AuthenticationError, match=r"user 54321, not "):
            node.change("POST", "/users/password", {"password": "new horse 22"})
    assert TOKEN not in str(guarded.asked)
    assert not told_all


@pytest.mark.parametrize(
    "ends",
    [
        (("10.0.0.1", 8161), ("10.0.0.2", 50_000)),
        (("127.0.0.1", 9000), ("127.0.0.1", 50_000)),
        (("127.0.0.2", 8161), ("127.0.0.1", 50_000)),
    ],
)
def test_the_token_goes_nowhere_else(guarded, monkeypatch: pytest.MonkeyPatch, ends) -> None:
    """
    Not to another machine, and not to a program that listens elsewhere on this one.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    guarded.sock = PaperSocket(*ends)
    with pytest.raises(AuthenticationError, match="a proof is needed"):
        RemoteNode("h:1").change("POST", "/cluster/transfer")
    assert TOKEN not in str(guarded.asked)


def test_a_file_that_cannot_be_read_leaves_the_refusal(
    guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Another user hears what to do.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(AuthenticationError, match="a proof is needed"):
        RemoteNode("h:1").get("/segments")


def test_whoever_says_who_he_is_is_nobody_else(guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A login that is refused is not followed by the proof of the machine, which may do everything.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    node = RemoteNode("h:1", secret=SECRET, login="Basic YW5uOng=")
    with pytest.raises(AuthenticationError):
        node.change("POST", "/cluster/transfer")
    assert [asked[4]["Authorization"] for asked in guarded.asked] == ["Basic YW5uOng="]
    assert "YW5u" not in repr(node)


def test_a_password_is_sent_once_the_node_is_known_and_to_no_other_machine(
    guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A question without a secret finds the node's file; whoever listens elsewhere gets no password.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    node = RemoteNode("h:1", is_private=True)
    assert node.change("POST", "/users", {"password": "p"}) == {}
    questions = [asked[1] for asked in guarded.asked]
    assert questions == ["GET", "GET", "POST"]
    guarded.sock = PaperSocket(("10.0.0.1", 8161), ("10.0.0.2", 50_000))
    for far in (node, RemoteNode("h:1", login="Bearer hf_x")):
        with pytest.raises(ConfigError, match="is another machine and is asked in clear"):
            far.change("POST", "/users", {"password": "p"})
    assert len(guarded.asked) == 3


class Squatted:
    """
    A node in clear, by the secret, at whose port somebody else listens from a moment on.

    Moments: `idle`, when the question is answered and its connection closed by that; `sudden`, as
    what stands behind it is sent.
    """

    def __init__(self, moment: str) -> None:
        self.moment = moment
        self.bodies: list[tuple[str, bytes]] = []
        self.opened = 0

    def make(self, _address: str, *, timeout: float) -> Squatted.Connection:
        assert timeout
        return Squatted.Connection(self)

    class Connection:
        def __init__(self, port: Squatted) -> None:
            self.port = port
            self.sock: PaperSocket | None = None
            self.place, self.asked = "", ("", b"")

        def connect(self) -> None:
            self.port.opened += 1
            # The mark is asked on a connection of its own, before anything is proven.
            self.place = "node" if self.port.opened <= 2 else "squatter"
            self.sock = PaperSocket(("127.0.0.1", 8161), ("127.0.0.1", 50_000))

        def request(self, method: str, path: str, data: Any = None, headers: Any = None) -> None:
            if self.sock is None:
                self.connect()
            if self.port.moment == "sudden" and method == "POST" and self.place == "node":
                self.sock = None
                raise BrokenPipeError
            self.port.bodies.append((self.place, data or b""))
            self.headers = headers

        def getresponse(self) -> PaperResponse:
            response = PaperResponse(json.dumps({"process": LIFE}).encode())
            if self.place == "node":
                response.prove(self.headers)
            if self.port.moment == "idle" and "Authorization" in self.headers:
                self.sock = None
            return response

        def close(self) -> None:
            self.sock = None


@pytest.mark.parametrize("moment", ["idle", "sudden", "never"])
def test_what_is_private_goes_to_who_has_proven_that_he_is_the_node_and_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """
    It went on a connection of its own behind the proof: whoever took the port between the two, as
    the node stopped, was sent the password.
    """
    port = Squatted(moment)
    monkeypatch.setattr(remote, "HTTPConnection", port.make)
    monkeypatch.setattr(endpoint, "KNOCK_SECONDS_MAX", 0.0)
    node = RemoteNode("127.0.0.1:8161", secret=SECRET, is_private=True)
    if moment == "never":
        assert node.change("POST", "/users/password", {"password": "new horse"})
    else:
        with pytest.raises(HoldfastError):
            node.change("POST", "/users/password", {"password": "new horse"})
    sent = [place for place, body in port.bodies if b"new horse" in body]
    assert sent == (["node"] if moment == "never" else [])
    assert port.opened == 2


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_who_says_yes_to_all_is_sent_no_password_and_no_success_is_told(
    guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: bytes
) -> None:
    """
    Any user of the machine can listen where a node is stopped, also name the file that it left.
    """
    monkeypatch.setattr(remote, "HTTPConnection", guarded)
    body = {"name": "ops", "password": "new horse 22"}
    guarded.is_node = False
    for has_file in (True, False):
        if not has_file:
            monkeypatch.setattr(guarded, "getresponse", _say_yes)
        for is_private in (True, False):
            node = RemoteNode("h:1", secret=secret, is_private=is_private)
            guarded.asked.clear()
            why = r"h:1 has not proven to be the node"
            if secret and has_file:
                why = "a proof is needed"  # It is refused, and the file is none of the secret's.
            with pytest.raises(AuthenticationError, match=why):
                node.change("POST", "/users/password", body)
            if is_private:
                assert "new horse" not in str(guarded.asked)
    if secret:
        with pytest.raises(AuthenticationError, match=r"has not proven to be the node"):
            RemoteNode("h:1", secret=secret).get("/log")


def _say_yes(_connection: PaperConnection) -> PaperResponse:
    return PaperResponse(json.dumps({"process": LIFE}).encode())


def test_a_node_that_is_said_to_be_earlier_proves_nothing(
    connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a cluster is upgraded: by the word of who asks."""
    connection.is_node = False
    assert RemoteNode("h:1", takes_earlier=True).change("POST", "/cluster/transfer") == {}


def test_a_leader_is_told_for_whom_a_request_is_passed_on(
    connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Beside the proof that a member has.
    """
    monkeypatch.setattr(remote, "HTTPConnection", connection)
    told = {"forwarded_by": "b", "on_behalf": '["ann", "::1"]'}
    node = RemoteNode("h:1", secret=SECRET, life=LIFE, **told)
    node.send("POST", "/users", {})
    headers = connection.asked[-1][4]
    assert headers["holdfast-on-behalf"] == '["ann", "::1"]'
    assert headers["Authorization"].startswith("Holdfast-Forward ")
    RemoteNode("h:1", secret=SECRET, **told).send("POST", "/users", {})
    headers = connection.asked[-1][4]
    assert headers["Authorization"] == f"Bearer {admin_token(SECRET)}", "one of an earlier version"


def test_what_is_passed_on_with_a_secret_in_it_goes_by_no_way_in_clear(
    connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A token that the leader makes would be readable between the nodes: nothing is asked then.
    """
    asked: list[object] = []

    def refuse(_connection: object) -> None:
        asked.append(_connection)
        raise ConfigError(["it is asked in clear"])

    monkeypatch.setattr(remote, "require_private", refuse)
    node = RemoteNode("h:1", secret=SECRET, forwarded_by="b", life=LIFE, is_private=True)
    with pytest.raises(ConfigError, match="asked in clear"):
        node.change("POST", "/users/tokens")
    assert len(asked) == 1
    assert connection.asked == []
