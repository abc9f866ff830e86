"""
Users and grants over HTTP, asked in memory.
"""

from __future__ import annotations

import json

import pytest

from holdfast.admin.remote import Answer, RemoteNode
from holdfast.errors import AccessError, ConfigError, NotLeaderError
from holdfast.security.passwords import KeptPassword
from holdfast.security.tokens import digest_of, owner_of
from tests.unit.admin.test_http_api import Wire, request

SECRET = "correct horse"


def test_users_and_grants_are_listed_without_any_secret(node) -> None:
    """
    Of a token its name and its end, of a password that there is one.
    """
    answer = request(node, "GET", "/users").json()
    assert (answer["node"], answer["scram"]) == ("a", False)
    assert answer["users"][0] == {
        "name": "ann",
        "roles": ["admin"],
        "has_password": True,
        "has_scram": False,
        "tokens": [{"name": "ci", "expires_ms": 5}],
        "revision": 0,
    }
    grants = request(node, "GET", "/grants").json()["grants"]
    assert grants == [{"role": "sales", "rights": ["read", "write"], "pattern": "queue://A.>"}]


def test_it_is_said_which_grant_decides(node) -> None:
    """
    A destination is written as in a grant, or as clients do.
    """
    for written in ("queue://A.b", "/queue/A.b", "A.b"):
        answer = request(node, "GET", "/access", params={"user": "ann", "destination": written})
        read, write = answer.json()["rights"]
        assert read["grants"][0]["pattern"] == "queue://A.>"
        assert (read["is_allowed"], write["is_allowed"]) == (True, False)
        assert write["right"] == "write /queue/A.b"
    for question, status in [
        ({"user": "ann"}, 400),
        ({"user": "ann", "destination": "x" * 2000}, 400),
        ({"user": "ann", "destination": "/queue/a,/queue/b"}, 404),
        ({"user": "ann", "destination": "queue://a.>.b"}, 400),
        ({"user": "cas", "destination": "a"}, 400),
    ]:
        assert request(node, "GET", "/access", params=question).status_code == status


def test_a_user_is_added_with_what_is_kept_of_his_password(node) -> None:
    """
    The password itself goes no further than to what hashes it; the first user is told of, as from
    then on others are asked who they are.
    """
    body = {"name": "first", "roles": ["sales"], "password": SECRET}
    answer = request(node, "POST", "/users", json=body)
    assert answer.json() == {"added": "first", "first": True, "subscriptions_left": 0}
    assert node.changes == [("add user", "first", ["sales"], KeptPassword("kept-1"))]
    assert request(node, "POST", "/users", json={"name": "ci"}).json()["first"] is False
    assert node.changes[1] == ("add user", "ci", [], None)
    assert request(node, "POST", "/users/password", json={**body, "roles": 1}).status_code == 400
    wanted = {"name": "ann", "password": SECRET}
    assert request(node, "POST", "/users/password", json=wanted).status_code == 200
    assert node.changes[2][:2] == ("set password", "ann")
    assert request(node, "POST", "/users/password", json={"name": "ann"}).status_code == 400
    assert node.users.hashed == [SECRET, SECRET, SECRET]


def test_a_leader_is_given_no_password(node) -> None:
    """
    What passes between nodes in clear must not open anything: the node that was asked hashes it.
    """
    node.failure = NotLeaderError("b")
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"added": "ann", "first": False})
    body = {"name": "ann", "password": SECRET}
    assert request(node, "POST", "/users", wire=wire, json=body).status_code == 200
    (asked,) = wire.asked
    assert asked == (
        ("127.0.0.1:8162", "0b" * 16),
        "POST",
        "/users",
        {"name": "ann", "kept": "kept-1"},
    )
    node.users.are_known = False
    for path in ("/users", "/grants", "/access?user=ann&destination=Q"):
        assert (
            request(node, "GET", f"{path}{'&' if '?' in path else '?'}local").json()["is_known"]
            is False
        )
    assert request(node, "GET", "/users", wire=wire).status_code == 200
    assert wire.asked[1][1:3] == ("GET", "/users")
    assert SECRET not in repr(wire.asked)


def test_keys_for_scram_go_to_the_leader_beside_what_is_kept(node) -> None:
    """
    Where new passwords are kept for SCRAM; a node that does not know them refuses the whole.
    """
    node.users.keeps_scram = True
    assert request(node, "GET", "/users").json()["scram"] is True
    body = {"name": "ann", "password": SECRET}
    assert request(node, "POST", "/users/password", json=body).status_code == 200
    kept = KeptPassword("kept-1", {"of": "ann", "iterations": 7})
    assert node.changes == [("set password", "ann", kept)]
    assert "kept-1" not in repr(kept)
    unfit = {"name": "ann", "kept": "k", "scram": {"of": ["x"]}}
    assert request(node, "POST", "/users/password", json=unfit).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"name": "ann", "password": [SECRET]},
        {"name": ["ann"], "password": SECRET},
        {"password": SECRET},
        {"name": "ann", "password": SECRET * 100},
        {"name": "ann", "password": SECRET, "more": SECRET},
        {"name": "ann", "password": "unfit"},
        [SECRET],
        SECRET,
    ],
)
def test_what_is_no_request_is_refused_without_showing_the_password(node, body) -> None:
    """
    The sentence names what is wrong; what was sent may have a password anywhere (S14).
    """
    for path in ("/users", "/users/password"):
        answer = request(node, "POST", path, json=body)
        assert answer.status_code == 400
        assert SECRET not in answer.text
    assert request(node, "POST", "/users", content=b"{" + SECRET.encode()).status_code == 400
    assert not node.changes


def test_a_token_is_told_once_and_kept_by_no_cache(node) -> None:
    """
    With when it ends; it is ended by its name. What is kept is its digest.
    """
    wanted = {"name": "ann", "token": "ci", "expires_seconds": 60}
    answer = request(node, "POST", "/users/tokens", json=wanted)
    made = answer.json().pop("token")
    assert answer.json() == {"name": "ann", "token": made}
    assert owner_of(made) == "ann"
    assert answer.headers["cache-control"] == "no-store"
    ended = request(node, "POST", "/users/tokens/end", json={"name": "ann", "token": "ci"})
    assert ended.json() == {"name": "ann", "ended": "ci"}
    for seconds in (-1, 10**12, "1h"):
        body = {**wanted, "expires_seconds": seconds}
        assert request(node, "POST", "/users/tokens", json=body).status_code == 400
    for body in (
        b"{",
        b'{"name": ["ann"]}',
        b'{"name": "", "token": "ci"}',
        b'{"name": "\\ud800"}',
    ):
        assert request(node, "POST", "/users/tokens", content=body).status_code == 400
    assert node.changes == [
        ("make token", "ann", "ci", digest_of(made), 60),
        ("end token", "ann", "ci"),
    ]
    other = request(node, "POST", "/users/tokens", json=wanted)
    assert other.json()["token"] != made


def test_what_is_kept_of_a_password_goes_to_no_other_machine_in_clear(
    node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is told what to do instead; nothing else that is passed on is held up by that.
    """
    node.failure = NotLeaderError("b")
    node.be(role="follower", leader="b")

    def send(remote: RemoteNode, *_asked: object) -> Answer:
        if remote.is_private:
            raise ConfigError(["it is asked in clear"])
        return Answer(200, {"name": "ann"})

    monkeypatch.setattr(RemoteNode, "send", send)
    for path in ("/users", "/users/password"):
        refused = request(node, "POST", path, json={"name": "ann", "password": SECRET})
        assert refused.status_code == 400
        assert "passed on in clear to no other machine" in refused.json()["error"]["message"]
        assert "kept-" not in refused.text
    assert request(node, "POST", "/users", json={"name": "ann"}).status_code == 200
    made = request(node, "POST", "/users/tokens", json={"name": "ann", "token": "ci"})
    assert made.status_code == 200


def test_a_leader_is_given_the_digest_of_a_token_and_never_the_token(node) -> None:
    """
    What passes between nodes in clear must not open anything: the node that was asked draws it. One
    that another has drawn is told by that one.
    """
    node.failure = NotLeaderError("b")
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"name": "ann"})
    wanted = {"name": "ann", "token": "ci"}
    answer = request(node, "POST", "/users/tokens", wire=wire, json=wanted)
    made = answer.json()["token"]
    assert answer.headers["cache-control"] == "no-store"
    assert wire.asked[0][3] == {**wanted, "digest": digest_of(made)}
    assert made not in repr(wire.asked)
    wire.answer = Answer(409, {"error": {"code": "access", "message": "there is no such user"}})
    assert "token" not in request(node, "POST", "/users/tokens", wire=wire, json=wanted).json()
    node.failure = None
    passed_on = request(node, "POST", "/users/tokens", json={**wanted, "digest": "0" * 64})
    assert passed_on.json() == {"name": "ann"}
    unfit = request(node, "POST", "/users/tokens", json={**wanted, "digest": "0" * 63})
    assert unfit.status_code == 400


def test_users_change_roles_and_go(node) -> None:
    """
    The last one only where that is said.
    """
    roles = request(node, "POST", "/users/roles", json={"name": "ann", "roles": ["b", "a"]})
    assert roles.json() == {"name": "ann", "roles": ["a", "b"]}
    assert request(node, "POST", "/users/remove", json={"name": "ben"}).json()["removed"] == "ben"
    request(node, "POST", "/users/remove", json={"name": "ann", "last": True})
    gone = request(node, "POST", "/users/remove", json={"name": "cas", "subscriptions": True})
    assert gone.json() == {"removed": "cas", "subscriptions_ended": 5, "subscriptions_left": 3}
    wanted = {"client_id": "c", "name": "d", "user": "ann"}
    assert request(node, "POST", "/subscriptions/give", json=wanted).json() == wanted
    for body in ({**wanted, "user": ""}, {**wanted, "more": 1}, {"name": "d"}):
        assert request(node, "POST", "/subscriptions/give", json=body).status_code == 400
    assert node.changes == [
        ("set roles", "ann", ["b", "a"]),
        ("remove user", "ben", False),
        ("remove user", "ann", True),
        ("remove user", "cas", False),
        ("give subscription", "c", "d", "ann"),
    ]


def test_rights_are_granted_and_taken_back(node) -> None:
    """
    The answer says what the role has of the pattern then.
    """
    body = {"role": "sales", "rights": "write,read", "pattern": "A.>"}
    answer = request(node, "POST", "/grants", json=body).json()
    assert answer == {"role": "sales", "rights": ["read", "admin"], "pattern": "queue://A.>"}
    assert request(node, "POST", "/grants/revoke", json=body).json()["rights"] == []
    said = "sales may read,write queue://A.>"
    assert node.changes == [("grant", said), ("revoke", said)]
    for wrong in ({"rights": "own"}, {"pattern": "a.>.b"}, {"role": "a b"}, {"role": ""}):
        answer = request(node, "POST", "/grants", json={**body, **wrong})
        assert answer.status_code == 400


def test_what_cannot_be_is_refused_with_its_own_code(node) -> None:
    """
    So that a program can tell it from a body that it wrote wrongly.
    """
    node.failure = AccessError("there is no user 'x'")
    answer = request(node, "POST", "/users/roles", json={"name": "x", "roles": []})
    assert (answer.status_code, json.loads(answer.text)["error"]["code"]) == (400, "access")
