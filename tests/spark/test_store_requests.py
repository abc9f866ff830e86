"""
What an archive asks of an S3 server, request by request, and what a refusal leaves there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.places import Place, place_options
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, compact
from holdfast.spark.pipelines.restore import restore
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.s3_server import S3Server
from trials.pipeline.store_proxy import Answer, Ask, Request, StoreProxy, refused
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, message, orders_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.processes

MiB = 1 << 20
MESSAGES = 30


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def store(server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(server) as proxy:
        yield proxy


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    return orders_log(tmp_path / "log", *(b"%d" % number for number in range(MESSAGES)))


def run_of(log: LogDirectory, archive: Archive) -> ArchiveRun:
    return ArchiveRun(PaperSpark(), log, archive, ArchiveSettings(), None)


def grow(log: LogDirectory) -> None:
    with WrittenLog(Path(log.path)) as written:
        written.put(message(1, written.journal.last_index, b"more", b"", "p"))


def test_an_archiver_asks_a_store_for_nothing_twice(log: LogDirectory, store: StoreProxy) -> None:
    """
    Of a store each request costs money and some 10 ms; what is there is read when it is new.
    """
    archive = Archive.open("s3a://backup/counted", place_options(store.options))
    run = run_of(log, archive)
    run.loop(None)
    first = len(store.requests)
    for _ in range(3):
        grow(log)
        run._turn()
    store.requests.clear()
    grow(log)
    run._turn()
    turn = Counter(store.kinds)
    read = Counter(it.key for it in store.requests if it.kind == "get")
    store.requests.clear()
    run._turn()

    assert ["list"] == store.kinds, "nothing new"
    assert {"list": 3, "put": 2, "head": 1, "get": 1} == turn, "one entry more, with its manifest"
    assert [1] == list(read.values()), "only what was just published"
    assert first <= 13


def test_what_is_merged_is_fetched_once(log: LogDirectory, store: StoreProxy) -> None:
    """
    It was fetched four times: to compare it, for its names, and twice for its rows.
    """
    archive = Archive.open("s3a://backup/merged", place_options(store.options))
    run = run_of(log, archive)
    run.loop(None)
    for _ in range(3):
        grow(log)
        run._turn()
    before = {file.path for file in archive.catalogue().files()}
    store.requests.clear()

    assert 3 == compact(PaperSpark(), archive, ArchiveSettings(compact_count_min=2))

    asked = Counter((it.kind, it.key.partition("/")[2]) for it in store.requests)
    assert {1} == {asked[kind, path] for kind in ("head", "get") for path in before}
    assert not archive.catalogue().breaks
    assert MESSAGES + 4 == archive.catalogue().last_index


class NoSpark:
    """A session that nobody may use."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark is asked for {name}")


def test_a_restore_of_ten_thousand_messages_fetches_each_file_once_and_asks_nothing_of_spark(
    store: StoreProxy, tmp_path: Path
) -> None:
    """
    A job of Spark's takes seconds where Spark is cold, and a request some 10 ms: this is what holds
    a restore of so many to seconds, whatever machine it runs on. The file that was compared with
    its digest is the one that is restored.
    """
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
        for first in range(1, 10_001, 100):
            written.put(*(message(1, first + n, b"b%d" % (first + n)) for n in range(100)))
    log, options = LogDirectory(str(tmp_path / "log")), place_options(store.options)
    path = "s3a://backup/ten-thousand"
    archive = archived_log(log, path, per_range=10, options=options)
    files = {file.path for file in archive.catalogue().files()}
    store.requests.clear()

    plan = restore(cast("SparkSession", NoSpark()), archive, tmp_path / "to")

    assert (10_000, 10_000) == (plan.messages, plan.restored and plan.restored.messages)
    asked = Counter((it.kind, it.key.partition("/")[2]) for it in store.requests)
    of_files = {it: count for it, count in asked.items() if it[1] in files}
    assert 11 == len(files)
    assert {(kind, file): 1 for kind in ("head", "get") for file in files} == of_files
    rest = asked.total() - sum(of_files.values())
    assert 2 * len(files) + 5 >= rest, "a manifest as a file, lists, and the snapshot"


@pytest.mark.parametrize("kind", ["put", "begin-upload", "part", "complete"])
@pytest.mark.parametrize("size", [10, 9 * MiB])
def test_a_file_that_a_store_refuses_is_not_there(kind: str, size: int, store: StoreProxy) -> None:
    """
    All or nothing, however the store takes it: no manifest and no snapshot is ever cut off.
    """
    asked: list[str] = []

    def rule(request: Request, ask: Ask) -> Answer | None:
        asked.append(request.kind)
        return refused(403) if request.kind == kind else ask()

    store.rule = rule
    place = Place(f"s3a://backup/refused-{kind}-{size}", place_options(store.options))
    if kind in _asked_for(size):
        with pytest.raises(OSError, match="403"):
            place.publish("a/one", bytes(size))
        assert not place.has("a/one")
    else:
        place.publish("a/one", bytes(size))
        assert size == len(place.read("a/one"))
    assert size > 8 * MiB or "begin-upload" not in asked, "nothing to stay open"


def _asked_for(size: int) -> set[str]:
    return {"put"} if size <= 8 * MiB else {"begin-upload", "part", "complete"}
