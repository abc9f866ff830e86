"""
Stored topics and durable subscriptions in audit, report and replay, of a log that a node wrote.
"""

from __future__ import annotations

import io
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import app
from holdfast.client import blocking
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from holdfast.model.records import MessageRecord, PurgeRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.accounting import take_account
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.log_state import depths, log_records
from holdfast.spark.pipelines.replay import Choice, replay
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.report import make_report
from holdfast.spark.pipelines.served_depths import compared, served_depths
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.pipeline.written_log import WrittenLog, records_of

pytestmark = pytest.mark.slow

TOPIC = "/topic/prices"
SHORT = "/topic/short"
PREFIX = "topic://prices?subscription="


@dataclass(frozen=True)
class Written:
    """A node that runs on, and what its log has."""

    node: LocalNode
    directory: Path


def consume(node: LocalNode, client: str, count: int = 0, rejected: int = 0, **words: str) -> None:
    """Take up a client's subscription, reject the first messages and acknowledge the others."""
    options = {key: value == "true" if key == "no_local" else value for key, value in words.items()}
    with (
        blocking.connect(node.uri, client_id=client) as connection,
        connection.subscribe(TOPIC, durable="mine", **options) as subscription,
    ):
        for place in range(count):
            message = subscription.receive(30.0)
            assert message is not None
            if place < rejected:
                message.reject()
            else:
                message.acknowledge(confirm=True)
        connection.ping()


def waiting(node: LocalNode) -> dict[str, int]:
    """How many messages each subscription has by the node's own word."""
    found = RemoteLog((node.admin,)).subscriptions()
    return {f"{it['client_id']}": it["messages"] for it in found}


@pytest.fixture(scope="module")
def written(one_node: LocalCluster) -> Written:
    """
    Eleven messages of a topic, of which each of five subscriptions made something else: ann wants
    gold, which the even ones are; cat not its own, which the first is; dan ends. Message 6 expires
    for whoever has it yet, and each that is left may keep four. Another topic ends, with its last.
    Gil gets what is sent to two topics by a wildcard, and has it yet.
    """
    node = next(iter(one_node.nodes.values()))
    node.wait_until(lambda status: status["format_level"] >= WILD_DURABLES_LEVEL, "at the level")
    consume(node, "ann", selector="kind = 'gold'")
    for client in ("ben", "dan", "eve"):
        consume(node, client)
    consume(node, "cat", no_local="true")
    with blocking.connect(node.uri, client_id="cat") as own:
        own.send(TOPIC, "1", headers={"kind": "tin"})
    with blocking.connect(node.uri) as sender:
        for number in range(2, 12):
            headers = {"kind": "tin" if number % 2 else "gold"}
            if number == 6:
                headers["expires"] = f"{time.time() * 1000 + 500:.0f}"
            sender.send(TOPIC, f"{number}", headers=headers)
        sender.send("/queue/orders", "order")
    with (
        blocking.connect(node.uri, client_id="gil") as connection,
        connection.subscribe("/topic/wild.*", durable="all"),
    ):
        pass
    with blocking.connect(node.uri) as sender:
        for name in ("/topic/wild.one", "/topic/wild.one", "/topic/wild.two"):
            sender.send(name, "wild")
    consume(node, "ben", 3, rejected=1)
    consume(node, "cat", 2, rejected=1, no_local="true")
    with blocking.connect(node.uri, client_id="dan") as connection:
        connection.end_durable("mine")
    with (
        blocking.connect(node.uri, client_id="zoe") as connection,
        connection.subscribe(SHORT, durable="it") as subscription,
    ):
        for number in range(3):
            connection.send(SHORT, f"{number}")
        message = subscription.receive(30.0)
        assert message is not None
        message.acknowledge(confirm=True)
    with blocking.connect(node.uri, client_id="zoe") as connection:
        connection.end_durable("it")
    wild = {"gil": 3}
    is_expired = {"ann": 4, "ben": 7, "cat": 7, "eve": 10}
    _await(node, is_expired | wild)
    limit = ["queues", "set", "topic://prices", "maxLength=4", "--admin", node.admin]
    with redirect_stdout(io.StringIO()):
        app(args=limit, standalone_mode=False)
    _await(node, dict.fromkeys(is_expired, 4) | wild)
    return Written(node, node.data)


def _await(node: LocalNode, counts: dict[str, int]) -> None:
    node.wait_until(lambda _: waiting(node) == counts, f"{counts} waiting")


@dataclass(frozen=True)
class Made:
    """What was made of the log as it was written, before anything else is done to it."""

    audit: AuditResult
    report: dict[str, Any]


@pytest.fixture(scope="module")
def made(spark: SparkSession, written: Written) -> Made:
    """Of the node's own log, and what it serves; of its files."""
    audited = audit(spark, [Replica("node", RemoteLog((written.node.admin,)))])
    return Made(audited, make_report(spark, {"path": str(written.directory)}))


def test_each_message_has_one_fate_for_each_subscription(made: Made) -> None:
    """
    Nothing is found; what became of each is what was done, and the node serves what is left.
    """
    assert made.audit.findings == []
    account = made.audit.account
    assert account is not None
    told = {
        it.subscription.removeprefix(PREFIX): (
            it.messages,
            {fate: count for fate, count in it.fates.items() if count},
        )
        for it in account.subscriptions
    }
    assert told == {
        "ann:mine": (5, {"live": 4, "expired": 1}),
        "ben:mine": (
            11,
            {"live": 4, "acknowledged": 2, "expired": 1, "dropped": 3, "dead-lettered": 1},
        ),
        "cat:mine": (
            10,
            {"live": 4, "acknowledged": 1, "expired": 1, "dropped": 3, "dead-lettered": 1},
        ),
        "dan:mine": (11, {"deleted": 11}),
        "eve:mine": (11, {"live": 4, "expired": 1, "dropped": 6}),
        "topic://short?subscription=zoe:it": (3, {"acknowledged": 1, "deleted": 2}),
        "topic://wild.*?subscription=gil:all": (0, {}),
        "topic://wild.one?subscription=gil:all": (2, {"live": 2}),
        "topic://wild.two?subscription=gil:all": (1, {"live": 1}),
    }
    assert account.deliveries == sum(account.delivery_fates.values()) == 54
    fates = {fate: count for fate, count in account.fates.items() if count}
    # Of the topics: ann has the even ones but the sixth, all others the last four.
    assert fates == {
        "live": 6 + 3 + 1 + 6,
        "expired": 1,
        "dropped": 4,
        "acknowledged": 1,
        "deleted": 2,
    }
    assert [it.not_told for it in made.audit.served] == [""]


def test_what_was_taken_out_is_missed(
    spark: SparkSession, written: Written, tmp_path: Path
) -> None:
    """
    A message, with which two are done: their accounts do not add up. And what says that too many
    were kept for another one: for that the node serves less than the log has.
    """
    served = served_depths("node", RemoteLog((written.node.admin,)))
    eve = next(number for number, name in served.names.items() if name == f"{PREFIX}eve:mine")
    kept = [
        it
        for it in records_of(written.directory)
        if not (isinstance(it, MessageRecord) and (it.queue_number, it.sequence) == (1, 2))
        and not (isinstance(it, PurgeRecord) and it.queue_number == eve)
    ]
    with WrittenLog(tmp_path / "log") as log:
        log.put(*kept)
    records = log_records(spark, LogDirectory(str(tmp_path / "log")), 1, 1).cache()

    account = take_account(records, "log", is_whole=True)
    found = {(it.kind, it.queue, it.sequence, it.reason) for it in account.findings}
    ben, cat = f"{PREFIX}ben:mine", f"{PREFIX}cat:mine"
    never = "and never stored for it"
    assert found == {
        (
            *("sequence", "topic://prices", 2),
            "messages 2 to 2 of the queue were never stored, though 3 was",
        ),
        (
            "account",
            ben,
            0,
            f"the account of {ben} does not add up: 10 messages were for it, 11 have a fate",
        ),
        (
            "account",
            cat,
            0,
            f"the account of {cat} does not add up: 9 messages were for it, 10 have a fate",
        ),
        ("message", ben, 2, f"message 2 of topic://prices was acknowledged for {ben} {never}"),
        ("message", cat, 2, f"message 2 of topic://prices was dead-lettered for {cat} {never}"),
    }
    (less,) = compared(served, depths(records))
    assert (less.kind, less.queue) == ("served", f"{PREFIX}eve:mine")
    assert less.reason == f"it serves 4 messages of {PREFIX}eve:mine; 9 live in its log"
    records.unpersist()


def test_a_report_tells_of_topics_and_subscriptions(made: Made) -> None:
    """
    Each topic beside the queues, its messages once; each subscription with what was for it.
    """
    found = made.report
    names = ("stored", "acknowledged", "dead-lettered", "expired", "dropped", "purged", "backlog")
    rows = {it["destination"]: [it[name] for name in names] for it in found["destinations"]}
    assert rows["topic://prices"] == [11, 0, 0, 1, 4, 0, 6]
    assert rows["topic://short"] == [3, 1, 0, 0, 0, 2, 0]
    assert rows["ActiveMQ.DLQ"] == [6, 0, 0, 0, 0, 0, 6]
    told = {
        it["subscription"].removeprefix(PREFIX): [it[name] for name in names]
        for it in found["subscriptions"]
    }
    assert told == {
        "ann:mine": [5, 0, 0, 1, 0, 0, 4],
        "ben:mine": [11, 2, 1, 1, 3, 0, 4],
        "cat:mine": [10, 1, 1, 1, 3, 0, 4],
        "dan:mine": [11, 0, 0, 0, 0, 11, 0],
        "eve:mine": [11, 0, 0, 1, 6, 0, 4],
        "topic://short?subscription=zoe:it": [3, 1, 0, 0, 0, 2, 0],
        "topic://wild.one?subscription=gil:all": [2, 0, 0, 0, 0, 0, 2],
        "topic://wild.two?subscription=gil:all": [1, 0, 0, 0, 0, 0, 1],
    }
    assert found["totals"]["stored"] == sum(it["stored"] for it in found["destinations"])
    by_name = {it["subscription"]: it for it in found["subscriptions"]}
    ann, ben, dan = (by_name[f"{PREFIX}{it}:mine"] for it in ("ann", "ben", "dan"))
    assert (ann["topic"], ann["client_id"], ann["selector"]) == ("prices", "ann", "kind = 'gold'")
    assert (ann["ended_at"], dan["ended_at"] is None) == (None, False)
    assert ben["seconds_to_acknowledge"]["max"] >= 0
    assert (ann["oldest_waiting"] is None, dan["oldest_waiting"]) == (False, None)
    curves = found["series"]["subscriptions"]
    for each in found["subscriptions"]:
        drawn = curves[each["subscription"]]
        assert [sum(drawn[name]) for name in names[:-1]] == [each[name] for name in names[:-1]]
        assert drawn["backlog"][-1] == each["backlog"]


@pytest.mark.parametrize("target", ["/queue/again", "/topic/again"])
def test_a_topic_is_replayed_in_its_order(
    spark: SparkSession, written: Written, made: Made, target: str
) -> None:
    """
    To a queue, or a topic where somebody subscribes: each of the chosen once, also what expired.
    """
    assert made.report["totals"]["stored"]  # It is read before anything is added.
    source, uri = {"path": str(written.directory)}, written.node.uri
    choice = Choice(destinations=(TOPIC,), where="sequence > 4")
    with blocking.connect(uri, client_id="fay") as connection:
        durable = "all" if target.startswith("/topic") else None
        with connection.subscribe(target, durable=durable) as subscription:
            assert replay(spark, source, choice, target, uri).confirmed == 7
            found = [subscription.receive(30.0) for _ in range(7)]
            assert [it and it.text for it in found] == [f"{number}" for number in range(5, 12)]
            for message in found:
                assert message is not None
                message.acknowledge()
