"""Two archivers that write to one archive at the same moment: nothing published is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.archive import cleaning
from holdfast.spark.archive.cleaning import UNNAMED_SECONDS, sweep
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from trials.pipeline import written_log
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log

SECOND = "the second archiver"
LATER = time.time_ns() // 1000 + 3 * UNNAMED_SECONDS * 1_000_000


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive.open(str(tmp_path / "to"))


@pytest.fixture
def both(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Archives two logs; the second archiver has looked before the first one publishes."""
    publish, looked, published = Archive.publish, Event(), Event()

    def waiting(self: Archive, manifest: Manifest) -> None:
        if current_thread().name == SECOND:
            looked.set()
            assert published.wait(60)
        publish(self, manifest)

    def run(first: LogDirectory, second: LogDirectory) -> None:
        monkeypatch.setattr(Archive, "publish", waiting)
        slow = Thread(target=archive_once, args=(PaperSpark(), second, archive), name=SECOND)
        slow.start()
        assert looked.wait(60)
        archive_once(PaperSpark(), first, archive)
        published.set()
        slow.join()
        monkeypatch.setattr(Archive, "publish", publish)

    return run


def log_of_another_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, *bodies: bytes) -> Path:
    with monkeypatch.context() as patch:
        patch.setattr(written_log, "CLUSTER_ID", b"another cluster.")
        orders_log(folder, *bodies)
    return folder


def chains(source: LogSource, last: int) -> bytes:
    """What stands for every byte of these entries."""
    return b"".join(
        block.chains for block in source.blocks(1, last) if isinstance(block, EntryBlock)
    )


@pytest.mark.parametrize("count", [3, 5])
def test_two_clusters_take_nothing_from_each_other(
    count: int,
    archive: Archive,
    both: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Both have moved their holds, so both need what they archived: it stays, and it is told.

    Whether they end with the same entry or not; and who goes on is told, too.
    """
    other = LogDirectory(
        str(log_of_another_cluster(tmp_path / "other", monkeypatch, b"x", b"y", b"z"))
    )
    ours = orders_log(tmp_path / "log", *(b"%d" % number for number in range(count)))
    both(ours, other)

    breaks = archive.catalogue().breaks
    assert breaks
    assert {each.kind for each in breaks} <= {"cluster"}
    assert sweep(archive, now_microseconds=LATER) == 0
    for log in (ours, other):
        with pytest.raises(ArchiveError, match="cluster"):
            archive_once(PaperSpark(), log, archive)
    manifests = sorted((tmp_path / "to" / "_holdfast").iterdir())
    for kept, away in (manifests, manifests[::-1]):
        away.rename(tmp_path / away.name)
        source = ArchivedSource.open(str(tmp_path / "to"))
        log = ours if source.position().cluster_id == ours.position().cluster_id else other
        last = log.position().last_index
        assert source.position().last_index == last, kept
        assert chains(source, last) == chains(log, last)
        (tmp_path / away.name).rename(away)


def test_one_log_archived_twice_is_there_once(
    archive: Archive, both: Callable[..., None], tmp_path: Path
) -> None:
    """Of two manifests of one range the same one counts whoever looks; the other one goes."""
    log = orders_log(tmp_path / "log", b"1", b"2", b"3")
    both(log, log)

    (chosen,) = archive.catalogue().ranges
    assert len(list((tmp_path / "to" / "_holdfast").iterdir())) == 2
    assert archive.catalogue().breaks == ()
    archive_once(PaperSpark(), orders_log(tmp_path / "log", b"4"), archive)
    sweep(archive, now_microseconds=LATER)
    assert archive.catalogue().ranges[0] == chosen
    source, last = ArchivedSource.open(str(tmp_path / "to")), log.position().last_index
    assert chains(source, last) == chains(log, last)


@pytest.mark.parametrize("compact_bytes", [1_200, 60_000])
def test_two_compactions_that_know_of_each_other_too_late_let_nothing_go(
    compact_bytes: int, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Each has looked before the other published, and lets go afterwards what it saw replaced: what
    the one takes for replaced may be what the other one keeps.
    """
    log = orders_log(tmp_path / "log", *(b"%d" % number for number in range(16)))
    archived_log(log, tmp_path / "to", per_range=1)
    settings = ArchiveSettings(compact_bytes=compact_bytes, compact_count_min=4)
    publish, set_aside = Archive.publish, cleaning._set_superseded_aside
    half_done, looked, seen, gone = Event(), Event(), Event(), Event()
    published: list[Manifest] = []

    def half(self: Archive, manifest: Manifest) -> None:
        if current_thread().name != SECOND:
            if published:
                half_done.set()
                assert looked.wait(60)
            published.append(manifest)
        publish(self, manifest)

    def late(*arguments: Any) -> None:
        if current_thread().name == SECOND:
            looked.set()
            assert seen.wait(60)
            set_aside(*arguments)
            gone.set()
        else:
            half_done.set()  # in case that it had one range to publish
            seen.set()
            assert gone.wait(60)
            set_aside(*arguments)

    def second() -> None:
        assert half_done.wait(60)
        compact(PaperSpark(), archive, settings)
        looked.set()  # in case that there was nothing to be merged
        gone.set()

    monkeypatch.setattr(Archive, "publish", half)
    monkeypatch.setattr(cleaning, "_set_superseded_aside", late)
    other = Thread(target=second, name=SECOND)
    other.start()
    compact(PaperSpark(), archive, settings)
    half_done.set()
    seen.set()
    other.join()
    source = ArchivedSource.open(str(tmp_path / "to"))
    assert () == source.catalogue.breaks
    assert chains(source, log.position().last_index) == chains(log, log.position().last_index)
