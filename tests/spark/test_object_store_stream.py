"""
An archive that grows in an S3 server which fails now and then, while Spark's streams read it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from holdfast.cli.archive_run import ArchiveRun
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.places import place_options
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings
from holdfast.spark.pipelines.audit import audit
from trials.pipeline.s3_server import S3Server
from trials.pipeline.written_log import WrittenLog, message

pytestmark = pytest.mark.processes

PATH = "s3a://backup/growing"
FAULTS_EVERY = 23
TURNS = 4
A_TURN = 10
ARRIVAL_SECONDS = 90.0


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def put(written: WrittenLog, turn: int) -> None:
    """The messages of one turn, each an entry of its own."""
    for number in range(turn * A_TURN + 1, (turn + 1) * A_TURN + 1):
        written.put(message(1, number, b"%d" % number, b"", "p"))


def archive_in_turns(
    spark: SparkSession, log: Path, archive: Archive, between: Callable[[int], None]
) -> ArchiveRun:
    """Run the archiver continuously; `between` happens before each turn but the first."""
    turns = iter(range(1, TURNS + 1))

    def wait(_: float) -> bool:
        turn = next(turns)
        if turn == TURNS:
            run.stopping.set()
        else:
            between(turn)
        return True

    settings = ArchiveSettings(compact_count_min=2)
    run = ArchiveRun(spark, LogDirectory(str(log)), archive, settings, None, wait=wait)
    run.loop(1.0)
    return run


def test_a_growing_archive_is_streamed_while_its_files_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each message comes once to a query that stays, and to one that comes back now and then."""
    staying: list[int] = []
    returning: list[int] = []
    with S3Server(FAULTS_EVERY) as server, WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
        put(written, 0)
        archive = Archive.open(PATH, place_options(server.options))

        def stream(into: list[int], name: str) -> DataStreamWriter:
            def take(batch: DataFrame, _: int) -> None:
                into.extend(int(bytes(row.body)) for row in batch.collect())

            frame = spark.readStream.format("holdfast").options(**server.options).load(PATH)
            place = str(tmp_path / name)
            return frame.writeStream.foreachBatch(take).option("checkpointLocation", place)

        queries: list[StreamingQuery] = []

        def return_to(returning: list[int]) -> None:
            query = stream(returning, "returning").trigger(availableNow=True)
            query.start().awaitTermination(60)

        def between(turn: int) -> None:
            if not queries:
                queries.append(stream(staying, "staying").start())
                return_to(returning)
            put(written, turn)

        run = archive_in_turns(spark, tmp_path / "log", archive, between)
        return_to(returning)
        # A look at the archive that began before its last commit may end the wait for all there is.
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while len(staying) < TURNS * A_TURN and time.monotonic() < deadline:
            queries[0].processAllAvailable()
        queries[0].stop()
        result = audit(spark, [], archive)
    assert returning == staying == list(range(1, TURNS * A_TURN + 1))
    assert run.progress.compacted > 0
    assert run.progress.messages == TURNS * A_TURN
    assert [] == result.findings
