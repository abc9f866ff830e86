"""
Policies in a cluster of real processes: set on any node, obeyed by every leader from then on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from holdfast.admin.remote import RemoteNode
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SENT = 6


def holdfast(cluster: LocalCluster, node: LocalNode, *arguments: str) -> tuple[int, str]:
    """Run a command of `holdfast queues` at a node; its exit code and what it wrote."""
    options = ["--admin", node.admin]
    if len(cluster.nodes) > 1:  # One alone has no secret.
        options += ["--secret-file", str(cluster.secret_path)]
    command = [sys.executable, "-m", "holdfast", "queues", *arguments, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def asked(node: LocalNode, *arguments: str) -> dict[str, Any]:
    """What a node of this machine answers to a question, in JSON."""
    command = [sys.executable, "-m", "holdfast", "queues", *arguments, "--json"]
    ended = subprocess.run([*command, "--admin", node.admin], capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def held(node: LocalNode, queue: str) -> dict[str, tuple[Any, str]]:
    """What the leader says that holds for a queue, and whose word it is."""
    return {it["key"]: (it["value"], it["source"]) for it in asked(node, "show", queue)["keys"]}


def wait_adopted(node: LocalNode, queue: str, prefetch: int) -> None:
    """Wait until the log has what the file says, which comes after the level is reached."""
    wanted = (prefetch, "file")
    node.wait_until(lambda _: held(node, queue)["queuePrefetch"] == wanted, "adopting its file")


def taken_at_once(node: LocalNode, queue: str) -> int:
    """How many messages a consumer that says nothing gets before it acknowledges one."""
    with StompSocket(node.stomp_port) as client:
        client.connect()
        for number in range(SENT):
            assert client.publish(f"/queue/{queue}", b"%d" % number).command == "RECEIPT"
        client.subscribe(f"/queue/{queue}")
        found = list(client.read_all(0.5))
        for message in found:
            assert client.acknowledge(message).command == "RECEIPT"
    return len(found)


def reject_one(node: LocalNode, queue: str) -> None:
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.publish(f"/queue/{queue}", b"bad")
        client.subscribe(f"/queue/{queue}")
        assert client.ask("NACK", {"id": client.read_message().headers["ack"]}).command == "RECEIPT"


def depth(node: LocalNode, queue: str) -> int:
    return {it["name"]: it["messages"] for it in asked(node)["queues"]}.get(queue, 0)


def test_what_is_set_on_any_node_holds_under_every_leader(start_cluster) -> None:
    """
    Confirmed, it survives the leader's kill -9 and a restart of all, and is shown with its source.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= 3, "at the level of policies")
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    code, told = holdfast(
        cluster, follower, "set", "queue://eu.>", "queuePrefetch=2", "deadLetterStrategy=individual"
    )
    assert (code, "queuePrefetch = 2" in told) == (0, True), told
    code, told = holdfast(cluster, follower, "set", "eu.>", "queuePrefech=3")
    assert (code, "did you mean queuePrefetch?" in told) == (1, True), told
    assert taken_at_once(leader, "eu.a") == 2
    assert taken_at_once(leader, "us") == SENT
    leader.kill()
    second = cluster.leader(but=leader)
    assert taken_at_once(second, "eu.b") == 2
    reject_one(second, "eu.c")
    assert depth(second, "ActiveMQ.DLQ.Queue.eu.c") == 1
    assert held(second, "eu.b")["queuePrefetch"] == (2, "set")
    for node in cluster.nodes.values():
        node.kill()
    cluster.start()
    third = cluster.leader()
    assert taken_at_once(third, "eu.d") == 2
    code, told = holdfast(cluster, third, "unset", "queue://eu.>", "queuePrefetch")
    assert (code, taken_at_once(third, "eu.e")) == (0, SENT), told


def test_an_older_file_changes_nothing_after_a_failover(start_cluster, tmp_path) -> None:
    """
    The file of the highest revision counts, whoever leads; a newer one counts when its node leads.
    """
    file = tmp_path / "node.toml"

    def say(revision: int, prefetch: int) -> None:
        table = f'[policies."queue://eu.>"]\nqueuePrefetch = {prefetch}\nuseCache = true\n'
        file.write_text(f"[policies]\nrevision = {revision}\n{table}")

    say(2, 2)
    cluster = start_cluster("three", "--config", str(file))
    first = cluster.leader()
    wait_adopted(first, "eu.a", 2)
    assert taken_at_once(first, "eu.a") == 2
    assert "useCache: nothing is done" in first.log_path.read_text()
    say(1, 3)
    others = [node for node in cluster.nodes.values() if node is not first]
    for node in others:
        assert node.stop() == 0
        node.start()
        node.wait_until(lambda status: status["leader"] is not None, "back")
    cluster.wait_level()
    first.kill()
    second = cluster.leader(but=first)
    assert second in others
    assert taken_at_once(second, "eu.b") == 2
    assert "older than those in the log" in second.log_path.read_text()
    say(3, 4)
    first.start()
    first.wait_until(lambda status: status["leader"] is not None, "back")
    cluster.wait_level()
    RemoteNode(second.admin, secret=cluster.secret).change(
        "POST", "/cluster/transfer", {"to": first.name}
    )
    assert cluster.leader(but=second) is first
    wait_adopted(first, "eu.c", 4)
    assert taken_at_once(first, "eu.c") == 4


def test_a_file_with_a_mistake_starts_no_node(start_cluster, tmp_path) -> None:
    """
    It is refused whole, with the line; what the log says holds on.
    """
    file = tmp_path / "node.toml"
    file.write_text('[policies]\nrevision = 1\n[policies."queue://a"]\nqueuePrefetch = 2\n')
    cluster = start_cluster("single", "--config", str(file))
    node = cluster.leader()
    wait_adopted(node, "a", 2)
    assert taken_at_once(node, "a") == 2
    good = file.read_text()
    file.write_text(good.replace("revision = 1", "revision = 2") + "queuePrefixx = 'x'\n")
    assert node.stop() == 0
    node.start()
    assert node.wait() == 2
    assert "queuePrefixx: unknown key; did you mean queuePrefix? (node.toml" in node.log_tail()
    file.write_text(good)
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    assert taken_at_once(node, "a") == 2


def test_below_the_level_policies_wait(start_cluster, tmp_path) -> None:
    """
    A member that knows no policies could not read the log: to set one is refused and says so.
    """
    file = tmp_path / "node.toml"
    file.write_text('[policies]\nrevision = 1\n[policies."queue://a"]\nqueuePrefetch = 2\n')
    cluster = start_cluster(
        "single", "--config", str(file), environment={"HOLDFAST_FORMAT_LEVEL_MAX": "2"}
    )
    node = cluster.leader()
    node.wait_until(lambda status: status["format_level"] == 2, "at the level before")
    code, told = holdfast(cluster, node, "set", "queue://a", "queuePrefetch=3")
    assert code == 1
    assert "need level 3 of the log's format, and this log is at level 2" in told
    assert taken_at_once(node, "a") == SENT
    assert node.stop() == 0
    node.environment = {}
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    wait_adopted(node, "a", 2)
    assert taken_at_once(node, "a") == 2
