"""An archive that lacks entries, or gets more, as a source for readers: without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from holdfast.errors import ArchiveError, CorruptEntryError, RecordNotFoundError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import DamagedRange
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range
from holdfast.spark.source import stream_reader
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from holdfast.spark.source.stream_reader import StreamReader
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog, message

FIRST_CHAIN = bytes(16).hex()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Six entries, archived in three ranges of two."""
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        for sequence in range(1, 6):
            log.put(message(1, sequence))
    archive = Archive.open(str(tmp_path / "archive"))
    source = LogDirectory(str(tmp_path / "log"))
    for first in (1, 3, 5):
        wanted = LogRange(first, first + 1, FIRST_CHAIN if first == 1 else None)
        written = write_range(wanted, source=source, archive=archive, names={1: "q"})
        archive.publish(joined([written], CLUSTER_ID.hex()))
    return tmp_path / "archive"


def manifests(archive: Path) -> list[Path]:
    return sorted((archive / "_holdfast").iterdir())


def indexes(archive: Path, **options: str) -> list[tuple[int, bool]]:
    """Plan and read as Spark does: each row's entry, and whether it tells of damage."""
    columns = "index,problem" if options.get("mode") else "index"
    reader = BatchReader(read_options({"path": str(archive), "columns": columns, **options}))
    return [
        (row["index"], bool(row.get("problem")))
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def test_what_an_archive_lacks_is_an_error_and_not_a_shorter_table(archive: Path) -> None:
    """
    The entries are named, or each is a row that says so; what is asked for elsewhere comes.
    """
    manifests(archive)[1].unlink()

    with pytest.raises(CorruptEntryError, match="entries 3 to 4 are missing"):
        indexes(archive)
    with pytest.raises(CorruptEntryError, match="missing"):
        indexes(archive, start_time="1970-01-01T00:00:00")
    with pytest.raises(CorruptEntryError, match="missing"):
        indexes(archive, view="backlog")
    found = indexes(archive, mode="report")
    assert [(2, False), (3, True), (4, True), (5, False), (6, False)] == found
    assert [(2, False), (5, False), (6, False)] == indexes(archive, failOnDataLoss="false")
    late = indexes(archive, start_index="5", start_time="1970-01-01T00:00:00")
    assert [(5, False), (6, False)] == late


def test_before_and_behind_an_archive_there_is_nothing(archive: Path) -> None:
    """
    Who asks for that is told, whether a whole part of it is there or none.
    """
    manifests(archive)[0].unlink()
    source = ArchivedSource.open(str(archive))

    with pytest.raises(RecordNotFoundError, match="begins with entry 3"):
        list(source.blocks(2, 4))
    *_, behind = source.blocks(6, 9)
    assert isinstance(behind, DamagedRange)
    assert (7, 9) == (behind.first_index, behind.last_index)


@pytest.mark.parametrize("which", [0, 2])
def test_a_damaged_manifest_at_either_end_is_not_a_shorter_archive(
    archive: Path, which: int
) -> None:
    """
    What it has is not known to be there by anything else; one in the middle leaves a gap.
    """
    manifests(archive)[which].write_bytes(b"{}")

    with pytest.raises(ArchiveError, match="cannot be read whole"):
        ArchivedSource.open(str(archive))


def test_a_stream_sees_what_is_archived_later(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The manifests are read again while it runs.
    """
    monkeypatch.setattr(stream_reader, "ARCHIVE_LOOK_SECONDS", float("inf"))
    newest = manifests(archive)[2]
    whole = newest.read_bytes()
    newest.unlink()
    reader = StreamReader(read_options({"path": str(archive)}))
    begin = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    newest.write_bytes(whole)
    soon = reader.latestOffset(begin, ReadAllAvailable())
    monkeypatch.setattr(stream_reader, "ARCHIVE_LOOK_SECONDS", 0.0)
    later = reader.latestOffset(begin, ReadAllAvailable())

    assert [4, 4, 6] == [offset["index"] for offset in (begin, soon, later)]
    assert [5] == [part.first_index for part in reader.partitions(begin, later)]  # type: ignore[attr-defined]


def other_archive(folder: Path, firsts: tuple[int, ...], cluster: str) -> Path:
    """Of a log with the same numbers and other messages, as after a promotion that lost some."""
    with WrittenLog(folder / "log") as log:
        log.put(QueueRecord(1, "q"))
        for sequence in range(1, 8):
            log.put(message(1, sequence, b"of another log"))
    archive = Archive.open(str(folder / "archive"))
    source = LogDirectory(str(folder / "log"))
    for first in firsts:
        wanted = LogRange(first, first + 1, None)
        written = write_range(wanted, source=source, archive=archive, names={1: "q"})
        archive.publish(joined([written], cluster))
    return folder / "archive"


@pytest.mark.parametrize(
    ("first", "cluster", "said"),
    [
        (3, CLUSTER_ID.hex(), "the chain is broken between entries 2 and 3"),
        (5, "f" * 32, "is of cluster ffffffff"),
        (6, CLUSTER_ID.hex(), "entries 7 to 7 stand only in"),
    ],
)
def test_ranges_of_two_logs_are_not_read_as_one(
    archive: Path, tmp_path: Path, first: int, cluster: str, said: str
) -> None:
    """Each file is what its manifest says: only together they are no log."""
    other = other_archive(tmp_path / "other", (first,), cluster)
    for own in (archive / "_holdfast").glob(f"{first:020}-*.json"):
        own.unlink()  # The other's stands in its place.
    shutil.copytree(other, archive, dirs_exist_ok=True)

    with pytest.raises(ArchiveError, match=said):
        ArchivedSource.open(str(archive))


def test_what_only_an_overlapping_range_has_is_not_left_out(archive: Path, tmp_path: Path) -> None:
    """Two archivers at once, and then a manifest lost: the entries are there, and do not count."""
    source = LogDirectory(str(tmp_path / "log"))
    wanted = LogRange(4, 6, None)
    store = Archive.open(str(archive))
    written = write_range(wanted, source=source, archive=store, names={1: "q"})
    store.publish(joined([written], CLUSTER_ID.hex()))
    manifests(archive)[-1].unlink()

    with pytest.raises(ArchiveError, match="entries 5 to 6 stand only in"):
        ArchivedSource.open(str(archive))
