"""
An archive as a source: what it has, and what a task is given of it. Without Spark.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from holdfast.errors import ArchiveError, CorruptArchiveError, RecordNotFoundError
from holdfast.spark.archive.cleaning import retire
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.source import (
    PART_BYTES,
    PARTS_MIN,
    ArchivedFiles,
    ArchivedSource,
    part_bases,
)
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.source import DamagedRange
from holdfast.spark.pipelines.written_ranges import joined, merge_range
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log

ENTRIES = 10


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Ten entries in five files."""
    log = orders_log(tmp_path / "log", *(b"%d" % number for number in range(1, ENTRIES)))
    archived_log(log, tmp_path / "archive", per_range=2)
    return tmp_path / "archive"


def manifests(archive: Path) -> list[Path]:
    """The manifests in the order of their ranges."""
    return sorted((archive / "_holdfast").iterdir())


def part(archive: Path, first: int, last: int) -> ArchivedFiles:
    """What a task is given, as it comes to the worker."""
    (found,) = ArchivedSource.open(str(archive)).parts([(first, last)])
    travelled: ArchivedFiles = pickle.loads(pickle.dumps(found))
    return travelled


def spans(source: ArchivedFiles, first: int, last: int) -> list[tuple[int, int, bool]]:
    """Which entries come together, and whether they are there."""
    return [
        (it.first_index, it.last_index, not isinstance(it, DamagedRange))
        for it in source.blocks(first, last)
    ]


def test_a_folder_without_manifests_is_no_archive(tmp_path: Path) -> None:
    """
    The error says what is missing.
    """
    with pytest.raises(ArchiveError, match="no archive"):
        ArchivedSource.open(str(tmp_path))


def test_a_task_is_given_the_files_of_its_entries_and_no_manifest(archive: Path) -> None:
    """Of a hundred thousand files it is told of a few; what it reads is proven as ever."""
    source = part(archive, 4, 7)
    for path in manifests(archive):
        path.unlink()

    assert [(4, 4, True), (5, 6, True), (7, 7, True)] == spans(source, 4, 7)
    assert 3 == len(source.files)
    assert (1, ENTRIES) == (source.position().first_index, source.position().last_index)
    two = source.files[0].bytes + source.files[1].bytes
    assert [4, 6, 8] == [source.reach(3, size) for size in (1, two, 1 << 30)]


def test_each_range_has_its_files(archive: Path) -> None:
    """However it is cut; a range behind the archive has none."""
    ranges = [(1, 3), (4, 4), (5, 10), (11, 12)]
    found = ArchivedSource.open(str(archive)).parts(ranges)
    assert [2, 1, 3, 0] == [len(each.files) for each in found]


def test_what_an_archive_lacks_is_damage_to_a_task_too(archive: Path) -> None:
    """Within its files, around them, and where it has none; before the archive is nothing."""
    manifests(archive)[1].unlink()
    assert [(2, 2, True), (3, 4, False), (5, 6, True)] == spans(part(archive, 2, 6), 2, 6)
    assert [(3, 4, False)] == spans(part(archive, 3, 4), 3, 4)
    assert [(10, 10, True), (11, 12, False)] == spans(part(archive, 10, 12), 10, 12)
    manifests(archive)[0].unlink()
    with pytest.raises(RecordNotFoundError, match="begins with entry 5"):
        spans(part(archive, 3, 6), 3, 6)


def test_files_that_were_merged_meanwhile_are_read_as_what_they_are_now(archive: Path) -> None:
    """A read may be longer than superseded files are kept; each entry comes once."""
    store = Archive.open(str(archive))
    source = part(archive, 2, 7)
    group = list(store.catalogue().ranges[:4])
    merged = merge_range(group, archive=store, compression="snappy")
    store.publish(joined([merged], group[0].cluster_id))
    retire(store, now_microseconds=0)
    for each in source.files:
        (archive / each.path).unlink()

    assert [(2, 2, True), (3, 4, True), (5, 6, True), (7, 7, True)] == spans(source, 2, 7)
    (file,) = {each.path for each in store.catalogue().files(2, 7)}
    (archive / file).unlink()
    with pytest.raises(CorruptArchiveError, match="the file is missing"):
        spans(source, 2, 7)


def test_a_store_that_fails_is_told_where_the_file_is_read(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is read in place of a file that may be there."""

    def fails(_: Place, path: str) -> bool:
        raise OSError(path)

    source = part(archive, 1, 2)
    monkeypatch.setattr(Place, "has", fails)
    assert [(1, 2, True)] == spans(source, 1, 2)


def test_names_are_read_once_for_what_was_planned_together(archive: Path) -> None:
    """Many tasks of a worker ask for them, where there are too many to be carried."""
    names = part(archive, 1, 2).queue_names()
    assert ArchivedSource.open(str(archive)).queue_names() == names
    other = part(archive, 3, 4)
    for path in manifests(archive):
        path.unlink()
    assert names == other.queue_names()


def data_file(index: int, size: int) -> ArchivedFile:
    """Make what a manifest says of a file with one entry."""
    return ArchivedFile(
        path=str(index),
        day="",
        first_index=index,
        last_index=index,
        rows=1,
        messages=1,
        bytes=size,
        digest="",
        chain_before="",
        chain_after="",
    )


@pytest.mark.parametrize(
    ("count", "size", "parts"),
    [
        (0, 0, 0),
        (1, 1000, 1),
        (80, 1000, PARTS_MIN),
        (20, PART_BYTES, 20),
        (40, PART_BYTES // 2, 20),
    ],
)
def test_small_files_are_read_by_one_task(count: int, size: int, parts: int) -> None:
    """Each part begins with a file; every file is in one."""
    bases = part_bases([data_file(index, size) for index in range(1, count + 1)])
    assert parts == len(bases)
    assert not bases or bases[0] == 1
