"""
A queue of the newest, with real processes, as the leader dies in the middle of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.format_level import LIMITS_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import StompSocket, connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/ring"
DEAD = "/queue/ActiveMQ.DLQ"
LIMIT = 100
BURST = 2_000


def set_policy(cluster: LocalCluster) -> None:
    node = cluster.leader()
    values = [f"maxLength={LIMIT}", "overflow=drop-head", "deadLetterOverflow=true"]
    command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://ring", *values]
    options = ["--admin", node.admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, *options], check=True, capture_output=True)


def depth(cluster: LocalCluster) -> int:
    """How many messages the log says are on the queue."""
    command = [sys.executable, "-m", "holdfast", "queues", "--json"]
    admin = ["--admin", cluster.leader().admin]
    ended = subprocess.run([*command, *admin], capture_output=True, check=True)
    return next(it["messages"] for it in json.loads(ended.stdout)["queues"] if it["name"] == "ring")


def send(client: StompSocket, first: int) -> None:
    for number in range(first, first + BURST):
        client.send("SEND", {"destination": QUEUE, "persistent": "true"}, b"%d" % number)


def read(cluster: LocalCluster, place: str, count: int) -> list[int]:
    with connected(cluster) as client:
        client.subscribe(place)
        found = []
        for _ in range(count):
            message = client.read_message()
            found.append(int(message.body))
            client.send("ACK", {"id": message.headers["ack"]})
    return found


def test_the_leader_dies_while_the_oldest_go(start_cluster: Any) -> None:
    """
    Q59 over a kill -9: what was stored is the newest hundred and, in its order, dead letters before
    them; each is on one of both queues, and there is never more than may be.
    """
    cluster = start_cluster("three", is_patient=True)
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= LIMITS_LEVEL, "at the level")
    set_policy(cluster)
    with connected(cluster) as sender:
        send(sender, 0)
        assert sender.publish(QUEUE, b"%d" % BURST).command == "RECEIPT"
        send(sender, BURST + 1)  # Some of these are stored, up to a certain one.
        killed = cluster.leader()
        killed.kill()
    cluster.leader()
    assert depth(cluster) == LIMIT
    with connected(cluster) as sender:
        assert sender.publish(QUEUE, b"%d" % (2 * BURST + 1)).command == "RECEIPT"
    assert depth(cluster) == LIMIT
    kept = read(cluster, QUEUE, LIMIT)
    stored = kept[-2] + 1
    assert stored > BURST
    assert kept == [*range(stored - LIMIT + 1, stored), 2 * BURST + 1]
    dead = read(cluster, DEAD, stored - LIMIT + 1)
    assert dead == list(range(stored - LIMIT + 1))


def test_a_log_with_as_much_as_it_may_have_takes_more_once_it_is_acknowledged(
    start_cluster: Any, tmp_path: Path
) -> None:
    """
    Publishing is refused with a sentence that says so; acknowledging goes on, and makes room.
    """
    settings = tmp_path / "node.toml"
    settings.write_text('[journal]\nlog_bytes_max = "2MiB"\n')
    cluster = start_cluster("single", "--config", str(settings))
    body = b"x" * 30_000
    with connected(cluster) as client:
        answers = [client.publish("/queue/all", body) for _ in range(200)]
        refused = [each for each in answers if each.command == "ERROR"]
        stored = len(answers) - len(refused)
        assert 60 < stored < 100
        assert {each.headers["code"] for each in refused} == {"store-full"}
        assert "at most 2,097,152 (log_bytes_max)" in refused[0].headers["message"]
        status = cluster.leader().status()["store"]
        assert (status["space"], status["limit_bytes"]) == ("low", 2 * 1024 * 1024)
        client.subscribe("/queue/all")
        for _ in range(stored):
            assert client.acknowledge(client.read_message()).command == "RECEIPT"
        while client.publish("/queue/all", body).command == "ERROR":
            continue  # Until the cleaner was there.
        assert client.read_message().body == body
