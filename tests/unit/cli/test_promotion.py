"""
`holdfast cluster promote NAME... --force` for several nodes; for one see test_cluster.py.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from holdfast.admin.status import MemberStatus, NodeStatus, StoreStatus
from holdfast.replication.promotion import LogEnd

A, L, M = "127.0.0.1:8161", "127.0.0.1:8164", "127.0.0.1:8165"
MEMBERS = (
    MemberStatus(name="a", admin=A),
    MemberStatus(name="l", kind="learner", admin=L),
    MemberStatus(name="m", kind="learner", admin=M),
)


def end(name: str, index: int) -> LogEnd:
    return LogEnd(name=name, node_id=name * 32, index=index, term=3, record=index, timestamp=index)


def learner(name: str, index: int) -> NodeStatus:
    return NodeStatus(
        name=name,
        role="learner",
        cluster_id="c",
        term=3,
        members=MEMBERS,
        store=StoreStatus(last_index=index),
        log_end=end(name, index),
    )


@pytest.fixture
def far(cluster):
    """The main site is lost; `l` and `m` are left, and `m` is further."""
    del cluster.answers[A, "/status"]
    cluster.set_status(L, learner("l", 10))
    cluster.set_status(M, learner("m", 12))
    return cluster


def voters(cluster) -> None:
    """Let `m` tell that both are voters."""
    members = tuple(replace(it, kind="voter" if it.name != "a" else "fenced") for it in MEMBERS)
    after = replace(learner("m", 12), role="leader", leader="m", members=members)
    cluster.set_status(M, after)


def test_the_furthest_is_asked_and_the_others_are_its_companions(far, run, monkeypatch) -> None:
    """
    Whichever admin port is given, and in whatever order they are named.
    """
    far.say("/cluster/promote", {}, address=M)
    monkeypatch.setattr("time.sleep", lambda _: voters(far))
    assert run("cluster", "promote", "l", "m", "--force", "--yes", "--admin", L) == 0
    body = {
        "name": "m",
        "force": True,
        "peers_are_dead": True,
        "incomplete": False,
        "companions": [asdict(end("l", 10))],
    }
    assert far.changes == [(M, "POST", "/cluster/promote", body)]
    assert "l is behind m by 2 messages" in run.err
    assert "If m and l go on together, these are shut out for good" in run.err
    assert run.out == "m leads a new generation of the cluster\nl is a voter now\n"


def test_who_is_no_voter_in_time_is_told(far, run, monkeypatch) -> None:
    """
    It becomes one later; nobody is kept waiting for ever.
    """
    monkeypatch.setattr("holdfast.cli.promotion.FOLLOW_SECONDS_MAX", 0.0)
    far.say("/cluster/promote", {}, address=M)
    assert run("cluster", "promote", "l", "m", "--force", "--yes", "--admin", L) == 0
    assert "l is no voter yet" in run.err


def test_one_that_is_not_named_and_answers_stops_it(far, run) -> None:
    """
    Anybody who is shut out has to be emptied, so nobody is by mistake.
    """
    assert run("cluster", "promote", "m", "--force", "--yes", "--admin", M) == 1
    assert "l answers at 127.0.0.1:8164 as learner of term 3" in run.err
    assert "or name it as one that goes on" in run.err
    assert far.changes == []


def test_one_that_is_named_and_does_not_answer_stops_it(far, run) -> None:
    """
    How far its log goes is not known.
    """
    del far.answers[M, "/status"]
    assert run("cluster", "promote", "l", "m", "--force", "--yes", "--admin", L) == 1
    assert "no answer from the admin port 127.0.0.1:8165" in run.err
    assert far.changes == []


def test_one_that_nobody_knows_is_named_with_its_port(far, run) -> None:
    """
    The operator is told what to give.
    """
    assert run("cluster", "promote", "l", "x", "--force", "--yes", "--admin", L) == 1
    assert "l does not know where x is" in run.err


def test_without_the_word_nothing_is_done(far, run, monkeypatch) -> None:
    """
    Those that go on are not among those said to be dead.
    """
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: bool(asked.append(text)))
    assert run("cluster", "promote", "l", "m", "--force", "--admin", L) == 1
    assert asked == ["Are a dead, for good?"]
    assert far.changes == []


def test_learners_are_promoted_one_after_the_other_without_force(cluster, run) -> None:
    """
    The leader makes one change at a time.
    """
    cluster.say("/cluster/promote", {})
    assert run("cluster", "promote", "b", "c") == 0
    assert [change[3] for change in cluster.changes] == [{"name": "b"}, {"name": "c"}]
    assert run.out == "b is a voter now\nc is a voter now\n"
