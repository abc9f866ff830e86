"""
Stored topics, as Spark's joins see them: the same as the broker.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client import blocking
from holdfast.model.format_level import DURABLE_LEVEL, WILD_DURABLES_LEVEL
from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.accounting import all_deliveries, fates, settled_unseen
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.log_state import live, log_records
from holdfast.spark.pipelines.queried_archive import QueriedArchive
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.pipelines.restored_log import NewMember
from holdfast.spark.pipelines.topic_accounting import account_of_topics
from holdfast.spark.pipelines.topic_rows import topics_and_subscriptions
from holdfast.testing.local_cluster import LocalNode
from tests.unit.broker.lasting.topic_log import TopicLog, step
from tests.unit.spark.pipelines.test_restored_topics import needed, restored
from trials.pipeline.written_log import WrittenLog

pytestmark = pytest.mark.slow

TOPIC = "/topic/prices"
WILD = "/topic/prices.>"
GOLD = "kind = 'gold'"


def walked(seed: int, *, with_cleaner: bool) -> TopicLog:
    """A log of random steps."""
    chance = random.Random(seed)
    log = TopicLog()
    if not with_cleaner:
        log.clean = lambda _count: None  # type: ignore[method-assign]
    while len(log.entries) < 40:
        step(log, chance)
    return log


def test_what_lives_on_topics_is_what_somebody_needs(spark: SparkSession, tmp_path: Path) -> None:
    """
    Each message once; all others have a fate, and nothing was settled that was never stored.
    """
    log = walked(3, with_cleaner=False)
    with WrittenLog(tmp_path / "log") as written:
        for _, records in log.entries:
            written.put(*records)
    source = LogDirectory(str(tmp_path / "log"))
    records = log_records(spark, source, 1, source.position().last_index).cache()
    found = {(row["queue_number"], row["sequence"]) for row in live(records).collect()}
    own = [it for it in log.state.queues.values() if it not in log.state.subscriptions.values()]
    wanted = {(it.number, each) for it in own for each in it.index.sequences(1, 1 << 60)}
    assert found == wanted
    assert wanted
    known = topics_and_subscriptions(records)
    delivered = all_deliveries(records, known).cache()
    counts = Counter(row["fate"] for row in fates(records, known, delivered).collect())
    assert counts["live"] == len(wanted)
    assert counts.total() > len(wanted)
    assert settled_unseen(records, "log", known.names()) == []
    accounts, found_wrong = account_of_topics(delivered, known, "log", is_whole=True)
    assert found_wrong == []
    assert len(accounts) == len(known.all_takers())
    waiting = {number: len(it.sequences) for number, it in log.needs.items() if it.sequences}
    names = known.names()
    told = {it.subscription: it.fates["live"] for it in accounts if it.fates["live"]}
    assert told == {names[number]: count for number, count in waiting.items()}
    delivered.unpersist()
    records.unpersist()


def test_a_large_archive_gives_each_subscription_what_it_needed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """
    Restored from what Spark queried, of a log that the cleaner has gone over.
    """

    def queried(archive: Archive, catalogue: Catalogue) -> QueriedArchive:
        source = ArchivedSource(archive, catalogue)
        return QueriedArchive(spark, source, list(catalogue.files()), catalogue.last_index)

    log = walked(4, with_cleaner=True)
    state = restored(log, tmp_path, queried)
    assert needed(state) == needed(log.state)


def test_a_subscription_goes_on_from_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    """
    A node starts on what was restored and gives each what it had not acknowledged, once, and what
    is sent from then on.
    """
    old = LocalNode("old", tmp_path)
    old.start()
    try:
        wait_served(old, DURABLE_LEVEL)
        assert received(old, "ann", 0, selector=GOLD) == received(old, "ben", 0) == []
        with blocking.connect(old.uri) as sender:
            for number in range(6):
                kind = "gold" if number % 2 else "tin"
                sender.send(TOPIC, f"{number}", headers={"kind": kind})
        assert received(old, "ben", 4) == ["0", "1", "2", "3"]
        assert old.stop() == 0
    finally:
        old.kill()
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(tmp_path / "old")), archive)
    restore(spark, archive, tmp_path / "new", RestoreSettings(member=NewMember(name="new")))
    new = LocalNode("new", tmp_path)
    new.start()
    try:
        new.wait_until(lambda status: status["serving"], "serving")
        with blocking.connect(new.uri) as sender:
            sender.send(TOPIC, "6", headers={"kind": "gold"})
        assert received(new, "ann", 4, selector=GOLD) == ["1", "3", "5", "6"]
        assert received(new, "ben", 3) == ["4", "5", "6"]
        new.wait_until(lambda status: status["store"]["live_messages"] == 0, "nothing left")
    finally:
        new.kill()


def test_one_of_a_wildcard_goes_on_from_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    """
    What is restored has it, with what it needs of each topic, and it gets what comes later of all.
    """
    old = LocalNode("old", tmp_path)
    old.start()
    try:
        wait_served(old, WILD_DURABLES_LEVEL)
        assert received(old, "ann", 0, topic=WILD) == []
        with blocking.connect(old.uri) as sender:
            for number in range(6):
                sender.send(f"{TOPIC}.{number % 3}", f"{number}")
        assert len(received(old, "ann", 2, topic=WILD)) == 2
        assert old.stop() == 0
    finally:
        old.kill()
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(tmp_path / "old")), archive)
    restore(spark, archive, tmp_path / "new", RestoreSettings(member=NewMember(name="new")))
    new = LocalNode("new", tmp_path)
    new.start()
    try:
        new.wait_until(lambda status: status["serving"], "serving")
        with blocking.connect(new.uri) as sender:
            sender.send(f"{TOPIC}.0", "6")
            sender.send(f"{TOPIC}.new", "7")
        (told,) = new.get("/subscriptions")["subscriptions"]
        assert (told["topic"], told["messages"]) == ("prices.>", 6)
        found = received(new, "ann", 6, topic=WILD)
        assert {"6", "7"} < set(found) and len(set(found)) == 6
        new.wait_until(lambda status: status["store"]["live_messages"] == 0, "nothing left")
    finally:
        new.kill()


def wait_served(node: LocalNode, level: int) -> None:
    """The first clients of a new log are let in once it has reached its level."""
    node.wait_until(
        lambda status: status["serving"] and status["format_level"] >= level, "served at the level"
    )


def received(
    node: LocalNode, client: str, count: int, selector: str | None = None, topic: str = TOPIC
) -> list[str]:
    """Take up a client's subscription and acknowledge so many."""
    with (
        blocking.connect(node.uri, client_id=client) as connection,
        connection.subscribe(topic, durable="mine", selector=selector) as subscription,
    ):
        found = [subscription.receive(30.0) for _ in range(count)]
        for message in found:
            assert message is not None
            message.acknowledge(confirm=True)
        return [message.text for message in found if message is not None]
