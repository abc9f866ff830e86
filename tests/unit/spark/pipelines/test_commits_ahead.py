"""
Commits that follow each other: the next one's ranges are written while one is published.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import pytest

from holdfast.errors import ArchiveError, LinkError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.range_writer import DATA
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines import archive as module
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_log import WrittenLog, message

SEGMENT = 8192
ENTRIES = 40
ONE_BY_ONE = ArchiveSettings(tasks_per_commit=1)


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    """Several segments; a queue is declared in the first, and one where it is first used."""
    with WrittenLog(tmp_path / "log", segment_bytes=SEGMENT) as written:
        written.put(QueueRecord(1, "orders"))
        for _ in range(ENTRIES):
            written.put(message(1, written.journal.last_index, bytes(500)))
        written.put(QueueRecord(2, "late"))
        for number in range(1, ENTRIES):
            written.put(message(2, number, bytes(500)))
    return LogDirectory(str(tmp_path / "log"))


@pytest.fixture
def store(tmp_path: Path) -> Archive:
    return Archive.open(str(tmp_path / "to"))


@pytest.fixture(autouse=True)
def _no_tasks_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """On paper no task is at work when its job has failed."""
    monkeypatch.setattr(module, "TASKS_END_SECONDS", 0)


def files(store: Archive) -> set[str]:
    folder = Path(store.place.uri) / DATA
    return {f"{DATA}/{path.relative_to(folder)}" for path in folder.rglob("*.parquet")}


def named(store: Archive) -> set[str]:
    return {file.path for file in store.catalogue().files()}


def test_the_next_ranges_are_written_while_one_is_published(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each manifest but the last waits until a range behind it is being written."""
    last = log.position().last_index
    begun: dict[int, Event] = {}
    write, publish, here = module.write_range, Archive.publish, get_ident()

    def noted(wanted: Any, **rest: Any) -> Any:
        begun.setdefault(wanted.first_index, Event()).set()
        return write(wanted, **rest)

    def waiting(self: Archive, manifest: Manifest) -> None:
        assert get_ident() == here
        following = manifest.last_index + 1
        if following <= last:
            assert begun.setdefault(following, Event()).wait(60)
        publish(self, manifest)

    monkeypatch.setattr(module, "write_range", noted)
    monkeypatch.setattr(Archive, "publish", waiting)
    told: list[int] = []
    done = archive_once(
        PaperSpark(), log, store, ONE_BY_ONE, told=lambda progress: told.append(progress.last_index)
    )
    catalogue = store.catalogue()
    assert (catalogue.last_index, catalogue.breaks) == (last, ())
    assert told == [manifest.last_index for manifest in catalogue.ranges]
    assert done.commits == len(catalogue.ranges) > 3
    assert files(store) == named(store)
    assert set(catalogue.queues.values()) == {"orders", "late"}


def test_what_is_written_ahead_of_a_failure_is_given_up(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left that no manifest names, the first error is told, and a later run goes on."""
    publish, published = Archive.publish, []

    def failing(self: Archive, manifest: Manifest) -> None:
        if len(published) == 2:
            raise ArchiveError("no room")
        published.append(manifest)
        publish(self, manifest)

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "publish", failing)
        with pytest.raises(ArchiveError, match="no room"):
            archive_once(PaperSpark(), log, store, ONE_BY_ONE)
    assert list(store.catalogue().ranges) == published
    # The commit that failed leaves its files: a store may have taken a manifest all the same.
    left = files(store) - named(store)
    assert {int(Path(path).name[:20]) for path in left} == {published[-1].last_index + 1}
    archive_once(PaperSpark(), log, store, ONE_BY_ONE)
    assert store.catalogue().last_index == log.position().last_index


def test_a_failed_task_leaves_nothing_of_the_others(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries again every few seconds fills the store else; and later all is archived."""
    write, last = module.write_range, log.position().bases[-1]

    def failing(wanted: Any, **rest: Any) -> Any:
        if wanted.first_index == last:
            raise LinkError("the node is gone")
        return write(wanted, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_range", failing)
        for _ in range(3):
            with pytest.raises(LinkError):
                archive_once(PaperSpark(), log, store)
            assert files(store) == named(store)
    archive_once(PaperSpark(), log, store)
    assert store.catalogue().last_index == log.position().last_index
    assert files(store) == named(store)


def test_a_task_that_goes_on_for_a_while_leaves_nothing_either(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark ends the others some seconds after the job has failed: one may finish until then."""
    write, still_at_work = module.write_range, []

    def failing(wanted: Any, **rest: Any) -> Any:
        if wanted.first_index == 1:
            return write(wanted, **rest)
        still_at_work.append(partial(write, wanted, **rest))
        raise LinkError("the node is gone")

    monkeypatch.setattr(module, "write_range", failing)
    monkeypatch.setattr(module, "TASKS_END_SECONDS", 5)
    monkeypatch.setattr(module.time, "sleep", lambda _: still_at_work[0]())
    with pytest.raises(LinkError):
        archive_once(PaperSpark(), log, store)
    assert len(still_at_work) == 1
    assert files(store) == named(store)


def test_a_failed_merge_leaves_nothing_of_the_others(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again after each commit."""
    archive_once(PaperSpark(), log, store, ONE_BY_ONE)
    before, merge, calls = files(store), module.merge_range, []

    def failing(group: Any, **rest: Any) -> Any:
        calls.append(group)
        if len(calls) == 2:
            raise OSError("the disk is full")
        return merge(group, **rest)

    ranges = store.catalogue().ranges
    two_groups = sum(it.log_bytes for it in ranges) * 2 // 3
    settings = ArchiveSettings(compact_bytes=two_groups, compact_count_min=2)
    monkeypatch.setattr(module, "merge_range", failing)
    with pytest.raises(OSError, match="the disk is full"):
        compact(PaperSpark(), store, settings)
    assert len(calls) == 2
    assert files(store) == before


def test_whoever_is_told_may_stop_it(log: LogDirectory, store: Archive) -> None:
    """An interrupt between two commits leaves the first, and nothing of the second."""

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive_once(PaperSpark(), log, store, ONE_BY_ONE, told=stop)
    assert len(store.catalogue().ranges) == 1
    assert files(store) == named(store)


def test_an_error_of_what_is_ahead_comes_after_its_predecessor_is_told(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was archived is archived; the error is that of the range which failed."""
    write = module.write_range

    def failing(wanted: Any, **rest: Any) -> Any:
        if wanted.first_index > 1:
            raise OSError("the disk is full")
        return write(wanted, **rest)

    monkeypatch.setattr(module, "write_range", failing)
    told = []
    with pytest.raises(OSError, match="the disk is full"):
        archive_once(PaperSpark(), log, store, ONE_BY_ONE, told=told.append)
    assert len(told) == len(store.catalogue().ranges) == 1
