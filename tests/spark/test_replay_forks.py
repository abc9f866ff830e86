"""
One replay run again after nodes went on apart, beside itself, and to who stores nothing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.client import blocking
from holdfast.model.records import QueueRecord
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.replay import Choice, replay
from holdfast.spark.pipelines.replay_sender import ReplayProgress
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, message


def publish(node: LocalNode, *texts: bytes) -> None:
    with blocking.connect(node.uri) as connection:
        for text in texts:
            connection.send("/queue/orders", text)


def promote(node: LocalNode) -> None:
    """Do what an operator does: `holdfast cluster promote NAME --force --yes`."""
    from typer.testing import CliRunner

    from holdfast.cli.main import app

    command = ["cluster", "promote", node.name, "--force", "--yes", "--admin", node.admin]
    node.wait_until(lambda status: status["leader"] is None, "without a leader")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    node.wait_until(lambda status: status["serving"], "serving")


def bodies(uri: str, queue: str, count: int) -> Counter[bytes]:
    """Take all there is: `count` messages, and whatever is there besides."""
    found: Counter[bytes] = Counter()
    with blocking.connect(uri) as connection, connection.subscribe(queue) as subscription:
        while (taken := subscription.receive(20 if found.total() < count else 1)) is not None:
            found[taken.body] += 1
            taken.acknowledge(confirm=True)
    return found


def test_a_forced_promotion_between_two_runs_loses_and_doubles_nothing(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """
    Each of a pair goes on without the other; the same replay reads the one, then the other. What
    both have is stored once, and so is what only one of them was sent.
    """
    target = "/queue/replay.promoted"

    def replayed(node: LocalNode, senders: int) -> int:
        source = {"url": f"http://{node.admin}", "secret_file": str(pair.secret_path)}
        return replay(spark, source, Choice(), target, one_node.uri, senders=senders).confirmed

    with LocalCluster(tmp_path, "pair") as pair:
        pair.start()
        first = pair.leader()
        second = next(node for node in pair.nodes.values() if node is not first)
        publish(first, b"before 1", b"before 2")
        pair.wait_level()
        assert replayed(first, 1) == 2
        second.kill()
        promote(first)
        publish(first, b"first 1", b"first 2", b"first 3")
        assert replayed(first, 1) == 5
        first.kill()
        second.start()
        promote(second)
        publish(second, b"second 1", b"second 2")
        assert [replayed(second, senders) for senders in (1, 2)] == [4, 4]

    expected = {b"before": 2, b"first": 3, b"second": 2}
    texts = [b"%b %d" % (who, n) for who, most in expected.items() for n in range(1, most + 1)]
    assert bodies(one_node.uri, target, 7) == Counter(texts)


def test_two_copies_of_a_single_node_share_no_numbers(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """A disk that was copied, or set back to an older state of itself: both began the same term."""
    target = "/queue/replay.copied"
    with LocalCluster(tmp_path, "single") as single:
        node = single.start()
        publish(node, b"before 1", b"before 2")
        node.stop()
        kept = tmp_path / "kept"
        shutil.copytree(node.data, kept)
        for who in (b"first", b"second"):
            shutil.rmtree(node.data)
            shutil.copytree(kept, node.data)
            node.start()
            single.leader()
            publish(node, who + b" 1", who + b" 2")
            node.stop()
            source = {"path": str(node.data)}
            for senders in (1, 2):
                done = replay(spark, source, Choice(), target, one_node.uri, senders=senders)
                assert done.confirmed == 4
    texts = [b"%b %d" % (who, n) for who in (b"before", b"first", b"second") for n in (1, 2)]
    assert bodies(one_node.uri, target, 6) == Counter(texts)


def test_two_that_send_the_same_at_once_store_it_once(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """As Spark does where it speculates, and an operator who starts a command twice."""
    with WrittenLog(tmp_path) as written:
        for queue in (1, 2):
            written.put(QueueRecord(queue, f"q{queue}"))
        for start in range(1, 1501, 100):
            written.put(
                *(
                    message(queue, n, b"%d-%d" % (queue, n))
                    for queue in (1, 2)
                    for n in range(start, start + 100)
                )
            )
    target = "/queue/replay.at.once"

    def run(senders: int) -> ReplayProgress:
        source = {"path": str(tmp_path)}
        return replay(spark, source, Choice(), target, one_node.uri, senders=senders)

    with ThreadPoolExecutor(3) as pool:
        assert [done.confirmed for done in pool.map(run, (1, 1, 2))] == [3000] * 3
    expected = Counter(b"%d-%d" % (queue, n) for queue in (1, 2) for n in range(1, 1501))
    assert bodies(one_node.uri, target, 3000) == expected


def test_a_gap_that_comes_behind_what_was_sent_doubles_nothing(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """As where an archive fell behind the cleaner, and went on with --accept-gap."""
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
        for n in range(1, 30):
            written.put(message(1, n, b"%d" % n))
    archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "archive", per_range=5)
    later = sorted((tmp_path / "archive" / "_holdfast").glob("*.json"))[3:]
    for manifest in later:
        manifest.rename(tmp_path / manifest.name)
    source, target = {"path": str(tmp_path / "archive")}, "/queue/replay.gap"
    assert replay(spark, source, Choice(), target, one_node.uri).confirmed == 14
    for manifest in later[1:]:  # entries 16 to 20 are never archived
        (tmp_path / manifest.name).rename(manifest)
    for senders in (1, 2):
        done = replay(spark, source, Choice(), target, one_node.uri, senders=senders)
        assert done.confirmed == 24
    expected = Counter(b"%d" % n for n in range(1, 30) if not 15 <= n < 20)
    assert bodies(one_node.uri, target, 24) == expected


def bodies_while(
    subscription: blocking.BlockingSubscription, sending: Future[ReplayProgress], count: int
) -> list[bytes]:
    """What comes until there are so many, or until no more does after the sending has ended."""
    found: list[bytes] = []
    while len(found) < count:
        is_over = sending.done()
        if (taken := subscription.receive(5)) is not None:
            found.append(taken.body)
        elif is_over:
            break
    return found


def test_a_topic_that_is_read_gets_everything_each_time(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """In the order of the log, also if more than a window is sent; nobody is asked to remember."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "orders"))
        written.put(*(message(1, n, b"%d" % n) for n in range(1, 1501)))
    expected = [b"%d" % n for n in range(1, 1501)]
    with (
        blocking.connect(one_node.uri) as connection,
        connection.subscribe("/topic/replay.live", acknowledge="auto") as subscription,
    ):
        for _ in range(2):
            source = {"path": str(tmp_path)}
            with ThreadPoolExecutor(1) as pool:
                sending = pool.submit(
                    replay, spark, source, Choice(), "/topic/replay.live", one_node.uri
                )
                found = bodies_while(subscription, sending, 1500)
                assert (1500, expected) == (sending.result().confirmed, found)
        assert subscription.receive(0.5) is None
