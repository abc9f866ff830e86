"""
The main site is lost; the learners of the far site go on as one cluster.
"""

from __future__ import annotations

import time

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.integration.test_pair import wait_fenced
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MAIN, FAR = "abc", "lmn"


def run(*arguments: str) -> tuple[int, str]:
    """Do what an operator does; the exit code, and all that was said."""
    from typer.testing import CliRunner

    from holdfast.cli.main import app

    result = CliRunner().invoke(app, list(arguments))
    said = f"{result.output}\n{result.stderr}\n{result.exception or ''}"
    return result.exit_code, said


def promote(cluster: LocalCluster, *names: str, at: str) -> tuple[int, str]:
    node = cluster.nodes[at]
    return run("cluster", "promote", *names, "--force", "--yes", "--admin", node.admin)


def publish(node: LocalNode, count: int, prefix: str) -> None:
    """Have so many messages confirmed."""
    with StompSocket(node.stomp_port) as client:
        client.connect()
        for number in range(count):
            answer = client.publish("/queue/account", f"{prefix}-{number}".encode())
            assert answer.command == "RECEIPT"


def drain(node: LocalNode, count: int) -> list[str]:
    """Consume so many messages, each acknowledged, and give their bodies."""
    bodies: list[str] = []
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/account")
        while len(bodies) < count:
            message = client.read_message()
            bodies.append(message.body.decode())
            assert client.acknowledge(message).command == "RECEIPT"
    return bodies


def level_with(cluster: LocalCluster, index: int, names: str) -> None:
    for name in names:
        cluster.nodes[name].wait_until(
            lambda status: status["applied_index"] >= index, f"level with {index}"
        )


@pytest.mark.promise("F37")
def test_three_learners_become_one_cluster_by_one_act(start_cluster):
    """
    One of them lags. The furthest decides, nobody is emptied, any one of them may die afterwards,
    and whoever returns from the main site is shut out. What was confirmed while they followed is
    there, once.
    """
    cluster = start_cluster("far")
    leader = cluster.leader()
    publish(leader, 50, "both")
    level_with(cluster, leader.status()["commit_index"], FAR)
    cluster.nodes["n"].kill()
    publish(leader, 50, "two")
    level_with(cluster, leader.status()["commit_index"], "lm")
    identities = {name: cluster.nodes[name].status()["node_id"] for name in "lm"}
    for name in MAIN:
        cluster.nodes[name].kill()
    cluster.nodes["n"].start()
    cluster.nodes["n"].wait_until(
        lambda status: len([it for it in status["members"] if it["connected"]]) >= 3, "linked"
    )
    for name in FAR:
        cluster.nodes[name].wait_until(lambda status: status["leader"] is None, "without a leader")

    code, said = promote(cluster, *FAR, at="n")

    assert code == 0, said
    assert "n is behind" in said
    assert "by 50 messages" in said
    assert "shut out for good" in said
    assert said.count("is a voter now") == 2
    present = cluster.leader()
    assert present.name in "lm"
    assert identities == {name: cluster.nodes[name].status()["node_id"] for name in "lm"}

    publish(present, 50, "far")
    present.kill()
    successor = cluster.leader()
    found = drain(successor, 150)
    expected = [f"{prefix}-{number}" for prefix in ("both", "two", "far") for number in range(50)]
    assert found == expected

    cluster.nodes["a"].start()
    assert wait_fenced(cluster.nodes["a"])
    assert cluster.leader().name in FAR


def test_learners_go_on_together_under_load_and_the_safe_checks_hold(start_cluster):
    """
    While anybody of the main site answers nothing is done; nor is a learner left out by mistake.
    After the promotion no producer is told that something is stored which is lost.
    """
    cluster = start_cluster("far")
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(1000)
        code, said = promote(cluster, *FAR, at="l")
        assert code != 0
        assert "leads; use force only when there is no leader" in said
        load.wait_confirmed(200)
    index = cluster.wait_level()
    level_with(cluster, index, FAR)
    for name in "ab":
        cluster.nodes[name].kill()
    for name in FAR:
        cluster.nodes[name].wait_until(lambda status: status["leader"] is None, "without a leader")

    code, said = promote(cluster, *FAR, at="l")
    assert code != 0
    assert "c answers" in said
    assert "it is not dead; stop it first" in said
    cluster.nodes["c"].kill()
    deadline = time.monotonic() + 20
    while "n answers" not in said and time.monotonic() < deadline:
        code, said = promote(cluster, *FAR[:2], at="l")
        assert code != 0
    assert "or name it as one that goes on" in said
    assert {0} == {cluster.nodes[name].status()["generation"] for name in FAR}

    code, said = promote(cluster, *FAR, at="m")
    assert code == 0, said
    present = cluster.leader()
    publish(present, 20, "after")
    cluster.wait_level()
    assert {1} == {cluster.nodes[name].status()["generation"] for name in FAR}
