"""
Replaying to a real cluster: what was chosen arrives in order, and never twice.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.cli.main import app
from holdfast.client import blocking
from holdfast.errors import ConfigError, LimitReachedError, StoreError
from holdfast.journal.entry import KIND_CONFIG
from holdfast.model.producer_ids import ROOM_ID
from holdfast.model.records import QueueRecord
from holdfast.replication.membership import Member, Membership, encode_membership
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines import replay as pipeline
from holdfast.spark.pipelines import replay_spread
from holdfast.spark.pipelines.replay import Choice, count_chosen, replay
from holdfast.spark.pipelines.replay_sender import ReplayProgress
from holdfast.testing.local_cluster import LocalCluster
from holdfast.testing.running import running_broker
from trials.pipeline.written_log import WrittenLog, message

HEADERS = b"content-type:text/plain\ncontent-length:3\npersistent:true\nshop:K\xc3\xb6ln\\c1\n"


def write(written: WrittenLog, first: int, last: int) -> None:
    for start in range(first, last + 1, 10):
        records = []
        for sequence in range(start, min(start + 10, last + 1)):
            records.append(message(1, sequence, b"o%d" % sequence, HEADERS, "p"))
            records.append(message(2, sequence, b"m%d" % sequence))
        written.put(*records)


def run(arguments: list[str]) -> None:
    """Run a command that is to succeed."""
    app(args=arguments, standalone_mode=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two queues, a hundred messages in each."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "orders"), QueueRecord(2, "mail"))
        write(written, 1, 100)
    return tmp_path


def bodies(cluster: LocalCluster, queue: str, count: int) -> list[bytes]:
    """Take all there is: `count` messages, and not one more."""
    found = []
    with blocking.connect(cluster.uri) as connection:
        with connection.subscribe(queue) as subscription:
            while (taken := subscription.receive(5 if len(found) < count else 0.5)) is not None:
                found.append(taken.body)
                taken.acknowledge(confirm=True)
    return found


def test_a_second_run_stores_only_what_is_new(
    spark: SparkSession, one_node: LocalCluster, log: Path
) -> None:
    """The same choice again, after the source has grown: the old ones keep their numbers."""
    choice = Choice(destinations=("orders",), where="sequence % 2 = 0")
    source = {"path": str(log)}
    target = "/queue/replay.twice"
    assert replay(spark, source, choice, target, one_node.uri).confirmed == 50
    with WrittenLog(log) as written:
        write(written, 101, 110)
    assert replay(spark, source, choice, target, one_node.uri).confirmed == 55
    expected = [b"o%d" % n for n in range(2, 111, 2)]
    assert bodies(one_node, target, 55) == expected


@pytest.mark.parametrize("senders", [1, 2])
def test_copies_that_both_went_on_and_bare_ones_lose_nothing(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path, senders: int
) -> None:
    """
    Two that led on copies of one log gave the same sequences to others: all of them are stored.
    """
    target = f"/queue/replay.forks.{senders}"
    for name, term in (("a", 2), ("b", 3)):
        with WrittenLog(tmp_path / name) as written:
            written.put(QueueRecord(1, "orders"), *(message(1, n, b"%d" % n) for n in range(1, 16)))
            written.term = term
            written.put(*(message(1, n, b"%b%d" % (name.encode(), n)) for n in range(16, 31)))
        source = {"path": str(tmp_path / name)}
        for _ in range(2):
            done = replay(spark, source, Choice(), target, one_node.uri, senders=senders)
            assert done.confirmed == 30
    expected = {b"%d" % n for n in range(1, 16)}
    expected |= {b"%b%d" % (name, n) for n in range(16, 31) for name in (b"a", b"b")}
    found = bodies(one_node, target, 45)
    assert (expected, 45) == (set(found), len(found))
    for path in (tmp_path / "b").glob("ballot*"):
        path.unlink()
    with pytest.raises(StoreError, match="does not tell which cluster"):
        replay(spark, source, Choice(), target, one_node.uri, senders=senders)


def test_more_producers_than_the_target_remembers_are_refused(
    spark: SparkSession, one_node: LocalCluster, log: Path
) -> None:
    """Those that are forgotten would be stored twice by the next run; nothing is sent."""
    source, target = {"path": str(log)}, "/queue/replay.bounded"
    with pytest.raises(LimitReachedError, match=r"2 producers would number.*--producers-max 2"):
        replay(spark, source, Choice(), target, one_node.uri, producers_max=1)
    choice = Choice(where="sequence = 1")
    assert replay(spark, source, choice, target, one_node.uri, producers_max=2).confirmed == 2


def test_of_the_log_only_what_is_needed_is_read(
    spark: SparkSession, cluster: LocalCluster, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What counts needs no bodies, and what is sent only the headers as they are: each column that is
    read is cut out of the log, passed to Java and made part of a row there.
    """
    read: list[set[str]] = []
    load = pipeline.load_stretches

    def noted(spark: SparkSession, options: dict[str, str], source: LogSource) -> DataFrame:
        read.append(set(options["columns"].split(", ")))
        return load(spark, options, source)

    monkeypatch.setattr(pipeline, "load_stretches", noted)
    source, target = {"path": str(log)}, "/queue/replay.narrow"
    choice = Choice(destinations=("orders",), where="priority = 4 and body_size > 1")
    chosen = {"destination", "priority", "body_size", "producer_id", "rewritten"}

    assert {"orders": 100} == count_chosen(spark, source, choice, target)
    assert [chosen | {"queue_number", "sequence"}] == read
    read.clear()
    for senders in (1, 2):
        done = replay(spark, source, choice, target, cluster.uri, senders=senders)
        assert 100 == done.confirmed
    numbered = {"queue_number", "sequence", "term"}
    sent = {"index", "ordinal", "stored_at", "header_block", "body"}
    assert [chosen | numbered, chosen | numbered | sent] * 2 == read


def test_while_many_send_it_is_said_how_far_they_are(
    spark: SparkSession, cluster: LocalCluster, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a task has sent Spark hears when it is done: until then a person saw nothing move."""
    monkeypatch.setattr(replay_spread, "TELL_SECONDS", 0.05)
    told: list[ReplayProgress] = []
    where, target = Choice(where="sequence <= 50"), "/queue/replay.told"
    done = replay(
        spark,
        {"path": str(log)},
        where,
        target,
        cluster.uri,
        senders=3,
        rate=60,
        told=lambda it: told.append(replace(it)),
    )
    assert 100 == done.confirmed
    assert any(it.step.endswith(" of 3 senders done") for it in told)
    assert (100, "") == (told[-1].confirmed, told[-1].step)


def test_what_may_not_be_committed_is_sent_only_when_asked_for(
    spark: SparkSession, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a member's files only what a checkpoint covers is certain; the rest may be replaced."""
    voters = tuple(Member(f"n{n}", f"host:{n}") for n in range(3))
    body = encode_membership(Membership(voters, cluster_id="ab" * 16))
    with WrittenLog(log) as written:
        written.put(kind=KIND_CONFIG, body=body)
    counts = [
        count_chosen(spark, {"path": str(log)}, Choice(), "/queue/x", has_uncertain_end=each)
        for each in (False, True)
    ]
    assert [{}, {"mail": 100, "orders": 100}] == counts
    assert "they are left out" in caplog.text


def test_many_senders_and_one_store_nothing_twice(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """
    Whoever sends a block gives its messages the same numbers; within each, order is kept.
    """
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "orders"), QueueRecord(2, "mail"))
        write(written, 9_951, 10_050)
    source, target = {"path": str(tmp_path)}, "/queue/replay.many"
    heard: list[int] = []
    done = replay(
        spark,
        source,
        Choice(where="sequence < 10041"),
        target,
        one_node.uri,
        senders=3,
        told=lambda progress: heard.append(progress.confirmed),
    )
    assert done.by_destination == {"orders": 90, "mail": 90}
    assert (done.confirmed, heard[-1]) == (180, 180)
    for senders in (1, 2):
        with WrittenLog(tmp_path) as written:
            write(written, 10_041 + 10 * senders, 10_050 + 10 * senders)
        again = replay(
            spark, source, Choice(where="sequence < 10041"), target, one_node.uri, senders=senders
        )
        assert again.confirmed == 180
    found = bodies(one_node, target, 180)
    for kind in (b"o", b"m"):
        for block in (range(9_951, 10_000), range(10_000, 10_041)):
            expected = [b"%b%d" % (kind, n) for n in block]
            assert [body for body in found if body in set(expected)] == expected
    assert len(set(found)) == 180


def test_what_a_replay_has_stored_is_never_its_own_choice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Into a queue of the source's cluster that the choice covers: the same again, and no more."""
    with running_broker(directory=tmp_path) as broker:
        with blocking.connect(broker.uri) as connection:
            for number in range(20):
                connection.send("/queue/orders", b"%d" % number)
        source = {"url": f"http://{broker.admin}"}
        sent = [
            replay(spark, source, Choice(), "/queue/orders", broker.uri, senders=senders).confirmed
            for senders in (1, 1, 2)
        ]
        counted = count_chosen(spark, source, Choice(), "/queue/orders")
        (orders,) = broker.get("/queues")["queues"]

    assert ([20, 20, 20], {"orders": 20}, 40) == (sent, counted, orders["messages"])


def test_what_a_user_has_replayed_is_known_as_well(spark: SparkSession) -> None:
    """Ids begin with their user in the log; another's of another replay are chosen."""
    ids = ["replay-JOB-1", f"{ROOM_ID}ann:7:replay-JOB-1", f"{ROOM_ID}ann:7:shop", "shop", None]
    columns = "producer_id: string, rewritten: boolean"
    rows = spark.createDataFrame([(each, False) for each in ids], columns)
    chosen = pipeline.choose(rows, Choice(), "JOB")

    assert [f"{ROOM_ID}ann:7:shop", "shop", None] == [row.producer_id for row in chosen.collect()]


@pytest.mark.parametrize(("target", "senders"), [("/topic/replay.many", 2), ("/queue/x", 0)])
def test_senders_that_cannot_be_are_refused(
    spark: SparkSession, one_node: LocalCluster, log: Path, target: str, senders: int
) -> None:
    """Numbers do not count on a topic, so a task that runs twice would send twice."""
    with pytest.raises(ConfigError, match="senders: "):
        replay(spark, {"path": str(log)}, Choice(), target, one_node.uri, senders=senders)


def test_messages_keep_their_order_and_headers(
    spark: SparkSession, one_node: LocalCluster, log: Path
) -> None:
    """Both queues into one, in the order of the log; the application's headers are as sent."""
    target = "/queue/replay.order"
    choice = Choice(end_time="2023-11-14T22:13:22Z")
    done = replay(spark, {"path": str(log)}, choice, target, one_node.uri)
    assert done.by_destination == {"orders": 10, "mail": 10}
    with blocking.connect(one_node.uri) as connection:
        with connection.subscribe(target) as subscription:
            taken = [subscription.receive(5) for _ in range(20)]
            expected = [b"%b%d" % (kind, n) for n in range(1, 11) for kind in (b"o", b"m")]
            assert [it.body for it in taken if it is not None] == expected
            assert taken[0] is not None
            assert taken[0].headers["shop"] == "Köln:1"
            assert taken[0].headers["content-type"] == "text/plain"
            for it in taken:
                assert it is not None
                it.acknowledge(confirm=True)


def test_the_rate_is_kept(spark: SparkSession, one_node: LocalCluster, log: Path) -> None:
    """Twenty messages at fifty per second take four tenths of a second, less the first."""
    choice = Choice(destinations=("mail",), where="sequence <= 20")
    done = replay(spark, {"path": str(log)}, choice, "/queue/replay.rate", one_node.uri, rate=50)
    assert done.confirmed == 20
    assert done.seconds >= 0.36


@pytest.mark.parametrize(
    "where",
    [
        "rand() > 0.5",
        "stored_at < current_timestamp()",
        "stored_at < localtimestamp()",
        "unix_timestamp() > 5",
        "current_user() = 'x'",
        "stored_at < timestamp'now'",
        "stored_at < cast('today' as timestamp)",
        "stored_at between 'yesterday' and 'today'",
        "stored_at < timestamp/**/'now'",
        "stored_at < timestamp r'now'",
        'stored_at < cast("now" as timestamp)',
        "stored_at < to_timestamp('now')",
        "stored_at > date_sub('today UTC', 3)",
        "stored_at < timestamp'today+01:00'",
        "shop =",
    ],
)
def test_a_condition_must_mean_the_same_tomorrow(
    spark: SparkSession, log: Path, where: str
) -> None:
    """Chance, the clock, and what is no condition at all are refused before anything is sent."""
    with pytest.raises(ConfigError, match="where"):
        count_chosen(spark, {"path": str(log)}, Choice(where=where), "/queue/x")


def test_the_command_tells_what_it_did(
    spark: SparkSession, one_node: LocalCluster, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run counts and sends nothing; the real one tells the same number."""
    command = ["replay", "/queue/replay.command", "--path", str(log), "--destination", "mail"]
    command += ["--where", "body_size = 2", "--uri", one_node.uri, "--master", "local[2]", "--json"]
    run([*command, "--dry-run"])
    assert json.loads(capsys.readouterr().out) == {"would_send": 9, "by_destination": {"mail": 9}}
    run(command)
    assert json.loads(capsys.readouterr().out)["confirmed"] == 9
    assert bodies(one_node, "/queue/replay.command", 9) == [b"m%d" % n for n in range(1, 10)]
