"""
`holdfast users`.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import typer

from holdfast.cli import users
from tests.unit.cli.test_queue_messages import told
from tests.unit.cli.test_schedules import job

PASSWORD = "correct horse"
ANN = {
    "name": "ann",
    "roles": ["admin", "sales"],
    "has_password": True,
    "tokens": [{"name": "ci", "expires_ms": 1_700_000_000_000}, {"name": "old", "expires_ms": 0}],
    "revision": 3,
}
BEN = {"name": "ben", "roles": [], "has_password": False, "tokens": [], "revision": 1}


class Terminal(io.StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Somebody who types the password when he is asked; gives how he was asked."""
    asked: list[dict[str, Any]] = []

    def prompt(text: str, **how: Any) -> str:
        asked.append({"text": text, **how})
        return PASSWORD

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr("sys.stdin", Terminal())
    return asked


def test_users_are_listed_with_what_they_show(cluster, run) -> None:
    """
    By `users` and by `users list`; for programs as the node tells it.
    """
    cluster.say("/users", {"node": "a", "users": [ANN, BEN]})
    for arguments in (["users"], ["users", "list"]):
        assert run(*arguments) == 0
        told = run.out.splitlines()
        assert "ann" in told[2]
        assert "admin, sales" in told[2]
        assert "ci (until 2023-11-14 22:13 UTC), old" in told[2]
        assert run(*arguments, "--json") == 0
        assert json.loads(run.out)["users"] == [ANN, BEN]


def test_who_keeps_scram_from_being_offered_is_named(cluster, run) -> None:
    """
    Only where it is wanted; who has no password keeps nobody from it.
    """
    cas = {**ANN, "name": "cas", "has_scram": True, "tokens": []}
    cluster.say("/users", {"node": "a", "scram": True, "users": [ANN, BEN, cas]})
    assert run("users") == 0
    ann, ben, last = run.out.splitlines()[2:]
    assert "yes, not by SCRAM" in ann
    assert ("yes" in ben, "yes" in last, "SCRAM" in last) == (False, True, False)
    assert "before 1 passwords were set anew (holdfast users password NAME): ann\n" in run.err
    cluster.say("/users", {"node": "a", "scram": False, "users": [ANN, BEN]})
    assert run("users") == 0
    assert "SCRAM" not in run.out + run.err


@pytest.mark.parametrize("command", [["users", "list"], ["access", "list"], ["access", "ann", "Q"]])
def test_a_node_that_cannot_know_its_users_yet_is_not_told_to_have_none(
    cluster, run, command
) -> None:
    """A table without rows would say that nobody has to log in."""
    for path in ("/users", "/grants", "/access?user=ann&destination=Q"):
        cluster.say(path, {"node": "a", "users": [], "grants": [], "rights": [], "is_known": False})
    assert run(*command) == 0
    assert "not known yet: since a was started no leader has told it" in run.err


def test_what_a_witness_tells_without_a_leader_is_what_it_has_kept_by_chance(cluster, run) -> None:
    """Not that it will know more by itself."""
    answer = {"node": "c", "role": "witness", "users": [], "is_known": False}
    cluster.say("/users", answer)
    assert run("users", "list") == 0
    assert "note: c is a witness, which knows no users, and there is no leader" in run.err


def test_a_password_is_asked_for_twice_and_shown_nowhere(cluster, run, person) -> None:
    """
    What is sent is private, so it leaves this machine by no clear connection.
    """
    cluster.say("/users", {"added": "cas", "first": True})
    assert run("users", "add", "cas", "--role", "a", "--role", "b") == 0
    assert cluster.changes == [
        (
            "127.0.0.1:8161",
            "POST",
            "/users",
            {"name": "cas", "roles": ["a", "b"], "password": PASSWORD},
        )
    ]
    assert (person[0]["hide_input"], person[0]["confirmation_prompt"]) == (True, True)
    assert "user cas was made" in run.out
    assert "from now on whoever connects has to log in" in run.err
    assert PASSWORD not in run.out + run.err
    cluster.say("/users", {"added": "dan", "first": False})
    assert run("users", "add", "dan", "--no-password") == 0
    assert cluster.changes[1][3] == {"name": "dan", "roles": []}
    assert run.err == ""
    assert cluster.private == [True, True]


def test_a_script_gives_the_password_on_standard_input(cluster, run, monkeypatch) -> None:
    """
    One line of it; without that nobody can be asked, and an empty one is none.
    """
    cluster.say("/users/password", {"name": "ann"})
    for given, code in [
        (f"{PASSWORD}\n", 0),
        (f"{PASSWORD}\r\nmore", 0),
        (PASSWORD, 0),
        ("\n", 2),
        ("", 2),
        ("x" * 2000, 2),
    ]:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        assert run("users", "password", "ann", "--password-stdin") == code
    assert [it[3] for it in cluster.changes] == [{"name": "ann", "password": PASSWORD}] * 3
    assert run("users", "password", "ann") == 2
    assert "--password-stdin" in run.err
    assert run("users", "add", "ann", "--password-stdin", "--no-password") == 2


def test_a_token_is_all_that_is_written(cluster, run) -> None:
    """
    So that it can be put into a file as it is.
    """
    cluster.say("/users/tokens", {"name": "ann", "token": "hf_YW5u.x"})
    assert run("users", "token", "ann", "--name", "ci", "--expires", "90d") == 0
    assert run.out == "hf_YW5u.x\n"
    assert run("users", "token", "ann") == 0
    assert [it[3] for it in cluster.changes] == [
        {"name": "ann", "token": "ci", "expires_seconds": 90 * 86_400},
        {"name": "ann", "token": "default", "expires_seconds": 0},
    ]
    cluster.say("/users/tokens/end", {"name": "ann", "ended": "ci"})
    assert run("users", "token", "ann", "--name", "ci", "--end") == 0
    assert "token ci of user ann has ended" in run.out


@pytest.mark.parametrize(
    ("written", "seconds"), [("", 0), ("12h", 43_200), ("90d", 7_776_000), ("2w", 1_209_600)]
)
def test_a_time_is_read(written: str, seconds: int) -> None:
    """
    With a unit.
    """
    assert users._seconds(written) == seconds


@pytest.mark.parametrize("written", ["90", "d", "-1d", "0d", "1.5d", "1y", "9999999d", "90d "])
def test_what_is_no_time_is_no_token_for_ever(cluster, run, written: str) -> None:
    """
    It is refused with what would be one.
    """
    assert run("users", "token", "ann", "--expires", written) == 2
    assert "12h, 90d or 52w are" in run.err
    assert not cluster.changes


def test_roles_are_set_and_users_go(cluster, run) -> None:
    """
    The last one only where that is said.
    """
    cluster.say("/users/roles", {"name": "ann", "roles": ["a", "b"]})
    assert run("users", "roles", "ann", "b", "a") == 0
    assert "user ann has roles: a, b" in run.out
    cluster.say("/users/roles", {"name": "ann", "roles": []})
    assert run("users", "roles", "ann") == 0
    assert "none" in run.out
    cluster.say("/users/remove", {"removed": "ann"})
    nothing_scheduled(cluster)
    assert run("users", "remove", "ann", "--yes", "--last") == 0
    assert [it[3] for it in cluster.changes if it[2] != "/messages"] == [
        {"name": "ann", "roles": ["b", "a"]},
        {"name": "ann", "roles": []},
        {"name": "ann", "last": True},
    ]


def nothing_scheduled(cluster) -> None:
    cluster.say("/messages", told(0, 0, is_done=True))


def test_what_is_scheduled_by_a_user_is_said_as_he_goes(cluster, run) -> None:
    """
    Or that it could not be asked: he is removed all the same.
    """
    cluster.say("/users/remove", {"removed": "ann"})
    mine = job(1, JMSXUserID="ann")
    cluster.say("/messages", told(2, 9, is_done=True, messages=[mine, job(2)]))
    assert run("users", "remove", "ann", "--yes") == 0
    assert "1 scheduled messages of ann are left; each goes to the dead letters" in run.err
    cluster.say("/messages", {"error": {"code": "x", "message": "no"}}, status=500)
    assert run("users", "remove", "ann", "--yes") == 0
    assert "what ann has scheduled could not be asked" in run.err
    assert "user ann was removed" in run.out


def test_what_is_left_of_a_user_is_said(cluster, run) -> None:
    """
    When he goes, and to who gives his name again; what ended with him is, too.
    """
    nothing_scheduled(cluster)
    gone = {"removed": "ann", "subscriptions_ended": 0, "subscriptions_left": 2}
    cluster.say("/users/remove", gone)
    assert run("users", "remove", "ann", "--yes") == 0
    assert "note: 2 durable subscriptions of a removed user ann are left" in run.err
    gone = {"removed": "ann", "subscriptions_ended": 2, "subscriptions_left": 0}
    cluster.say("/users/remove", gone)
    assert run("users", "remove", "ann", "--yes", "--subscriptions") == 0
    assert "user ann was removed, with 2 durable subscriptions" in run.out
    assert run.err == ""
    asked = {"name": "ann", "last": False}
    removals = [it[3] for it in cluster.changes if it[2] == "/users/remove"]
    assert removals == [asked, {**asked, "subscriptions": True}]
    cluster.say("/users", {"added": "ann", "first": False, "subscriptions_left": 1})
    assert run("users", "add", "ann", "--no-password") == 0
    assert "1 durable subscriptions of a removed user ann" in run.err


def test_an_admin_is_made_of_whoever_there_is(cluster, run, person) -> None:
    """
    A user who is there keeps the other roles; the others are named who may need a password anew.
    """
    cluster.say("/users", {"users": [ANN, BEN, {**ANN, "name": "eve"}]})
    cluster.say("/users/password", {"name": "ben"})
    cluster.say("/users/roles", {"name": "ben", "roles": ["admin"]})
    assert run("users", "recover", "ben") == 0
    assert [(it[2], it[3]) for it in cluster.changes] == [
        ("/users/password", {"name": "ben", "password": PASSWORD}),
        ("/users/roles", {"name": "ben", "roles": ["admin"]}),
    ]
    assert "2 others need one anew: ann, eve" in run.err
    assert run("users", "recover", "new") == 0
    assert cluster.changes[2][2:] == (
        "/users",
        {"name": "new", "password": PASSWORD, "roles": ["admin"]},
    )
    assert len(person) == 2
