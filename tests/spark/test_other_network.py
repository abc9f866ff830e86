"""
Spark's workers on another host than the driver and the nodes, and executors that die at their work.

Executors are processes of their own there: what a task needs has to be sent to them, and what it
writes has to be found by all. One is killed at a chosen place of a task's work, and the other's
attempt must leave the account exact.

Only by `make spark-cluster`: it costs a processor a minute and a half before the first command, and
each of these a quarter of a minute to a whole one. `test_killed_workers.py` runs the same commands
with an executor on this machine, and kills its workers.

Needs root and TUN devices, as the tests of chaos between namespaces do; says so where it cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import KIND_RECORDS, parse_entry
from holdfast.journal.scan import scan_log
from holdfast.model.records import MessageRecord
from holdfast.spark.archive.store import Archive
from holdfast.store.record_codec import decode_records
from trials.chaos.network import NetworkUnavailableError
from trials.pipeline.spark_elsewhere import ANSWER_SECONDS, SparkElsewhere
from trials.pipeline.stalled_worker import HTTP_SEND, OPEN, WRITE

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        "SPARK_CLUSTER" not in os.environ, reason="takes minutes: make spark-cluster"
    ),
]

QUEUE = "orders"
BODIES = [b"order %d " % number + b"x" * 500 for number in range(1, 601)]
STORED = list(enumerate(BODIES, 1))
"""Sequences and bodies."""
ASKS_FOR_THE_LOG = (HTTP_SEND, r"GET /log\?from=")
FILE_IS_WHOLE = (OPEN, r"/records/.*\.parquet")
"""Of an archive; it is durable, and nobody knows of it yet."""
SOME_ROWS_ARE_SENT = (WRITE, r"order \d+5 ")
BODIES_ARE_PACKED = (OPEN, r"\.bodies")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkElsewhere]:
    """Three nodes with the orders in several segments of their log."""
    try:
        with SparkElsewhere(tmp_path_factory.mktemp("elsewhere")) as opened:
            opened.ask("send", opened.nodes.uri, QUEUE, BODIES)
            opened.nodes.wait_level()
            yield opened
    except NetworkUnavailableError as error:
        pytest.skip(f"Spark's workers cannot be put into another network here: {error}")


@pytest.fixture(scope="module")
def archive(elsewhere: SparkElsewhere) -> Archive:
    """Of the orders alone; an executor died meanwhile, with its data file just written."""
    place = elsewhere.directory / "archive"
    done = elsewhere.struck(*FILE_IS_WHOLE, "archive", elsewhere.url, str(place))
    assert done["messages"] == len(BODIES)
    return Archive.open(str(place))


def archived(archive: Archive) -> list[tuple[int, bytes]]:
    """The orders in the files that count, read without the archive's own code."""
    files = [Path(str(archive)) / file.path for file in archive.catalogue().files()]
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    stored = [row for row in rows if row["kind"] == "message" and row["destination"] == QUEUE]
    return sorted((row["sequence"], row["body"]) for row in stored)


def messages(directory: Path) -> list[tuple[int, bytes]]:
    """The messages in a data directory, read by the journal's own scan."""
    found = []
    for segment in scan_log(directory / "journal", RealDisk()).segments:
        data = segment.path.read_bytes()
        for index in range(segment.base_index, segment.last_index + 1):
            entry = parse_entry(data, segment.place(index)[0])
            records = decode_records(entry.body) if entry.kind == KIND_RECORDS else []
            found += [
                (it.sequence, it.body or b"") for it in records if isinstance(it, MessageRecord)
            ]
    return sorted(found)


def middle_of(elsewhere: SparkElsewhere) -> tuple[str, str]:
    """A worker asks for the segment in the middle of the orders."""
    bases = elsewhere.nodes.leader().get("/log/position")["bases"]
    return HTTP_SEND, rf"GET /log\?from={bases[2]}&"


def stored_count(elsewhere: SparkElsewhere) -> int:
    """How many messages the log has: every test that sends any sends the orders to a new queue."""
    return len(BODIES) * len(elsewhere.nodes.leader().get("/queues")["queues"])


def test_a_submitted_program_reads_from_another_host(elsewhere: SparkElsewhere) -> None:
    """
    Nothing of where the driver is was told to Spark: executors find it, and read the nodes there.

    The program names a master of its own, for trying it out; what spark-submit says stays.
    """
    wanted = (elsewhere.spark.master, stored_count(elsewhere))
    assert elsewhere.ask("count", elsewhere.url) == wanted
    for worker in elsewhere.spark.workers:
        assert list((elsewhere.spark.directory / worker).glob("app-*/*/stderr"))


def test_an_archive_has_every_message_once(archive: Archive) -> None:
    """The dead attempt's file is there, and no part of it."""
    assert archived(archive) == STORED
    files = list((Path(str(archive)) / "records").rglob("*.parquet"))
    assert len(files) > len(archive.catalogue().files())


def test_an_audit_finds_nothing(elsewhere: SparkElsewhere, archive: Archive) -> None:
    """Three nodes and the archive hold the same; the dead one was to prove a segment."""
    call = ("audit", elsewhere.urls, str(archive))
    assert elsewhere.struck(*ASKS_FOR_THE_LOG, *call) == {
        "findings": [],
        "archive_entries": archive.catalogue().last_index,
        "replicas": len(elsewhere.urls),
    }


def test_a_restored_log_has_every_message_once(elsewhere: SparkElsewhere, archive: Archive) -> None:
    """
    The dead one had packed what lived of a file; what it left is not taken.

    The directory is named as a person does who stands beside it: workers stand elsewhere.
    """
    call = ("restore", str(archive), "restored", "")
    assert elsewhere.struck(*BODIES_ARE_PACKED, *call)["messages"] == len(BODIES)
    assert messages(elsewhere.directory / "restored") == STORED
    assert not list(elsewhere.directory.glob("restored?*"))


def test_a_replay_arrives_in_order_and_once(elsewhere: SparkElsewhere, archive: Archive) -> None:
    """The dead one was to read what is in the middle; what was sent before is not sent anew."""
    assert not archive.catalogue().breaks
    uri, target = elsewhere.nodes.uri, "replayed"
    call = ("replay", elsewhere.url, QUEUE, f"/queue/{target}", uri)
    assert elsewhere.struck(*middle_of(elsewhere), *call) == len(BODIES)
    assert elsewhere.ask("waiting", uri, target, len(BODIES)) == BODIES


def test_a_replay_by_many_is_stored_once(elsewhere: SparkElsewhere, archive: Archive) -> None:
    """The dead one had sent some of its block; who takes it over sends it under its numbers."""
    assert not archive.catalogue().breaks
    uri, target = elsewhere.nodes.uri, "replayed.by.many"
    call = ("replay", elsewhere.url, QUEUE, f"/queue/{target}", uri, 3)
    assert elsewhere.struck(*SOME_ROWS_ARE_SENT, *call) == len(BODIES)
    assert elsewhere.ask("waiting", uri, target, len(BODIES)) == BODIES


def test_a_query_sends_every_row_once(
    elsewhere: SparkElsewhere, archive: Archive, tmp_path: Path
) -> None:
    """The dead one had sent some of its rows: the next attempt sends them under their numbers."""
    assert not archive.catalogue().breaks
    uri, target = elsewhere.nodes.uri, "streamed"
    to = {"uri": uri, "destination": target, "window": "10"}
    call = ("stream", elsewhere.url, QUEUE, to, str(tmp_path))
    elsewhere.struck(*SOME_ROWS_ARE_SENT, *call)
    assert sorted(elsewhere.ask("waiting", uri, target, len(BODIES))) == sorted(BODIES)


def test_a_query_sends_every_row_once_over_a_failover(
    elsewhere: SparkElsewhere, archive: Archive, tmp_path: Path
) -> None:
    """The leader dies with the executor, so both reading and sending go on at another node."""
    assert not archive.catalogue().breaks
    uri, target = elsewhere.nodes.uri, "failed.over"
    to = {"uri": uri, "destination": target, "window": "10"}
    elsewhere.kills.order(*SOME_ROWS_ARE_SENT)
    query = elsewhere.asked("stream", elsewhere.url, QUEUE, to, str(tmp_path))
    leader = elsewhere.nodes.leader()
    try:
        elsewhere.kills.strike()
        leader.kill()
        query.result(ANSWER_SECONDS)
    finally:
        elsewhere.kills.withdraw()
        leader.kill()
        leader.start()
        elsewhere.nodes.wait_level()
    assert sorted(elsewhere.ask("waiting", uri, target, len(BODIES))) == sorted(BODIES)
