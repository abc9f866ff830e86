"""
Two levels of the log's format: a cluster is upgraded node by node under load, and taken back.

A node that is held back at level 1 by its environment writes and reads what the version before
facts did, and tells the others no more. Where the real one is at hand the same was done with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from holdfast.config.format_level import VARIABLE
from holdfast.model.format_level import NEWEST_LEVEL, OWNERS_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

OLD = {VARIABLE: "1"}
TOPIC = "/topic/prices"
PASSWORD = "correct-horse-battery"
BEYOND = (
    f"has reached level {NEWEST_LEVEL} of the log's format, and this node knows no level above 1"
)


def restart(node: LocalNode, environment: dict[str, str]) -> None:
    """Stop a node as an operator does and start it as another version; wait until it is back."""
    assert node.stop() == 0
    node.environment = environment
    node.start()
    node.wait_until(lambda status: status["leader"] is not None, "back")


def level_of(node: LocalNode) -> int:
    status = node.status()
    assert status is not None
    level: int = status["format_level"]
    return level


def wait_raised(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] == NEWEST_LEVEL, "at the newest")


@contextmanager
def connected(node: LocalNode) -> Iterator[StompSocket]:
    with StompSocket(node.stomp_port) as client:
        client.connect()
        yield client


def reject_one(node: LocalNode) -> None:
    """Send a message and reject it."""
    with connected(node) as client:
        client.publish("/queue/before", b"bad", {"own": "x"})
        client.subscribe("/queue/before")
        assert client.ask("NACK", {"id": client.read_message().headers["ack"]}).command == "RECEIPT"


VARYING = {"message-id", "ack", "timestamp", "original-message-id"}
VARYING |= {"redelivered", "JMSXDeliveryCount"}
"""Headers in which one dead letter differs from the next."""


def dead_letters(node: LocalNode) -> list[dict[str, str]]:
    """The other headers of the two that there are."""
    with connected(node) as client:
        client.subscribe("/queue/ActiveMQ.DLQ")
        found = [client.read_message().headers for _ in range(2)]
    return [{key: it[key] for key in it if key not in VARYING} for it in found]


def ends_with_one_sentence(node: LocalNode) -> bool:
    """Whether a node ended by itself, with a non-zero code, and said why."""
    code = node.wait()
    tail = node.log_tail(12)
    return code != 0 and BEYOND in tail and "Traceback" not in tail


@pytest.mark.promise("F38")
def test_a_cluster_is_upgraded_under_load_and_taken_back_before_the_level_is_raised(
    start_cluster,
) -> None:
    """
    Nothing confirmed is lost, nothing stored twice, and the logs are the same bytes. While one
    member is old nothing new is written, and any other may be old again; then there is no way back.
    """
    cluster = start_cluster("three", is_patient=True, environment=OLD)
    first, second, third = cluster.nodes.values()
    settings = LoadSettings(deduplicated=True, settle_receipts=True, producers=2, consumers=2)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_confirmed(500)
        reject_one(cluster.leader())
        for node in (first, second):
            restart(node, {})
            load.wait_confirmed(300)
        restart(first, OLD)
        load.wait_confirmed(300)
        restart(first, {})
        load.wait_confirmed(300)
        cluster.wait_level()
        assert [level_of(node) for node in cluster.nodes.values()] == [1, 1, 1]
        restart(third, {})
        wait_raised(cluster)
        reject_one(cluster.leader())
        load.wait_confirmed(300)
        old = next(node for node in cluster.nodes.values() if node is not cluster.leader())
        assert old.stop() == 0
        old.environment = OLD
        old.start()
        assert ends_with_one_sentence(old)
        load.wait_confirmed(300)
        old.environment = {}
        old.start()
        account = load.finish()
    cluster.wait_level()

    assert (account.lost, account.corrupt, account.foreign, account.unflagged) == (0, 0, 0, 0)
    assert (account.stored_twice, account.resurrected, account.reordered) == (0, 0, 0)
    assert account.errors == ()
    stored_old, stored_new = dead_letters(cluster.leader())
    assert stored_old == stored_new
    assert stored_new["original-destination"] == "/queue/before"


@pytest.mark.promise("F38")
def test_an_old_node_refuses_a_log_that_has_reached_a_newer_level(start_cluster) -> None:
    """
    Alone, with a checkpoint and without: it ends with a sentence and changes nothing.
    """
    cluster = start_cluster("single")
    node = cluster.leader()
    wait_raised(cluster)
    with connected(node) as client:
        client.publish("/queue/q", b"kept")
    assert node.stop() == 0
    files = list((node.data / "checkpoints").glob("*.checkpoint"))
    assert files
    node.environment = OLD
    for _ in range(2):
        node.start()
        assert ends_with_one_sentence(node)
        for file in files:
            file.unlink(missing_ok=True)
    node.environment = {}
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    with connected(node) as client:
        client.subscribe("/queue/q")
        assert client.read_message().body == b"kept"


@pytest.mark.promise("F38")
def test_an_old_witness_ends_as_well(start_cluster) -> None:
    """
    It reads no records, so it would not notice by itself what it cannot read; the others tell it.
    """
    cluster = start_cluster("witness")
    for node in list(cluster.nodes.values())[:2]:
        node.wait_until(lambda status: status["format_level"] == NEWEST_LEVEL, "at the newest")
    witness = cluster.nodes["c"]
    assert witness.stop() == 0
    witness.environment = OLD
    witness.start()
    assert ends_with_one_sentence(witness)
    witness.environment = {}
    witness.start()
    witness.wait_until(lambda status: status["leader"] is not None, "back")


def ask(node: LocalNode, method: str, path: str, **said: Any) -> tuple[int, dict[str, Any]]:
    """What the node's own user is answered."""
    connection = HTTPConnection(node.admin, timeout=30)
    try:
        headers = {**node.proof(), "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(said) if said else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def subscribed_as_ann(node: LocalNode) -> list[tuple[str, str]]:
    """Subscribe durably as a user, be given what waits, and go away; gives what she was told."""
    with StompSocket(node.stomp_port) as client:
        client.connect(login="ann", passcode=PASSWORD, client_id="till")
        named = {"destination": TOPIC, "id": "d", "ack": "client", "activemq.subscriptionName": "s"}
        answer = client.ask("SUBSCRIBE", named)
        told = [(answer.command, answer.headers.get("message", ""))]
        client.send("SEND", {"destination": TOPIC, "persistent": "true"}, b"kept")
        if answer.command == "RECEIPT":
            message = client.read_message()
            told.append((message.command, message.body.decode()))
            client.publish(TOPIC, b"waits")
        return told


def owners(cluster: LocalCluster) -> list[str]:
    """Whose durable subscriptions are, by the log."""
    _, found = ask(cluster.leader(), "GET", "/subscriptions?limit=10")
    return [it["owner"] for it in found["subscriptions"]]


@pytest.mark.promise("F38")
def test_whose_a_durable_subscription_is_is_said_once_every_member_can_read_it(
    start_cluster,
) -> None:
    """
    Made at the level before, it says nobody's name while one member is old, and an operator who
    would give it away is told why not. Then it is hers who subscribes to it, with all that it kept,
    and whoever has her name after her gets nothing of it.
    """
    before = {VARIABLE: str(OWNERS_LEVEL - 1)}
    cluster = start_cluster("pair", environment=before)
    first, second = cluster.nodes.values()
    ann = {"name": "ann", "roles": ["till"], "password": PASSWORD}
    grant = {"role": "till", "rights": "read,write", "pattern": "topic://prices"}
    leader = cluster.leader()
    leader.wait_until(lambda it: it["format_level"] == OWNERS_LEVEL - 1, "at the level of users")
    assert ask(leader, "POST", "/grants", **grant)[0] == 200
    assert ask(leader, "POST", "/users", **ann)[0] == 200
    assert subscribed_as_ann(leader) == [("RECEIPT", ""), ("MESSAGE", "kept")]
    restart(first, {})
    assert owners(cluster) == [""]
    give = {"client_id": "ann:till", "name": "s", "user": "ann"}
    status, refused = ask(cluster.leader(), "POST", "/subscriptions/give", **give)
    assert (status, "level 14" in json.dumps(refused)) == (409, True), refused

    restart(second, {})
    wait_raised(cluster)
    assert subscribed_as_ann(cluster.leader()) == [("RECEIPT", ""), ("MESSAGE", "kept")]
    assert owners(cluster) == ["ann"]
    assert ask(cluster.leader(), "POST", "/users/remove", name="ann", last=True)[0] == 200
    assert ask(cluster.leader(), "POST", "/users", **ann)[0] == 200
    [(word, why)] = subscribed_as_ann(cluster.leader())
    assert (word, "was left by an earlier user 'ann'" in why) == ("ERROR", True), why
    assert ask(cluster.leader(), "POST", "/subscriptions/give", **give)[0] == 200
    assert subscribed_as_ann(cluster.leader())[0] == ("RECEIPT", "")


def test_a_new_cluster_begins_at_the_newest_level(start_cluster) -> None:
    """
    All its members know it: what it brings is there from the first message on.
    """
    cluster = start_cluster("three")
    wait_raised(cluster)
    held_back = start_cluster("single", environment=OLD)
    node = held_back.leader()
    with connected(node) as client:
        client.publish("/queue/q", b"x")
    assert level_of(node) == 1
