"""
Nodes that were started wrongly: with each other's directories, with lists that differ, with another
secret. Each mistake is named where it can be mended, and mending it is enough.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.integration.conftest import QUICK

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def swap_directories(one: LocalNode, other: LocalNode) -> None:
    aside = one.directory / "aside"
    one.data.rename(aside)
    other.data.rename(one.data)
    aside.rename(other.data)


def told(node: LocalNode, text: str) -> list[str]:
    """The lines of a node's log with this text."""
    return [line for line in node.log_path.read_text().splitlines() if text in line]


def test_swapped_directories_are_refused_at_start(start_cluster) -> None:
    """
    Each of the two ends at once, with one sentence that names both; with the directories put back
    the cluster goes on.
    """
    cluster = start_cluster("pair")
    one, other = cluster.nodes.values()
    for node in (one, other):
        node.kill()
    swap_directories(one, other)
    for node in (one, other):
        node.start()

    for node, owner in ((one, other), (other, one)):
        assert node.wait() == 1
        (line,) = told(node, "is the data directory of")
        whose = f"{node.data} is the data directory of {owner.name} at {owner.peers} (identity"
        assert line.startswith(f"holdfast: {whose}")
        assert f"and this node is {node.name}: start {owner.name} with it" in line
    swap_directories(one, other)
    for node in (one, other):
        node.start()
    cluster.leader()


def wait_told(node: LocalNode, text: str) -> str:
    """Wait until the node has told this; it has told it once."""
    deadline = time.monotonic() + 60
    while not (lines := told(node, text)) and time.monotonic() < deadline and node.is_running:
        time.sleep(0.05)
    (line,) = lines
    return line


def start_again(node: LocalNode, *arguments: str) -> None:
    node.kill()
    node.arguments = list(arguments)
    node.start()


def test_a_wrong_secret_and_a_wrong_list_form_no_cluster(tmp_path: Path) -> None:
    """
    Both are named where they are, the list on both sides, and the cluster forms when they are
    right. Each node is told of its own site only, which is no difference.
    """
    with LocalCluster(tmp_path, "three", QUICK) as cluster:
        a, b, c = cluster.nodes.values()
        for node in (a, b, c):
            node.arguments += ["--site", f"site-{node.name}"]
        right = list(c.arguments)
        other = tmp_path / "other"
        other.write_text(secrets.token_hex(32))
        c.arguments = [str(other) if it == str(cluster.secret_path) else it for it in right]
        for node in (a, b, c):
            node.start()
        wait_told(c, "c has the wrong cluster secret: a and b, all that answer, have another one")
        for one, two in ((a, b), (b, a)):
            wait_told(one, f"c has another cluster secret than {one.name} and {two.name}: look at")

        mistaken = [f"{it},witness" if it.startswith("b=") else it for it in right]
        start_again(c, *mistaken)
        slip = "the kind of b is voter on {0} and witness on c. No cluster is formed"
        for one in (a, b):
            wait_told(one, slip.format(one.name))
            wait_told(c, slip.format(one.name))
        for node in (a, b, c):
            assert not told(node, "formed cluster")
            assert node.status()["cluster_id"] == ""

        start_again(c, *right)
        status = cluster.leader().status()
        assert [it["site"] for it in status["members"]] == ["site-a", "site-b", "site-c"]


def refusal(node: LocalNode) -> str:
    """Why the node is not ready."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        node.get("/ready")
    return str(json.loads(caught.value.read())["reason"])


def dead_in(status: dict[str, Any]) -> list[str]:
    return [it["name"] for it in status["members"] if it["dead"]]


def test_a_node_says_whom_it_waits_for_and_a_leader_who_died(tmp_path: Path) -> None:
    """
    Before there is a cluster in the log, the status and /ready; afterwards a death, a return and
    the loss of the majority are told once each, and the dead are shown as dead.
    """
    with LocalCluster(tmp_path, "three", QUICK) as cluster:
        a, b, c = cluster.nodes.values()
        a.start()
        status = a.wait_until(
            lambda it: all("refused" in each["reason"] for each in it["awaits"]), "refused by all"
        )
        assert [it["name"] for it in status["awaits"]] == ["b", "c"]
        waits = f"it waits for b at {b.peers} (connection refused) and c at {c.peers} (connection"
        assert waits in refusal(a)
        assert f"b at {b.peers} (" in wait_told(a, "waiting to form the cluster")
        b.start()
        c.start()
        leader = cluster.leader()
        one, other = (node for node in (a, b, c) if node is not leader)
        for node in (one, other):
            node.wait_until(lambda it: it["leader"] is not None, "told of a leader")

        one.kill()
        status = leader.wait_until(lambda it: dead_in(it) == [one.name], "bereaved of that one")
        (dead,) = (it for it in status["members"] if it["dead"])
        assert dead["last_seen_seconds"] is not None
        wait_told(leader, "a member is dead")
        one.start()
        wait_told(leader, "a member is back")
        for node in (one, other):
            node.kill()
        leader.wait_until(lambda it: it["leader"] is None, "without a majority")
        wait_told(leader, "leads no more: no majority has answered")
        wait_told(leader, "the majority is lost")
        assert "is connected to 1 of 3 voters, itself included, and 2 are needed" in refusal(leader)
        assert len(told(leader, "a member is dead")) == 3
