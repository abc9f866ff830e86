"""An archive that a later version of Holdfast writes: this one says so and touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.errors import LaterArchiveError
from holdfast.spark.archive.cleaning import retire, sweep
from holdfast.spark.archive.manifest_reader import MANIFESTS
from holdfast.spark.archive.manifests import FORMAT, encode_manifest
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import keep_table
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log

IN_2100 = 4_102_444_800_000_000
ALL = ArchiveSettings(accept_gap=True, compact_count_min=2)


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    return orders_log(tmp_path / "log", *(b"%d" % number for number in range(8)))


@pytest.fixture(params=["a name as ours", "a name of its own"])
def archive(request: pytest.FixtureRequest, log: LogDirectory, tmp_path: Path) -> Archive:
    """Nine entries in three ranges; those in the middle are told of in a format of tomorrow."""
    archive = archived_log(log, tmp_path / "to", per_range=3)
    middle = archive.catalogue().ranges[1]
    folder = tmp_path / "to" / MANIFESTS
    (folder / middle.name).unlink()
    later = replace(middle, format=FORMAT + 1)
    name = later.name if request.param == "a name as ours" else f"v3-{later.name}"
    (folder / name).write_bytes(encode_manifest(later))
    return archive


def contents(archive: Archive) -> dict[Path, bytes]:
    return {it: it.read_bytes() for it in Path(str(archive)).rglob("*") if it.is_file()}


def archived(log: LogDirectory, archive: Archive) -> None:
    ArchiveRun(PaperSpark(), log, archive, ALL, None).loop(None)


Act = Callable[[LogDirectory, Archive, Any], object]


@pytest.mark.parametrize(
    "act",
    [
        lambda log, archive, _: archived(log, archive),
        lambda log, archive, _: archive_once(PaperSpark(), log, archive, ALL),
        lambda _, archive, __: compact(PaperSpark(), archive, ALL),
        lambda _, archive, __: sweep(archive, now_microseconds=IN_2100, keep_seconds=0.0),
        lambda _, archive, __: retire(archive, now_microseconds=IN_2100),
        lambda _, archive, __: keep_table(archive),
        lambda _, archive, __: archive.renew_snapshot(),
        lambda _, archive, __: ArchivedSource.open(str(archive)),
        lambda _, archive, __: audit(PaperSpark(), [], archive),  # type: ignore[arg-type]
        lambda _, archive, to: restore(
            PaperSpark(),  # type: ignore[arg-type]
            archive,
            to / "restored",
            RestoreSettings(accept_broken=True),
        ),
    ],
    ids=[
        *("run", "once", "compact", "sweep", "retire"),
        *("table", "snapshot", "load", "audit", "restore"),
    ],
)
def test_whoever_meets_it_says_so_and_changes_nothing(
    act: Act, log: LogDirectory, archive: Archive, tmp_path: Path
) -> None:
    """
    It is no damage: neither `--accept-gap` nor `--accept-broken` passes over what it holds.
    """
    before = contents(archive)

    with pytest.raises(LaterArchiveError, match=r"a later version of Holdfast .* Use that version"):
        act(log, archive, tmp_path)

    assert before == contents(archive)
    assert not (tmp_path / "restored").exists()


def test_somebodys_notes_beside_the_manifests_are_nobodys_business(
    log: LogDirectory, tmp_path: Path
) -> None:
    """
    Only what says of itself that it is a manifest of a later format is one.
    """
    archive = archived_log(log, tmp_path / "to", per_range=3)
    (tmp_path / "to" / MANIFESTS / "notes.json").write_text('{"format": 3}')
    (tmp_path / "to" / MANIFESTS / "list.json").write_text("[1, 2]")

    assert not archive.catalogue().breaks


def test_a_snapshot_of_a_later_program_is_not_written_over(
    log: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever wrote it reads it again: two versions at one archive would else write in turns.
    """
    archive = archived_log(log, tmp_path / "to", per_range=3)
    monkeypatch.setattr("holdfast.spark.archive.manifest_snapshot.UNREAD_MIN", 1)
    assert archive.renew_snapshot()
    snapshot = tmp_path / "to" / MANIFESTS / "snapshot.jsonl"
    monkeypatch.setattr(
        "holdfast.spark.archive.manifest_snapshot._HEAD", {"snapshot": 2, "of": "tomorrow"}
    )
    archived_log(log, tmp_path / "other", per_range=3).renew_snapshot()
    later = (tmp_path / "other" / MANIFESTS / "snapshot.jsonl").read_bytes()
    monkeypatch.undo()
    monkeypatch.setattr("holdfast.spark.archive.manifest_snapshot.UNREAD_MIN", 1)
    snapshot.write_bytes(later)

    assert not archive.renew_snapshot()

    assert later == snapshot.read_bytes()
    assert not archive.catalogue().breaks
