"""
`holdfast messages` on clusters of real processes: what is moved is on one queue, whoever dies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from holdfast.model.format_level import MOVES_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials import removed_schedules
from trials.clients.stomp_socket import StompSocket
from trials.long_work import depth
from trials.retried_dead_letters import DEAD, bury, retry

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COUNT = 12_000
"""Of which the first half goes back in several steps."""


def command(cluster: LocalCluster, node: LocalNode, *arguments: str) -> list[str]:
    options = ["--admin", node.admin, "--secret-file", str(cluster.secret_path)]
    return [sys.executable, "-m", "holdfast", "messages", *arguments, *options]


def holdfast(cluster: LocalCluster, node: LocalNode, *arguments: str) -> None:
    """Run a command of `holdfast messages`."""
    ended = subprocess.run(
        command(cluster, node, *arguments, "--json"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["unreadable"] == 0


def bodies(cluster: LocalCluster, node: LocalNode, queue: str) -> Counter[str]:
    """What stands on a queue, by its bodies."""
    ended = subprocess.run(
        command(cluster, node, "browse", queue, "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(json.loads(line)["body_base64"] for line in ended.stdout.splitlines())


def test_a_retry_outlives_leaders_and_itself(start_cluster) -> None:
    """
    kill -9 of two leaders while dead letters go back: the command waits for the next one, and ends.
    Killed itself and run again it finds what is left. Every message is there, and once.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= MOVES_LEVEL, "at the level of moves")
    bury(leader, COUNT)
    assert depth(leader, DEAD) == COUNT

    outcome = retry(cluster, COUNT, 2, lambda _: None)

    assert outcome.work.was_amid, outcome
    assert outcome.is_good, outcome


def test_a_removal_of_schedules_outlives_leaders_and_itself(tmp_path) -> None:
    """
    kill -9 of a leader while what is due tomorrow is taken back: that is gone, all of it, what is
    due next week is there, and what was due meanwhile came once.
    """
    outcome = removed_schedules.run(tmp_path, COUNT, 1, lambda _: None)

    assert outcome.work.was_amid, outcome
    assert outcome.is_good, outcome


def test_all_nodes_apply_the_same_moves(start_cluster) -> None:
    """
    There and back, copied and removed: whoever leads next shows the same, with the way it came.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= MOVES_LEVEL, "at the level of moves")
    with StompSocket(leader.stomp_port) as client:
        client.connect()
        for number in range(40):
            said = {"n": str(number)}
            answer = client.publish("/queue/a", b"body %d" % number, headers=said)
            assert answer.command == "RECEIPT"
    # No counts: where an answer is late, the step is asked for again, and finds it done.
    holdfast(cluster, leader, "move", "a", "b", "--selector", "n < 30")
    holdfast(cluster, leader, "move", "b", "c", "--selector", "n < 10")
    holdfast(cluster, leader, "copy", "c", "d", "--filter", "n <> 3")
    holdfast(cluster, leader, "remove", "b", "--selector", "n < 25", "--yes")
    before = {queue: bodies(cluster, leader, queue) for queue in "abcd"}
    assert [it.total() for it in before.values()] == [10, 5, 10, 9]
    leader.kill()
    after = cluster.leader(but=leader)
    assert {queue: bodies(cluster, after, queue) for queue in "abcd"} == before
    with StompSocket(after.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/d")
        copied = client.read_message()
        assert copied.body == b"body 0"
        assert copied.headers["original-destination"] == "/queue/c"
        assert client.acknowledge(copied).command == "RECEIPT"
    assert depth(after, "d") == 8
