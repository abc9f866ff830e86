"""
Places, archives and logs in a real S3 server, one that fails now and then: without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable

from holdfast.errors import ConfigError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.cleaning import sweep
from holdfast.spark.archive.places import Place, place_options
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import keep_table, table_files
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines.archive import plan
from holdfast.spark.pipelines.written_ranges import LogRange, joined, merge_range, write_range
from holdfast.spark.source.open_source import open_source
from holdfast.spark.source.options import read_options
from trials.pipeline.s3_server import S3Server
from trials.pipeline.written_log import WrittenLog, message

pytestmark = pytest.mark.processes

MESSAGES = 30
FAULTS_EVERY = 7
IN_2100 = 4_102_444_800_000_000


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    """Every seventh request is answered with 503, or its connection is dropped."""
    with S3Server(FAULTS_EVERY) as server:
        yield server


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    folder = tmp_path_factory.mktemp("log")
    with WrittenLog(folder) as written:
        written.put(QueueRecord(1, "orders"))
        for number in range(1, MESSAGES + 1):
            written.put(message(1, number, b"%d" % number, b"", "p"))
    return LogDirectory(str(folder))


def archive_all(source: LogSource, archive: Archive) -> None:
    """What `archive` does, with the tasks in this process."""
    position = source.position()
    start = "00" * 16
    for wanted in plan(archive.catalogue(), position, 1, start):
        written = write_range(wanted, source=source, archive=archive, names={1: "orders"})
        archive.publish(joined([written], position.cluster_id))


def chains(source: LogSource) -> bytes:
    """What stands for every byte of all entries."""
    blocks = source.blocks(1, MESSAGES + 1)
    return b"".join(block.chains for block in blocks if isinstance(block, EntryBlock))


def test_a_place_in_a_store_is_as_one_on_a_disk(store: S3Server) -> None:
    """Files appear whole, are listed, moved and removed; what is not there is no fault."""
    place = Place("s3a://backup/place", place_options(store.options))
    assert list(place.files("")) == []
    place.publish("a/one", b"1")
    place.publish("a/one", b"22")
    with place.write_durable("b/large") as out:
        for _ in range(11):
            out.write(bytes(1 << 20))  # beyond the size from which it goes in parts
    assert [(it.path, it.size) for it in place.files("")] == [("a/one", 2), ("b/large", 11 << 20)]
    assert place.read("a/one") == b"22"
    place.move("a/one", "c/one")
    place.move("a/none", "c/none")
    place.remove("b/large")
    place.remove("b/large")
    assert [it.path for it in place.files("")] == ["c/one"]
    with pytest.raises(FileNotFoundError):
        place.read("a/one")


def test_a_store_that_fails_four_times_in_a_row_is_asked_again() -> None:
    """With several tasks at once each one's attempts meet the faults of the others."""
    with S3Server(6, in_a_row=4) as server:
        place = Place("s3a://backup/place", place_options(server.options))
        place.publish("a/one", b"1")
        assert place.read("a/one") == b"1"


@pytest.mark.parametrize("every", [3, 7])
def test_a_refusal_longer_than_what_was_asked_for_is_no_end(every: int, log: LogDirectory) -> None:
    """
    AWS's client finds no room for it, and does not ask again by itself.

    Each request of a reading is refused once in these turns; the columns of few rows are small.
    """
    with S3Server(every) as server:
        place = Place("s3a://backup/place", place_options(server.options))
        place.publish("a/one", b"22")
        assert [place.read("a/one") for _ in range(every)] == [b"22"] * every
        archive = Archive.open("s3a://backup/archive", place_options(server.options))
        archive_all(log, archive)
        (file, *_) = archive.catalogue().files()
        for _ in range(every):
            assert sum(batch.num_rows for batch in archive.batches(file)) > 0
            archive.check(file)


def test_an_archive_in_a_store_is_written_read_and_tidied(
    store: S3Server, log: LogDirectory
) -> None:
    """By the options of the data source, too; every entry comes back as it was."""
    path = "s3a://backup/archive"
    archive = Archive.open(path, place_options(store.options))
    archive_all(log, archive)
    source = open_source(read_options({"path": path, **store.options}))
    position = source.position()
    assert position.last_index == MESSAGES + 1
    assert chains(source) == chains(log)
    with archive.place.write_durable(f"records/day=1970-01-01/{1:020d}-killed.parquet") as left:
        left.write(b"of a job that was killed")
    assert sweep(archive, now_microseconds=IN_2100, keep_seconds=0.0) == 1
    assert open_source(read_options({"path": path, **store.options})).position() == position


def test_an_archive_in_a_store_is_a_table_that_others_read(
    store: S3Server, log: LogDirectory
) -> None:
    """
    Made and brought up to date while requests fail; of two at once one goes on from the other.
    """
    archive = Archive.open("s3a://backup/table", place_options(store.options))
    for wanted in (LogRange(1, 5, "00" * 16), LogRange(6, MESSAGES + 1, None)):
        written = write_range(wanted, source=log, archive=archive, names={1: "orders"})
        archive.publish(joined([written], log.position().cluster_id))
    ends: list[int] = []
    both = [Thread(target=lambda: ends.append(keep_table(archive).version)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert ends == [0, 0]
    group = list(archive.catalogue().ranges)
    merged = merge_range(group, archive=archive, compression="snappy")
    archive.publish(joined([merged], group[0].cluster_id))
    state = keep_table(archive)
    assert (state.version, state.added, state.removed) == (1, 1, 2)
    assert table_files(archive) == {file.path for file in archive.catalogue().files()}
    options = {
        "AWS_ENDPOINT_URL": store.options["fs.s3a.endpoint"],
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
    }
    rows = DeltaTable("s3://backup/table", storage_options=options).to_pyarrow_table()
    bodies = rows.sort_by("index")["body"].to_pylist()
    assert bodies == [None, *(b"%d" % number for number in range(1, MESSAGES + 1))]


def test_the_settings_of_a_store_are_options_of_the_data_source(tmp_path: Path) -> None:
    """Under Hadoop's names; a misspelled one is a mistake, and no secret shows in the options."""
    given = {"path": "s3a://backup/x", "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s3cret"}
    options = read_options(given)
    assert options.place_options == (("fs.s3a.access.key", "k"), ("fs.s3a.secret.key", "s3cret"))
    assert "s3cret" not in repr(options)
    assert "s3cret" not in repr(Archive.open(options.path, options.place_options))
    with pytest.raises(ConfigError, match=r"fs\.s3a\.access\.keys: there is no such option"):
        read_options({"path": str(tmp_path), "fs.s3a.access.keys": "k"})


def test_what_goes_while_it_is_read_is_not_there(
    store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest that is merged meanwhile: the listing is read again, and nothing has failed."""
    place = Place("s3a://backup/going", place_options(store.options))
    place.publish("a/one", b"1")
    opened = Place.open_input

    def opened_late(where: Place, path: str) -> object:
        source = opened(where, path)
        where.remove(path)
        return source

    monkeypatch.setattr(Place, "open_input", opened_late)
    with pytest.raises(FileNotFoundError, match="a/one is gone"):
        place.read("a/one")
