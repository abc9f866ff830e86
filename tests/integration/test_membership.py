"""
Members come, go, lose their disks and change their kind while messages flow.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.admin.remote import RemoteNode
from holdfast.errors import MembershipError
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.integration.test_failover import assert_logs_are_alike
from trials.clients.load import Load, LoadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def change(node: LocalNode, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask for a change as a program would: again, while what it needs is on its way."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return RemoteNode(node.admin).change("POST", path, body)
        except MembershipError as error:
            is_on_its_way = any(it in str(error) for it in ("try again", "has caught up"))
            if not is_on_its_way or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def member(status: dict[str, Any], name: str) -> dict[str, Any] | None:
    """What a status says of one member."""
    return next((each for each in status["members"] if each["name"] == name), None)


def newcomer(cluster: LocalCluster, name: str, kind: str = "voter") -> LocalNode:
    """Make a node that is told of the cluster; it is neither started nor admitted."""
    node = LocalNode(name, cluster.directory, cluster.arguments)
    listed = [f"{each.name}=127.0.0.1:{each.peer_port}" for each in cluster.nodes.values()]
    listed.append(f"{name}=127.0.0.1:{node.peer_port}" + (f",{kind}" if kind != "voter" else ""))
    node.arguments += ["--peers", f"127.0.0.1:{node.peer_port}"]
    node.arguments += ["--secret-file", str(cluster.secret_path)]
    for each in listed:
        node.arguments += ["--member", each]
    cluster.nodes[name] = node
    return node


@pytest.mark.promise("F24")
def test_a_node_that_lost_its_disk_comes_back_under_a_new_identity(start_cluster):
    """
    A wiped node with the same name is never trusted under its old identity: it is taken in as a
    learner, catches up under load, and is a voter again with the same bytes as the others.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    lost = next(node for node in cluster.nodes.values() if node is not leader)
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(2000)
        before = lost.status()
        lost.kill()
        shutil.rmtree(lost.data)
        load.wait_confirmed(500)
        lost.start()
        leader.wait_until(
            lambda status: is_level_voter(status, lost.name, but=before["node_id"]),
            "joined by the wiped node",
        )
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert_logs_are_alike([leader, lost])


def is_level_voter(status: dict[str, Any], name: str, but: str) -> bool:
    found = member(status, name)
    return (
        found is not None
        and found["kind"] == "voter"
        and found["node_id"] not in ("", but)
        and found["connected"]
        and (found["lag_entries"] or 0) < 50
    )


@pytest.mark.promise("F26")
def test_a_member_is_added_and_removed_under_load(start_cluster):
    """
    `cluster add` admits a fourth node, which catches up and votes; `cluster remove` lets a follower
    go; no confirmed message is lost meanwhile.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    gone = next(node for node in cluster.nodes.values() if node is not leader)
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(500)
        added = newcomer(cluster, "d")
        added.start()
        address = f"127.0.0.1:{added.peer_port}"
        change(leader, "/cluster/add", {"name": "d", "address": address})
        leader.wait_until(lambda status: is_level_voter(status, "d", but="-"), "joined by d")
        change(leader, "/cluster/remove", {"name": gone.name})
        removed = leader.wait_until(
            lambda status: member(status, gone.name) is None, "left by the removed member"
        )
        gone.kill()
        del cluster.nodes[gone.name]
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert len(removed["members"]) == 3
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert_logs_are_alike([leader, added])


def test_a_learner_follows_and_can_be_promoted(start_cluster, tmp_path: Path):
    """
    A learner holds the same log and counts in no quorum: its death is not noticed. Once promoted it
    is a voter, and the cluster lives on with it when another dies.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(500)
        learner = newcomer(cluster, "far", "learner")
        learner.start()
        address = f"127.0.0.1:{learner.peer_port}"
        change(leader, "/cluster/add", {"name": "far", "address": address, "kind": "learner"})
        learner.wait_until(lambda status: status["role"] == "learner", "a learner")
        cluster.wait_level()
        seen = leader.status()
        learner.kill()
        load.wait_confirmed(500)
        learner.start()
        learner.wait_until(lambda status: status["role"] == "learner", "a learner again")
        change(leader, "/cluster/promote", {"name": "far"})
        leader.wait_until(lambda status: is_level_voter(status, "far", but="-"), "joined by far")
        account = load.finish()
    cluster.wait_level()

    assert seen is not None
    assert member(seen, "far")["kind"] == "learner"
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert learner.status()["role"] == "follower"


def test_a_stranger_without_the_secret_is_refused(start_cluster):
    """
    A node that does not know the cluster's secret gets no link, and the reason is logged.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    stranger = newcomer(cluster, "x")
    wrong = cluster.directory / "wrong"
    wrong.write_text("0" * 64)
    wrong.chmod(0o600)
    stranger.arguments[stranger.arguments.index("--secret-file") + 1] = str(wrong)
    stranger.start()
    stranger.wait_until(lambda status: status["role"] == "candidate", "up")
    leader.wait_until(
        lambda _: "secret" in leader.log_path.read_text(), "telling of a wrong secret"
    )

    assert member(leader.status(), "x") is None
    assert stranger.status()["leader"] is None
