"""
An archive, its table, a restore and a write that find no room, at one place of the work or another.

Each ends with one sentence that names what could not be written; nothing that was archived is gone,
and once there is room the same again is exact.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.errors import HoldfastError
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import keep_table, table_files
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines import archive as pipeline
from holdfast.spark.pipelines.archive import ArchiveSettings, compact
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.source import writer
from trials.chaos.small_disk import SmallDisk, SmallDiskError
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log

pytestmark = [pytest.mark.processes, pytest.mark.slow]

KiB: Final = 1024
MESSAGES: Final = 200
BODY_BYTES: Final = 2_000
"""That nothing makes smaller: 480 KiB of data files in all."""
ALL_BYTES: Final = 480 * KiB
SEGMENT_BYTES: Final = 256 * KiB
MERGING: Final = ArchiveSettings(compact_count_min=2)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    try:
        with SmallDisk(tmp_path_factory.mktemp("full") / "disk", 0) as small:
            yield small
    except SmallDiskError as error:
        pytest.skip(f"needs a disk that is really full: {error}")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    bodies = (Random(number).randbytes(BODY_BYTES) for number in range(MESSAGES))
    return orders_log(tmp_path_factory.mktemp("log"), *bodies)


def chains(source: LogSource) -> bytes:
    """What stands for every byte of all entries."""
    blocks = source.blocks(1, source.position().last_index)
    return b"".join(block.chains for block in blocks if isinstance(block, EntryBlock))


def files(folder: Path) -> set[Path]:
    return {it for it in folder.rglob("*") if it.is_file()}


def refused(work: Callable[[], object], folder: Path) -> bool:
    """Whether there was no room for it, which was said as it is to be."""
    try:
        work()
    except (HoldfastError, OSError) as error:
        said = str(error)
    else:
        return False
    assert "\n" not in said
    assert str(folder) in said
    assert "room" in said or "space" in said, said
    return True


def until_there_is_room(
    disk: SmallDisk, rooms: list[int], attempt: Callable[[], object], folder: Path
) -> list[bool]:
    """Attempt it with more and more room; gives how each attempt ended."""
    found = []
    for room in rooms:
        disk.make_room()
        disk.fill(room)
        found.append(refused(attempt, folder))
    disk.make_room()
    return found


def test_an_archiver_goes_on_where_it_was_once_there_is_room(
    disk: SmallDisk, log: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it could not write, file or manifest, what it has published stays."""
    monkeypatch.setattr(pipeline, "TASKS_END_SECONDS", 0.0)  # none of them runs elsewhere
    folder = disk.folder / "archive"
    archive = Archive.open(str(folder))
    published: set[Path] = set()

    def attempt() -> None:
        nonlocal published
        try:
            ArchiveRun(PaperSpark(), log, archive, MERGING, None).loop(None)
        finally:
            now = files(folder)
            aside = {Path(*it.parts[-2:]) for it in now if "_set_aside" in it.parts}
            lost = published - now
            assert all(Path(*it.parts[-2:]) in aside for it in lost), lost
            published = {it for it in now if it.suffix == ".json" and "_set_aside" not in it.parts}

    step = 40 * KiB
    rooms = [0, *range(4 * KiB, 60 * KiB, 8 * KiB), *range(step, ALL_BYTES, step)]
    ended = until_there_is_room(disk, rooms, attempt, folder)
    assert ended[0]
    attempt()
    catalogue = archive.catalogue(with_snapshot=False)
    assert () == catalogue.breaks
    assert chains(log) == chains(ArchivedSource(archive, catalogue))


def test_what_is_merged_and_tabled_goes_on_once_there_is_room(
    disk: SmallDisk, log: LogDirectory
) -> None:
    """No range goes before the merged one stands, and the table names no file that is not whole."""
    folder = disk.folder / "merged"
    archive = archived_log(log, folder, per_range=MESSAGES // 4)
    before = files(folder)

    def merge() -> None:
        compact(PaperSpark(), archive, MERGING)

    def keep() -> None:
        keep_table(archive)

    rooms = [0, *range(0, 24 * KiB, 4 * KiB), ALL_BYTES // 2]
    assert until_there_is_room(disk, rooms, keep, folder)[0]
    assert until_there_is_room(disk, rooms, merge, folder) == [True] * len(rooms)
    assert before <= files(folder)
    merge()
    keep()
    (whole,) = archive.catalogue(with_snapshot=False).ranges
    assert table_files(archive) == {file.path for file in whole.files}
    assert chains(log) == chains(ArchivedSource.open(str(folder)))


def test_a_restore_leaves_no_directory_and_is_run_again(
    disk: SmallDisk, log: LogDirectory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says where there was no room, once; the next one removes what was written."""
    archive = archived_log(log, tmp_path / "archive", per_range=MESSAGES // 4)
    folder = disk.folder / "restored"

    def attempt() -> None:
        restore(PaperSpark(), archive, folder, RestoreSettings(segment_bytes=SEGMENT_BYTES))  # type: ignore[arg-type]

    rooms = [0, 8 * KiB, 64 * KiB, SEGMENT_BYTES + 32 * KiB]
    assert until_there_is_room(disk, rooms, attempt, folder) == [True] * len(rooms)
    assert not folder.exists()
    assert "" == caplog.text
    attempt()
    assert {"ballot", "lock", "journal"} == {it.name for it in folder.iterdir()}
    assert not folder.with_name("restored.restoring").exists()


def test_rows_that_have_no_room_on_the_way_are_refused_with_their_place(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the partition was sent yet, so that Spark may try it again."""
    monkeypatch.setattr(tempfile, "tempdir", str(disk.folder))
    monkeypatch.setattr(writer, "SPOOL_BYTES", 1_000)
    batch = pa.record_batch({"body": [Random(1).randbytes(100 * KiB)]})

    def spool() -> None:
        with writer.SpooledRows("orders") as rows:
            for _ in range(3):
                rows.add(batch)
            assert 3 == sum(each.num_rows for each in rows.batches())

    ended = until_there_is_room(disk, [0, 50 * KiB, 250 * KiB], spool, disk.folder)
    assert [True] * 3 == ended
    spool()
    with pytest.raises(OSError, match="TMPDIR") as told:
        disk.fill()
        spool()
    disk.make_room()
    assert errno.ENOSPC == told.value.errno
