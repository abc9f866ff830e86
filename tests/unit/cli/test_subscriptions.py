"""
`holdfast subscriptions`.
"""

from __future__ import annotations

import json

ANN = {
    "client_id": "ann",
    "name": "mine",
    "topic": "prices",
    "messages": 4,
    "bytes": 2048,
    "unacknowledged": 0,
    "is_active": False,
    "detached_at_ms": 1_700_000_000_000,
}
BEN = {**ANN, "client_id": "ben", "owner": "root", "is_active": True, "unacknowledged": 2}
CAS = {**ANN, "client_id": "cas", "detached_at_ms": 0}


def test_a_table_tells_since_when_nobody_consumes(cluster, run) -> None:
    """
    All pages of it.
    """
    cluster.say("/subscriptions", {"node": "a", "subscriptions": [ANN], "next": "k[1]"})
    rest = {"node": "a", "subscriptions": [BEN, CAS], "next": None}
    cluster.say("/subscriptions?after=k%5B1%5D", rest)
    assert run("subscriptions") == 0
    told = [line.split() for line in run.out.splitlines()[2:]]
    assert told[0][:5] == ["ann", "mine", "-", "prices", "4"]
    assert told[1][2] == "root"
    assert "2023-11-14" in told[0]
    assert (told[1][-3:], told[2][-2:]) == (["has", "a", "consumer"], ["not", "known"])
    assert run("subscriptions", "--json") == 0
    assert json.loads(run.out)["subscriptions"] == [ANN, BEN, CAS]


def test_one_is_ended(cluster, run) -> None:
    """
    With a word of what went with it.
    """
    cluster.say("/subscriptions/end", {"messages": 4})
    assert run("subscriptions", "end", "ann", "mine", "--yes") == 0
    assert "mine of ann has ended, with 4 messages" in run.out
    asked = [each for each in cluster.asked if each[1] == "POST"]
    assert [each[3] for each in asked] == [{"client_id": "ann", "name": "mine"}]


def test_one_is_given_to_a_user(cluster, run) -> None:
    """
    By both its names; an operator says whose it is.
    """
    cluster.say("/subscriptions/give", {"client_id": "ID:h-1", "name": "mine", "user": "ann"})
    assert run("subscriptions", "give", "ID:h-1", "mine", "ann") == 0
    assert "mine of ID:h-1 is user ann's" in run.out
    (asked,) = [each for each in cluster.asked if each[1] == "POST"]
    assert asked[3] == {"client_id": "ID:h-1", "name": "mine", "user": "ann"}


def test_it_is_said_that_the_leader_was_not_asked(cluster, run) -> None:
    """
    What a node knows by itself may be behind; programs find the same in the answer.
    """
    own = {"node": "b", "own_view": "the leader refused to answer: a proof is needed"}
    cluster.say("/subscriptions", {**own, "subscriptions": [ANN], "next": None})
    assert run("subscriptions") == 0
    assert "note: this is what b knows by itself" in run.err
    assert "a proof is needed" in run.err
    cluster.say("/queues", {**own, "queues": [], "next": None})
    cluster.say("/users", {**own, "users": []})
    cluster.say("/grants", {**own, "grants": []})
    cluster.say("/policies", {**own, "policies": [], "revision": 0})
    for command in (["queues", "--json"], ["users"], ["access"], ["queues", "show"]):
        assert run(*command) == 0, command
        assert "note: this is what b knows by itself" in run.err
