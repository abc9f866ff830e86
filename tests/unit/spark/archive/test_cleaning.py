"""What goes from an archive and what never does: files on a disk, without Spark."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.errors import ArchiveError, CorruptArchiveError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive import cleaning as archive_cleaning
from holdfast.spark.archive import manifest_snapshot
from holdfast.spark.archive.cleaning import UNNAMED_SECONDS, retire, starts_within, sweep
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.places import FoundFile, Place
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.written_ranges import LogRange, joined, merge_range, write_range
from trials.pipeline.written_log import WrittenLog, message

ENTRIES = 6
DAY = 24 * 3600 * 1_000_000
NOW = time.time_ns() // 1000
LATER = NOW + 2 * UNNAMED_SECONDS * 1_000_000


class PaperArchive:
    """Six entries of a log, archived in three ranges of two."""

    def __init__(self, log: Path, directory: Path) -> None:
        self.directory = directory / "archive"
        self.archive = Archive.open(str(self.directory))
        self.source = LogDirectory(str(log))
        self.ranges = [self.write(first, first + 1) for first in (1, 3, 5)]
        for manifest in self.ranges:
            self.archive.publish(manifest)

    def write(self, first: int, last: int) -> Manifest:
        """Archive a range without publishing it."""
        wanted = LogRange(first, last, "00" * 16 if first == 1 else None)
        written = write_range(wanted, source=self.source, archive=self.archive, names={1: "q"})
        return joined([written], "c" * 32)

    def merge(self, count: int = 3) -> Manifest:
        """Publish one range in place of the first ones, as a compaction does."""
        merged = merge_range(self.ranges[:count], archive=self.archive, compression="snappy")
        manifest = joined([merged], "c" * 32)
        self.archive.publish(manifest)
        return manifest

    def path(self, manifest: Manifest) -> Path:
        """Where a manifest is."""
        return self.directory / "_holdfast" / manifest.name

    def data(self) -> int:
        """How many data files the archive has."""
        return len(list((self.directory / "records").rglob("*.parquet")))

    def aside(self) -> int:
        """How many files are set aside."""
        folder = self.directory / "_set_aside"
        return sum(path.is_file() for path in folder.rglob("*"))

    def indexes(self) -> list[int]:
        """Every entry that the archive gives back, proven."""
        source = ArchivedSource.open(str(self.directory))
        last = source.position().last_index
        return [int(n) for block in source.blocks(1, last) for n in block.indexes]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    with WrittenLog(directory) as written:
        written.put(QueueRecord(1, "q"))
        for sequence in range(1, ENTRIES):
            written.put(message(1, sequence, b"%d" % sequence))
    return directory


@pytest.fixture
def paper(log: Path, tmp_path: Path) -> PaperArchive:
    return PaperArchive(log, tmp_path)


def test_a_manifest_that_cannot_be_read_takes_no_data_with_it(paper: PaperArchive) -> None:
    """
    One flipped bit in a manifest makes its files look unnamed; once it is mended all is there.
    """
    path = paper.path(paper.ranges[1])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"messages": 2', b'"messages": 3'))

    assert 0 == sweep(paper.archive, now_microseconds=LATER)

    path.write_bytes(whole)
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_manifest_that_is_gone_can_be_brought_back(paper: PaperArchive, lost: int) -> None:
    """
    In the middle it leaves a gap, at either end a shorter archive: its data goes in no case.
    """
    path = paper.path(paper.ranges[lost])
    whole = path.read_bytes()
    path.unlink()

    assert 0 == sweep(paper.archive, now_microseconds=LATER)

    path.write_bytes(whole)
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


def test_nothing_is_retired_while_the_catalogue_has_breaks(paper: PaperArchive) -> None:
    """
    A merged range that cannot be read must not cost the ranges that it was to replace.
    """
    merged = paper.merge()
    paper.path(merged).write_bytes(b"{}")

    assert 0 == retire(paper.archive, now_microseconds=LATER)
    assert 0 == sweep(paper.archive, now_microseconds=LATER)

    paper.path(merged).unlink()
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


def test_what_rules_is_read_before_anything_goes(paper: PaperArchive) -> None:
    """
    A merged file that rotted leaves what it replaced where it is, and is named.
    """
    (file,) = paper.merge().files
    path = paper.directory / file.path
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])

    with pytest.raises(CorruptArchiveError) as caught:
        retire(paper.archive, now_microseconds=LATER)

    assert file.path == caught.value.path
    assert (4, 0) == (paper.data(), paper.aside())


@pytest.mark.parametrize("change", [(b'"messages":', b'"massages":'), (b"ccc", b"ccd")])
def test_a_manifest_that_the_snapshot_knows_is_read_before_anything_goes(
    paper: PaperArchive, change: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It rotted since: name, size and time are as they were, and the snapshot has it whole.
    """
    path = paper.path(paper.merge())
    monkeypatch.setattr(manifest_snapshot, "UNREAD_MIN", 0)
    assert paper.archive.renew_snapshot()
    whole, times = path.read_bytes(), path.stat()
    path.write_bytes(whole.replace(*change, 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not paper.archive.catalogue().breaks

    with pytest.raises(CorruptArchiveError) as caught:
        retire(paper.archive, now_microseconds=LATER)

    assert path.name in caught.value.path
    assert (4, 0) == (paper.data(), paper.aside())


def test_who_has_read_the_manifests_reads_on_beside_a_merge(paper: PaperArchive) -> None:
    """
    An audit or a restore holds the names of files for hours; what replaces them rules at once.
    """
    reader = ArchivedSource.open(str(paper.directory))
    paper.merge()

    assert 3 == retire(paper.archive, now_microseconds=LATER)
    assert 0 == sweep(paper.archive, now_microseconds=LATER + DAY - 2_000_000)

    read = [int(n) for block in reader.blocks(1, ENTRIES) for n in block.indexes]  # type: ignore[union-attr]
    assert list(range(1, ENTRIES + 1)) == read == paper.indexes()
    catalogue = paper.archive.catalogue()
    assert ((), (), 1) == (catalogue.breaks, catalogue.superseded, len(catalogue.ranges))


def test_a_clock_that_was_set_back_takes_nothing_from_readers(paper: PaperArchive) -> None:
    """
    Ranges that are replaced while a machine takes it for 1970 have their day once it knows better.
    """
    for path in paper.directory.rglob("*.parquet"):
        os.utime(path, ns=(0, (NOW - 5 * DAY) * 1000))
    reader = ArchivedSource.open(str(paper.directory))
    paper.merge()

    assert 3 == retire(paper.archive, now_microseconds=0)
    sweep(paper.archive, now_microseconds=NOW)

    assert all(paper.archive.has(file) for file in reader.catalogue.files())
    assert 3 == sweep(paper.archive, now_microseconds=LATER)


def test_what_is_superseded_is_set_aside_a_day_later(paper: PaperArchive) -> None:
    """
    Manifests at once, files after as long as was asked for; the merged range is the archive then.
    """
    paper.merge()
    retire(paper.archive, now_microseconds=LATER)
    assert (4, 3) == (paper.data(), paper.aside())

    assert 0 == sweep(paper.archive, now_microseconds=LATER + DAY, keep_seconds=2 * 24 * 3600)
    assert 3 == sweep(paper.archive, now_microseconds=LATER + DAY)

    assert (1, 6) == (paper.data(), paper.aside())
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


def test_a_merge_while_the_manifests_are_read_is_seen_through(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A manifest that vanishes between listing and reading is no gap: they are listed again.
    """
    read = Place.read

    def merged_meanwhile(place: Place, path: str) -> bytes:
        monkeypatch.setattr(Place, "read", read)
        paper.merge()
        retire(paper.archive, now_microseconds=LATER)
        return read(place, path)

    monkeypatch.setattr(Place, "read", merged_meanwhile)
    catalogue = paper.archive.catalogue()

    assert ((), 1) == (catalogue.breaks, len(catalogue.ranges))


@pytest.mark.parametrize(("begin", "asked"), [(0, "catalogue"), (1, "catalogue"), (1, "end")])
def test_a_merge_while_the_manifests_are_listed_is_seen_through(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch, begin: int, asked: str
) -> None:
    """
    The merged one comes too late for a slow listing, and what it replaces has gone too early.
    """
    files = Place.files

    def merged_meanwhile(place: Place, folder: str) -> Iterator[FoundFile]:
        monkeypatch.setattr(Place, "files", files)
        names = {found.path for found in files(place, folder)}
        paper.ranges = paper.ranges[begin:]
        paper.merge(2)
        retire(paper.archive, now_microseconds=LATER)
        return (found for found in files(place, folder) if found.path in names)

    monkeypatch.setattr(Place, "files", merged_meanwhile)
    if asked == "end":
        assert ENTRIES == paper.archive.end()[0]
        return
    catalogue = paper.archive.catalogue()
    assert ((), 2) == (catalogue.breaks, len(catalogue.ranges))
    assert (1, ENTRIES) == (catalogue.first_index, catalogue.last_index)


def test_manifests_that_never_stand_still_are_an_error(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Half of a catalogue is none.
    """

    def vanished(place: Place, path: str) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Place, "read", vanished)
    with pytest.raises(ArchiveError, match="vanish"):
        paper.archive.catalogue()


def test_what_nobody_names_is_set_aside_when_it_is_old(paper: PaperArchive) -> None:
    """
    What a job is writing now is named by no manifest either.
    """
    paper.write(1, 4)

    assert 0 == sweep(paper.archive, now_microseconds=NOW)
    assert 1 == sweep(paper.archive, now_microseconds=LATER)
    assert (3, 1) == (paper.data(), paper.aside())


def test_a_draft_that_a_kill_left_goes_when_it_is_old(paper: PaperArchive) -> None:
    """
    It is no manifest; and one that is being written now stays.
    """
    draft = paper.path(paper.ranges[0]).with_name(f".{paper.ranges[0].name}.0a1b2c3d")
    draft.write_bytes(b"{")

    sweep(paper.archive, now_microseconds=NOW)
    assert draft.exists()
    sweep(paper.archive, now_microseconds=LATER)

    assert not draft.exists()
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


def test_a_full_disk_keeps_nothing_old(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Where there is no room to set anything aside, what was set aside long ago goes all the same.
    """
    paper.merge()
    sweep(paper.archive, now_microseconds=NOW)
    assert 3 == paper.aside()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Place, "move", full)
    with pytest.raises(OSError, match="No space"):
        sweep(paper.archive, now_microseconds=NOW + 8 * DAY)

    assert 0 == paper.aside()
    assert list(range(1, ENTRIES + 1)) == paper.indexes()


def test_what_was_set_aside_goes_after_a_week(paper: PaperArchive) -> None:
    """
    Counted from when it was set aside; and not while the archive is broken.
    """
    paper.write(1, 4)
    sweep(paper.archive, now_microseconds=LATER)
    path = paper.path(paper.ranges[1])
    whole = path.read_bytes()

    sweep(paper.archive, now_microseconds=LATER + 6 * DAY)
    assert 1 == paper.aside()
    path.write_bytes(b"")
    sweep(paper.archive, now_microseconds=LATER + 8 * DAY)
    assert 1 == paper.aside()
    path.write_bytes(whole)
    sweep(paper.archive, now_microseconds=LATER + 8 * DAY)
    assert 0 == paper.aside()


def test_without_any_manifest_nothing_goes(paper: PaperArchive) -> None:
    """
    It is rather a folder that was lost than an archive of nothing.
    """
    for manifest in paper.ranges:
        paper.path(manifest).unlink()

    assert 0 == sweep(paper.archive, now_microseconds=LATER)
    assert (3, 0) == (paper.data(), paper.aside())


def test_a_break_is_told(paper: PaperArchive, caplog: pytest.LogCaptureFixture) -> None:
    """
    Who waits for room learns why nothing goes.
    """
    paper.path(paper.ranges[0]).write_bytes(b"")
    with caplog.at_level("WARNING", archive_cleaning.logger.name):
        sweep(paper.archive, now_microseconds=LATER)
    assert "not whole" in caplog.text


def test_a_file_that_was_changed_is_not_merged(paper: PaperArchive) -> None:
    """
    Of an entry's header the chain proves index and term: another time makes the digest differ only.
    """
    path = paper.directory / paper.ranges[1].files[0].path
    table = pq.read_table(path)
    later = pc.add(table.column("entry_time").cast("int64"), 1)
    place = table.schema.get_field_index("entry_time")
    times = later.cast(table.schema.field("entry_time").type)
    pq.write_table(table.set_column(place, table.schema.field(place), times), path)
    assert list(range(1, ENTRIES + 1)) == paper.indexes()

    with pytest.raises(CorruptArchiveError, match="not what was archived"):
        paper.merge()

    assert 3 == len(paper.archive.catalogue().ranges)


@pytest.mark.parametrize(
    ("name", "is_within"),
    [("7-x", True), ("0" * 19 + "7-x", True), ("\u0667-x", False), ("9" * 200 + "-x", False)],
)
def test_a_data_file_tells_by_digits_where_it_begins(name: str, is_within: bool) -> None:
    """
    What is named in another way is none of ours, and stays.
    """
    assert is_within == starts_within(f"records/day=2026-11-25/{name}.parquet", (1, 9))
