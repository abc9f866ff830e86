"""
A machine comes back with an older copy of its disk: it is told, ends, and never votes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode, LocalNodeError
from trials.clients.load import Load, LoadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LONGER_THAN_AN_ELECTION = 3.0


def put_back(copy: Path, node: LocalNode) -> None:
    """The copy takes the place of what the dead node's disk holds."""
    shutil.rmtree(node.data)
    shutil.copytree(copy, node.data)


def copy_of(node: LocalNode, folder: Path) -> Path:
    """A copy of the data directory of a node that does not run."""
    return Path(shutil.copytree(node.data, folder / f"copy-of-{node.name}"))


@pytest.mark.promise("F23")
def test_an_older_copy_of_a_disk_never_votes(start_cluster, tmp_path):
    """
    While the leader is dead the copy could elect the third node with what both of them lack. It
    is told, ends with code 1 and says what to do; nobody leads until the old leader is back.
    Emptied it is taken in as a new identity, and nothing confirmed is lost.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    rolled_back, third = (node for node in cluster.nodes.values() if node is not leader)
    with Load(cluster.stomp_addresses.split(","), LoadSettings()) as load:
        load.wait_confirmed(500)
        assert rolled_back.stop() == 0
        copy = copy_of(rolled_back, tmp_path)
        rolled_back.start()
        load.wait_confirmed(1500)
        cluster.wait_level()
        load.wait_confirmed(1000)
        leader.kill()
        rolled_back.kill()
        put_back(copy, rolled_back)
        rolled_back.start()

        assert rolled_back.wait() == 1
        told = rolled_back.log_tail()
        assert "an older copy of itself" in told
        assert "start with an empty one" in told
        with pytest.raises(LocalNodeError):
            cluster.leader(LONGER_THAN_AN_ELECTION)
        assert third.is_running

        leader.start()
        load.wait_confirmed(500)
        shutil.rmtree(rolled_back.data)
        rolled_back.start()
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert (account.lost, account.corrupt, account.foreign, account.unflagged) == (0, 0, 0, 0)
    cluster.leader().wait_until(
        lambda status: all(each["kind"] == "voter" for each in status["members"]), "whole again"
    )


@pytest.mark.promise("F23")
def test_an_older_ballot_alone_is_noticed_at_the_start(start_cluster, tmp_path):
    """
    One file is put back, the log is not: the node finds the contradiction itself and ends.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    follower.kill()
    ballot = tmp_path / "ballot"
    shutil.copy(follower.data / "ballot", ballot)
    follower.start()
    cluster.wait_level()
    leader.kill()
    with Load(cluster.stomp_addresses.split(","), LoadSettings()) as load:
        load.wait_confirmed(300)
        cluster.wait_level()
        follower.kill()
        shutil.copy(ballot, follower.data / "ballot")
        leader.start()
        follower.start()

        assert follower.wait() == 1
        assert "an older copy of itself" in follower.log_tail()
        account = load.finish()

    assert (account.lost, account.corrupt) == (0, 0)


@pytest.mark.promise("F23")
def test_copies_of_all_disks_of_one_moment_start(start_cluster, tmp_path):
    """
    All machines put back together to copies made while nothing was written: nobody knows better
    than the others' disks, so the cluster starts with what was confirmed by then.
    """
    cluster = start_cluster("three")
    with Load(cluster.stomp_addresses.split(","), LoadSettings()) as load:
        load.wait_confirmed(300)
        load.finish()
    nodes = list(cluster.nodes.values())
    for node in nodes:
        assert node.stop() == 0
    copies = [copy_of(node, tmp_path) for node in nodes]
    cluster.start()
    with Load(cluster.stomp_addresses.split(","), LoadSettings()) as load:
        load.wait_confirmed(300)
        load.finish()
    for node, copy in zip(nodes, copies, strict=True):
        node.kill()
        put_back(copy, node)

    assert cluster.start()
    cluster.wait_level()
