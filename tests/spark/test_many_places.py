"""
Messages that stand on several queues: audit, restore, report and backlog go by each place.

No broker writes such messages yet; the log is built by the record codec, as log format 2 says.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.journal.settings import JournalSettings
from holdfast.model.facts import Attributes, MessageFacts, Place
from holdfast.model.records import AcknowledgeRecord, MessageRecord, PurgeRecord, QueueRecord
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.applied_archive import ROWS_MAX
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.report import make_report
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.pipelines.restored_log import live_by_queue
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog, message, records_of

DISK, SETTINGS = RealDisk(), JournalSettings()


def on(first: Place, *more: Place, number: int = 0) -> MessageRecord:
    """A message on these places; with a producer's number, if one is given."""
    body = b"%d-%d" % (first.queue_number, first.sequence)
    made = message(first.queue_number, first.sequence, body, b"a:b\n")
    if number:
        made.producer_id, made.producer_sequence = "p", number
    made.facts = MessageFacts(attributes=Attributes(priority=7), places=more)
    return made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five messages on ten places, of which five live: a message lives on while one of its does."""
    directory = tmp_path_factory.mktemp("places") / "log"
    with WrittenLog(directory) as written:
        written.put(QueueRecord(1, "one"), QueueRecord(2, "two"), QueueRecord(3, "three"))
        written.put(
            on(Place(1, 1), Place(2, 1), Place(3, 1), number=1),
            on(Place(1, 2), Place(2, 2), number=2),
            on(Place(1, 3), Place(3, 2), number=3),
            message(1, 4, b"alone", b"", "p"),
            on(Place(2, 3), Place(3, 3)),
        )
        written.put(AcknowledgeRecord(1, [1]), AcknowledgeRecord(2, [1, 2]))
        written.put(AcknowledgeRecord(1, [2]))
        again = on(Place(3, 1))
        again.rewritten, again.stored_at = True, 77
        written.put(again, PurgeRecord(2, 3))
    return directory


LIVES = {"one": 2, "two": 0, "three": 3}


@pytest.mark.parametrize("is_archived", [False, True])
def test_an_audit_knows_the_fate_of_each_place(
    spark, log: Path, tmp_path: Path, is_archived: bool
) -> None:
    """Settled on one queue it lives on another; before, what was settled there was never stored."""
    archive = None
    if is_archived:
        archive = Archive.open(str(tmp_path / "archive"))
        archive_once(spark, LogDirectory(str(log)), archive)
    result = audit(spark, [Replica("a", LogDirectory(str(log)))], archive)

    assert result.findings == []
    assert result.account is not None
    assert result.account.is_balanced
    assert (result.account.messages, result.account.queues) == (10, 3)
    known = {fate: count for fate, count in result.account.fates.items() if count}
    assert known == {"live": 5, "acknowledged": 4, "purged": 1}
    assert live_by_queue(log, DISK, SETTINGS) == LIVES


@pytest.mark.parametrize("rows_here_max", [0, ROWS_MAX], ids=["asked of Spark", "applied here"])
def test_a_restored_message_stands_where_it_lived(
    spark, log: Path, tmp_path: Path, rows_here_max: int
) -> None:
    """Once in the log, with the places that were left; what the broker makes of it is the same."""
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(log)), archive)

    settings = RestoreSettings(rows_here_max=rows_here_max)
    plan = restore(spark, archive, tmp_path / "new", settings)

    assert {each.name: each.messages for each in plan.queues} == {"one": 2, "three": 3}
    assert live_by_queue(tmp_path / "new", DISK, SETTINGS) == LIVES
    found = [it for it in records_of(tmp_path / "new") if isinstance(it, MessageRecord)]
    places = Counter(place for it in found for place in it.places)
    wanted = [Place(1, 3), Place(1, 4), Place(3, 1), Place(3, 2), Place(3, 3)]
    assert places == Counter(wanted)
    assert len(found) == 4
    assert {it.body for it in found} == {b"1-3", b"alone", b"3-1", b"2-3"}
    priorities = {it.body: it.facts and it.facts.attributes.priority for it in found}
    assert priorities == {b"1-3": 7, b"alone": None, b"3-1": 7, b"2-3": 7}


def test_a_report_counts_a_message_under_each_queue(spark, log: Path) -> None:
    """Of its producer, and among the largest, it is one."""
    report = make_report(spark, {"path": str(log)})

    told = {
        it["destination"]: tuple(
            it[name] for name in ("stored", "acknowledged", "purged", "backlog")
        )
        for it in report["destinations"]
    }
    assert {"one": (4, 2, 0, 2), "two": (3, 2, 1, 0), "three": (3, 0, 0, 3)} == told
    assert (10, 4, 1, 5) == tuple(
        report["totals"][name] for name in ("stored", "acknowledged", "purged", "backlog")
    )
    producers = {it["producer_id"]: it["messages"] for it in report["top_producers"]}
    assert {"p": 4, None: 1} == producers
    assert 5 == len(report["largest_messages"])


def test_the_backlog_has_a_message_under_each_queue(spark, log: Path) -> None:
    """On which it lives, at its newest record."""
    view = spark.read.format("holdfast").option("view", "backlog").load(str(log))
    rows = view.select("destination", "sequence", "body", "rewritten").collect()

    assert {
        ("one", 3, b"1-3", False),
        ("one", 4, b"alone", False),
        ("three", 1, b"3-1", True),
        ("three", 2, b"1-3", False),
        ("three", 3, b"2-3", False),
    } == {(it.destination, it.sequence, bytes(it.body), it.rewritten) for it in rows}
    assert len(rows) == sum(LIVES.values())
    two = view.where("destination = 'three' and sequence = 2").select("message_id").collect()
    assert [f"ID:{CLUSTER_ID.hex()[:8]}-3-2"] == [it.message_id for it in two]
