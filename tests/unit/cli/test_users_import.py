"""
`holdfast users import`.
"""

from __future__ import annotations

import pytest

from holdfast.admin.remote import Answer
from tests.unit.cli.conftest import A
from tests.unit.cli.test_activemq_users import XML


@pytest.fixture
def xml(tmp_path):
    path = tmp_path / "activemq.xml"
    path.write_bytes(XML)
    return path


def test_a_dry_run_says_what_would_be_made_and_asks_nobody(cluster, run, xml, tmp_path) -> None:
    """
    Both tables on standard output, what is left out with its line on the other.
    """
    credentials = tmp_path / "credentials.properties"
    credentials.write_text("sys.password=manager\nwho=filled")
    given = ["--properties", str(credentials), "--dry-run"]
    assert run("users", "import", str(xml), *given) == 0
    assert not cluster.asked
    assert "admins, users" in run.out
    assert "queue://USERS.>" in run.out
    assert f"{xml}:7: user user: the password is encrypted" in run.err
    assert "manager" not in run.out + run.err


def test_grants_are_made_first_and_who_is_there_stays(cluster, run, xml) -> None:
    """
    One who is refused does not keep the others from coming; the command has failed then.
    """
    cluster.say("/grants", {})
    cluster.say("/users", {"users": [{"name": "user"}], "added": "x", "first": False})
    assert run("users", "import", str(xml), "--yes") == 0
    changed = [(path, body) for _, _, path, body in cluster.changes]
    kinds = [path for path, _ in changed]
    assert kinds == sorted(kinds)
    assert changed[-1] == ("/users", {"name": "gone", "roles": ["guests"]})
    assert {body["name"] for path, body in changed if path == "/users"} == {"system", "gone"}
    assert "user user: there is one already, who stays as he is" in run.err
    assert "2 users were made, and" in run.out
    assert all(cluster.private)


def test_one_who_is_refused_is_named(cluster, run, xml, monkeypatch) -> None:
    """
    With the node's own reason.
    """
    send = cluster.send
    fault = {"error": {"code": "access", "message": "there is a user 'system' already"}}

    def answer(node, method, path, body=None) -> Answer:
        if method == "POST" and path == "/users" and body["name"] == "system":
            return Answer(400, fault)
        return send(node, method, path, body)

    cluster.send = answer
    cluster.say("/grants", {})
    cluster.say("/users", {"users": [], "added": "x", "first": False})
    assert run("users", "import", str(xml), "--yes") == 1
    assert "user system: there is a user 'system' already" in run.err
    assert "2 users were made" in run.out


def test_jaas_files_are_taken_alone(cluster, run, tmp_path) -> None:
    """
    With what their groups are to be called here.
    """
    users, groups = tmp_path / "users.properties", tmp_path / "groups.properties"
    users.write_text("ann=secret-1")
    groups.write_text("admin=ann")
    cluster.say("/users", {"users": [], "added": "ann", "first": True})
    given = ["--jaas-users", str(users), "--jaas-groups", str(groups), "--role", "admin=ops"]
    assert run("users", "import", *given, "--yes") == 0
    assert cluster.changes == [
        (A, "POST", "/users", {"name": "ann", "roles": ["ops"], "password": "secret-1"})
    ]
    assert "secret-1" not in run.out + run.err


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--jaas-groups", "g"],
        ["nowhere.xml"],
        ["--jaas-users", "nowhere"],
        ["--properties", "nowhere", "x.xml"],
    ],
)
def test_what_cannot_be_read_changes_nothing(cluster, run, given) -> None:
    """
    Said with the name of the file.
    """
    assert run("users", "import", *given) == 2
    assert run.err.startswith("holdfast: ")
    assert not cluster.asked


def test_a_role_is_given_as_a_pair(cluster, run, xml) -> None:
    """
    Of group and role.
    """
    for wrong in ("admins", "=x", "admins="):
        assert run("users", "import", str(xml), "--role", wrong) == 2
        assert "is not GROUP=ROLE" in run.err
