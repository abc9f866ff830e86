"""
`holdfast grant`, `revoke` and `access`.
"""

from __future__ import annotations

import json

GRANT = {"role": "sales", "rights": ["read", "write"], "pattern": "queue://A.>"}


def test_rights_are_granted_and_taken_back(cluster, run) -> None:
    """
    With what the role has of the pattern then.
    """
    cluster.say("/grants", GRANT)
    assert run("grant", "sales", "write", "queue://A.>") == 0
    assert run.out == "role sales may read,write queue://A.>\n"
    cluster.say("/grants/revoke", {**GRANT, "rights": []})
    assert run("revoke", "sales", "read,write", "queue://A.>") == 0
    assert run.out == "role sales has nothing of queue://A.> any more\n"
    assert run("revoke", "sales", "read", "queue://A.>", "--json") == 0
    assert json.loads(run.out)["rights"] == []
    assert [(it[2], it[3]["rights"]) for it in cluster.changes] == [
        ("/grants", "write"),
        ("/grants/revoke", "read,write"),
        ("/grants/revoke", "read"),
    ]


def test_all_grants_are_listed(cluster, run) -> None:
    """
    By `access` and by `access list`.
    """
    cluster.say("/grants", {"node": "a", "grants": [GRANT]})
    for arguments in (["access"], ["access", "list"]):
        assert run(*arguments) == 0
        assert run.out.splitlines()[2].split() == ["sales", "read,write", "queue://A.>"]
        assert run(*arguments, "--json") == 0
        assert json.loads(run.out)["grants"] == [GRANT]


def test_it_is_said_which_grant_decides(cluster, run) -> None:
    """
    For each right; who asks for a user and no destination is told what is missing.
    """
    rights = [
        {"right": "read", "is_allowed": True, "grants": [GRANT, {**GRANT, "role": "b"}]},
        {"right": "write", "is_allowed": False, "grants": []},
    ]
    answer = {"user": "a/n", "destination": "queue://A.>", "rights": rights}
    cluster.say("/access?user=a%2Fn&destination=queue%3A%2F%2FA.%3E", answer)
    assert run("access", "a/n", "queue://A.>") == 0
    lines = run.out.splitlines()
    assert "sales: read,write queue://A.>; b: read,write queue://A.>" in lines[2]
    assert lines[3].split() == ["write", "no", "-"]
    assert run("access", "a/n", "queue://A.>", "--json") == 0
    assert json.loads(run.out) == answer
    assert run("access", "ann") == 2
    assert "which destination" in run.err
