"""How a command shows a node a password."""

from __future__ import annotations

import json
from base64 import b64encode
from email.message import Message

import pytest

from holdfast.admin import by_password, remote
from holdfast.admin.by_password import ByPassword
from holdfast.admin.remote import RemoteNode
from holdfast.admin.scram_http import Said, read_authorization, write_challenge
from holdfast.errors import AuthenticationError, BusyError, HoldfastError
from holdfast.security.checking import SHUT_OUT, WRONG
from holdfast.security.throttle import FAILURES_MAX
from tests.unit.admin.scram_node import PASSWORD, ScramConnection, ScramNode


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> ScramNode:
    node = ScramNode()

    class Connection(ScramConnection):
        pass

    Connection.node = node
    monkeypatch.setattr(remote, "HTTPConnection", Connection)
    return node


def asking(password: str = PASSWORD, name: str = "ann", **more: object) -> RemoteNode:
    return RemoteNode("127.0.0.1:8161", login=ByPassword(name, password), **more)


def everything(node: ScramNode) -> str:
    """All that a node was sent, its Base64 read."""
    said = repr(node.sent)
    for *_, header in node.sent:
        found = read_authorization(header.encode())
        said += "" if found is None else found.message.decode()
    return said


def test_where_scram_is_offered_no_password_is_sent(node) -> None:
    """
    A change is led in by a question that has only the name in it, and asked once with the proof.
    """
    login = asking(is_private=True)
    assert login.change("POST", "/reload", {"a": 1}) == {"done": "/reload"}
    methods = [(method, path, body) for method, path, body, _ in node.sent]
    question = ("GET", "/users", None)
    assert methods == [question, question, question, ("POST", "/reload", b'{"a": 1}')]
    assert all(header.startswith("SCRAM-SHA-256 ") for *_, header in node.sent)
    assert PASSWORD not in everything(node)
    assert b64encode(f"ann:{PASSWORD}".encode()).decode() not in everything(node)
    assert node.refused == []
    assert PASSWORD not in repr((login, login.login))


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("cas", PASSWORD), ("ann", "\u0007")]
)
def test_a_wrong_password_is_not_sent_either(node, name: str, password: str) -> None:
    """The client falls back on nothing; a wrong one is refused as it is in clear."""
    with pytest.raises(AuthenticationError) as refused:
        asking(password, name).get("/queues")
    if password == "\u0007":
        assert "cannot be shown by SCRAM" in str(refused.value)
    else:
        assert str(refused.value) == WRONG
        assert node.refused == [(name, WRONG)]
    assert "Basic" not in everything(node)


def test_a_name_that_is_refused_at_once_is_followed_by_no_password(node) -> None:
    """The node offers SCRAM and begins nothing with such a name: that is the answer."""
    with pytest.raises(AuthenticationError, match="SCRAM: the first message is none"):
        asking(PASSWORD, "a\0b").get("/queues")
    assert len(node.sent) == 1


def test_where_it_is_not_offered_the_password_goes_as_before(node) -> None:
    """
    By a node of an earlier version, too, to which the first question says nothing: if whoever asks
    says so, who is asked that once for each place.
    """
    node.is_offered = False
    places: list[str] = []

    def may_tell(place: str) -> bool:
        places.append(place)
        return True

    remote_node = RemoteNode("127.0.0.1:8161", login=ByPassword("ann", PASSWORD, may_tell=may_tell))
    assert remote_node.get("/queues") == {"done": "/queues"}
    basic = f"Basic {b64encode(f'ann:{PASSWORD}'.encode()).decode()}"
    assert [header for *_, header in node.sent][1:] == [basic]
    assert remote_node.get("/queues") == {"done": "/queues"}
    assert places == ["127.0.0.1:8161"]


def test_who_says_himself_that_he_offers_none_is_not_told_the_password(node) -> None:
    """In clear that is whoever listens: any user of the machine can, while the node is stopped."""
    node.is_offered = False
    for ask in (asking().get, lambda path: asking(is_private=True).change("POST", path)):
        with pytest.raises(AuthenticationError, match=r"127.0.0.1:8161 speaks in clear and does"):
            ask("/queues")
    assert "Basic" not in everything(node)
    assert PASSWORD not in everything(node)


def test_by_tls_a_certificate_has_shown_who_is_told(node, monkeypatch) -> None:
    """There the password goes as before, and nobody is asked."""
    node.is_offered = False
    monkeypatch.setattr(by_password, "SSLSocket", object)
    assert asking().get("/queues") == {"done": "/queues"}
    assert node.sent[-1][3].startswith("Basic ")


def test_a_node_that_has_no_users_is_sent_no_password(node) -> None:
    """Nobody asks for it there."""
    node.has_users = False
    for path in ("/policies", "/queues"):
        node.sent.clear()
        with pytest.raises(AuthenticationError, match="no cluster secret"):
            asking().get(path)
        assert len(node.sent) == 1


@pytest.mark.parametrize("status", [200, 403, 409, 500])
def test_who_asks_nobody_who_he_is_is_sent_nothing(
    node, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """
    Any user of the machine can listen where a node is stopped and say yes to all: he was sent the
    new password of whom it was set for, and the operator was told that it was done.
    """
    ask = node.ask

    def say(*asked: object) -> tuple[int, object, bytes]:
        ask(*asked)
        return status, Message(), b"{}"

    monkeypatch.setattr(node, "ask", say)
    login = asking(is_private=True)
    with pytest.raises(HoldfastError):
        login.change("POST", "/users/password", {"name": "bea", "password": "new horse 22"})
    with pytest.raises(HoldfastError):
        login.get("/queues")
    assert {(method, path, body) for method, path, body, _ in node.sent} == {
        ("GET", "/users", None)
    }


def test_nothing_private_goes_with_a_proof_before_the_other_end_has_given_one(
    node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers the first exchange with an error has shown nothing, and gets no second one."""
    ask = node.ask

    def say(*asked: object) -> tuple[int, object, bytes]:
        found = ask(*asked)
        return found if len(node.sent) % 2 else (409, Message(), b"{}")

    monkeypatch.setattr(node, "ask", say)
    with pytest.raises(HoldfastError, match="409"):
        asking(is_private=True).change("POST", "/users/password", {"password": "new horse 22"})
    assert "new horse" not in everything(node)


def test_a_proof_is_good_at_the_place_that_was_opened_only(node) -> None:
    """Whoever listens there and passes all on to a node elsewhere is refused there."""
    node.server = ("127.0.0.1", 8161)
    assert asking().get("/queues") == {"done": "/queues"}
    for node.server in (("127.0.0.1", 8162), ("10.0.0.1", 8161)):
        with pytest.raises(AuthenticationError, match=r"sent to 127.0.0.1:8161, which this node"):
            asking().get("/queues")


@pytest.mark.parametrize("token", ["hf_YW5u.x", "eyJhbGciOiJFZERTQSJ9.e30.c2ln"])
def test_a_token_in_the_place_of_the_password_is_shown_as_one(node, token: str) -> None:
    """There are no keys of it, and nobody can guess it."""
    with pytest.raises(AuthenticationError, match=WRONG):
        asking(token).get("/queues")
    assert [header[:6] for *_, header in node.sent] == ["Basic "]


def test_who_is_shut_out_hears_why(node) -> None:
    """Not that a login is needed: he has one."""
    for number in range(FAILURES_MAX + 1):
        node.throttle.failed("127.0.0.1", bytes([number]), node.scram._clock.monotonic(), "ann")
    with pytest.raises(BusyError, match="too many failed logins"):
        asking().get("/queues")
    assert node.refused == [("", SHUT_OUT)]


def test_an_answer_of_who_does_not_know_the_user_is_not_taken(node, monkeypatch) -> None:
    """
    Whoever took the node's place can ask for a proof, and cannot answer one.
    """
    real = node.ask
    for change in (None, "sid=a, data=dj0=", f"sid=a, data={b64encode(b'v=' + b'A' * 43 + b'=')}"):

        def ask(*said: object, change: str | None = change):
            status, headers, body = real(*said)
            del headers["Authentication-Info"]
            if change is not None and status == 200:
                headers["Authentication-Info"] = change
            return status, headers, body

        monkeypatch.setattr(node, "ask", ask)
        with pytest.raises(AuthenticationError, match=r"has not proven|message is none"):
            asking().get("/queues")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"r=another,s=c2FsdHNhbHQ=,i=4096", "to another question"),
        (b"r=%s,s=c2FsdHNhbHQ=,i=4096", "to another question"),
        (b"r=%sx,s=c2FsdHNhbHQ=,i=999999999", "999,999,999 iterations are asked for"),
        (b"r=%sx,s=c2FsdHNhbHQ=,i=1", "1 iterations are asked for"),
        (b"e=other-error", "first message is none"),
    ],
)
def test_a_question_that_is_none_is_not_answered(node, monkeypatch, message, said) -> None:
    """A nonce that is not ours, work without end, or so little that the password is guessed."""

    def ask(method: str, path: str, body: object, headers: dict[str, str]):
        node.sent.append((method, path, body, headers["Authorization"]))
        first = read_authorization(headers["Authorization"].encode())
        assert first is not None
        nonce = first.message.partition(b"r=")[2].partition(b",")[0]
        asked = message % nonce if b"%s" in message else message
        told = type(real(method, path, None, headers)[1])()
        told["WWW-Authenticate"] = write_challenge(Said("a1", asked))
        return 401, told, json.dumps({"error": {"message": "goes on"}}).encode()

    real = node.ask
    monkeypatch.setattr(node, "ask", ask)
    with pytest.raises(AuthenticationError, match=said):
        asking().get("/queues")
    assert "Basic" not in everything(node)


def test_a_password_is_salted_once_for_a_whole_command(node, monkeypatch) -> None:
    """However often the node is asked; another salt is another work."""
    from holdfast.admin import by_password

    worked: list[bytes] = []
    real = by_password.salted

    def noted(password: str, salt: bytes, iterations: int) -> bytes | None:
        worked.append(salt)
        return real(password, salt, iterations)

    monkeypatch.setattr(by_password, "salted", noted)
    asked = asking()
    for _ in range(3):
        asked.get("/queues")
    assert len(worked) == 1
