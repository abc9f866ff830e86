"""Which moment is restored: without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import ArchiveError, ConfigError, UnreadableArchiveError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.restore import (
    RestoreSettings,
    _scratch,
    as_of_index,
    index_at,
    usable_files,
)
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range
from trials.pipeline.written_log import FIRST_TIME, STEP_MICROSECONDS, WrittenLog, message


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Ten entries, a second apart."""
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        for sequence in range(1, 10):
            log.put(message(1, sequence))
    found = Archive.open(str(tmp_path / "archive"))
    source = LogDirectory(str(tmp_path / "log"))
    for first, last in ((1, 4), (5, 10)):
        before = None if first > 1 else bytes(16).hex()
        written = write_range(LogRange(first, last, before), source=source, archive=found, names={})
        found.publish(joined([written], source.position().cluster_id))
    return found


@pytest.mark.parametrize(
    ("seconds", "index"), [(0, 1), (0.5, 1), (3, 4), (3.9, 4), (6, 7), (6.7, 7), (9, 10), (999, 10)]
)
def test_the_last_entry_at_or_before_a_time(archive: Archive, seconds: float, index: int) -> None:
    """
    Between ranges, inside one, and behind the end.
    """
    moment = FIRST_TIME + int(seconds * STEP_MICROSECONDS)

    assert index == index_at(archive, archive.catalogue(), moment)


def test_a_time_before_the_archive_is_refused(archive: Archive) -> None:
    """
    Nothing is known of it.
    """
    with pytest.raises(ArchiveError, match="begins after"):
        index_at(archive, archive.catalogue(), FIRST_TIME - 1)


def test_one_moment_only(archive: Archive) -> None:
    """
    An index and a time together are a mistake; neither means the end.
    """
    catalogue = archive.catalogue()

    assert 10 == as_of_index(archive, catalogue, RestoreSettings())
    assert 3 == as_of_index(archive, catalogue, RestoreSettings(as_of_index=3))
    with pytest.raises(ConfigError, match="one of them"):
        as_of_index(archive, catalogue, RestoreSettings(as_of_index=3, as_of_time=5))
    with pytest.raises(ArchiveError, match="not in it"):
        as_of_index(archive, catalogue, RestoreSettings(as_of_index=11))


def test_an_archive_of_a_cleaned_log_is_incomplete_at_first(archive: Archive) -> None:
    """
    Before the log says that everything older was written again nobody knows what lived.
    """
    late = archive.catalogue().ranges[1]
    never = Catalogue((late,))
    later = Catalogue((replace(late, cleaned_through=4, complete_from=8),))

    with pytest.raises(ArchiveError, match="does not reach"):
        as_of_index(archive, never, RestoreSettings())
    with pytest.raises(ArchiveError, match="complete from entry 8"):
        as_of_index(archive, later, RestoreSettings(as_of_index=7))
    assert 8 == as_of_index(archive, later, RestoreSettings(as_of_index=8))


def test_workers_find_what_is_packed_wherever_they_stand(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Executors stand in folders of their own; and two restores share a scratch folder, not their own.
    """
    monkeypatch.chdir(tmp_path)
    log = SimpleNamespace(scratch=Path("new.draft/scratch"))
    assert str(_scratch(RestoreSettings(), log, archive)) == str(tmp_path / log.scratch)
    settings = RestoreSettings(scratch="shared")
    one, other = (Path(str(_scratch(settings, log, archive))) for _ in range(2))
    assert one.parent == other.parent == tmp_path / "shared"
    assert one != other
    settings = RestoreSettings(scratch="s3a://backup/scratch")
    assert str(_scratch(settings, log, archive)).startswith("s3a://backup/scratch/")


class PaperSpark:
    """Does the workers' work at once."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self, items: list[Any] | None = None) -> None:
        self.sparkContext = self
        self.items = items or []

    def parallelize(self, items: list[Any], _: int) -> PaperSpark:
        return PaperSpark(items)

    def flatMap(self, task: Callable[[Any], list[Any]]) -> PaperSpark:  # noqa: N802 - Spark's name
        return PaperSpark([found for item in self.items for found in task(item)])

    def collect(self) -> list[Any]:
        return self.items


@pytest.mark.parametrize("is_verified", [True, False])
def test_what_a_store_does_not_give_now_is_never_left_out(
    is_verified: bool, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A restore that accepts what is broken would be of less than there is, for good.
    """
    catalogue = archive.catalogue()
    first, second = catalogue.files()
    lenient = RestoreSettings(accept_broken=True, is_verified=is_verified)
    plain = Place.open_input

    def failing(place: Place, path: str) -> Any:
        if path == second.path:
            raise OSError("AWS Error SLOW_DOWN: 503")
        return plain(place, path)

    (Path(archive.place.uri) / first.path).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(Place, "open_input", failing)
        for settings in (lenient, replace(lenient, accept_broken=False)):
            with pytest.raises(UnreadableArchiveError) as caught:
                usable_files(PaperSpark(), archive, catalogue, 10, settings)
            assert str(caught.value).startswith(f"{second.path}: cannot be read: AWS Error SLOW_")
            assert "1 of 2 files" in str(caught.value)

    files, missing = usable_files(PaperSpark(), archive, catalogue, 10, lenient)
    assert files == [second]
    assert missing[0].startswith(f"{first.path}: the file is missing")
