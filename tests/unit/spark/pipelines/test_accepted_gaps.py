"""What `archive --accept-gap` takes for a gap, and what it does not: tasks run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.journal.settings import KiB
from holdfast.spark.archive.manifest_reader import MANIFESTS
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, clean_first_segment, message, orders_log

ACCEPTING = ArchiveSettings(accept_gap=True)
MESSAGES = 8
ENTRIES = MESSAGES + 1


def cleaned(log: LogDirectory) -> None:
    """Let nothing of the first two ranges be left in it."""
    while log.position().first_index <= 6:
        clean_first_segment(Path(log.path))


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    """Each message is in a file of its own."""
    return orders_log(tmp_path / "log", *[bytes(40 * KiB)] * MESSAGES)


@pytest.fixture
def archive(log: LogDirectory, tmp_path: Path) -> Archive:
    """All of the log, in ranges of three entries; the log has one more."""
    archive = archived_log(log, tmp_path / "to", per_range=3)
    with WrittenLog(tmp_path / "log") as written:
        written.put(message(1, MESSAGES + 1, b"more", b"", "p"))
    return archive


def path_of(archive: Archive, manifest: Manifest) -> Path:
    return Path(str(archive)) / MANIFESTS / manifest.name


def damage_a_manifest(archive: Archive) -> None:
    path = path_of(archive, archive.catalogue().ranges[1])
    path.write_bytes(path.read_bytes().replace(b'"messages": 3', b'"messages": 7'))


def break_the_chain(archive: Archive) -> None:
    middle = archive.catalogue().ranges[1]
    path_of(archive, middle).unlink()
    archive.publish(replace(middle, chain_after="ff" * 16))


def let_two_overlap(archive: Archive) -> None:
    first, middle, _ = archive.catalogue().ranges
    path_of(archive, middle).unlink()
    archive.publish(replace(middle, first_index=first.last_index))


def mix_two_clusters(archive: Archive) -> None:
    middle = archive.catalogue().ranges[1]
    path_of(archive, middle).unlink()
    archive.publish(replace(middle, cluster_id="ff" * 16))


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (damage_a_manifest, "was changed after it was written"),
        (break_the_chain, "the chain is broken between entries 6 and 7"),
        (let_two_overlap, "stand only in"),
        (mix_two_clusters, "of cluster ffffffff"),
    ],
)
def test_a_break_that_is_no_gap_is_not_accepted(
    spoil: Callable[[Archive], None],
    told: str,
    is_cleaned: bool,
    log: LogDirectory,
    archive: Archive,
) -> None:
    """
    Whatever the log still has: one sentence says what it is, and nothing is added.
    """
    spoil(archive)
    if is_cleaned:
        cleaned(log)
    before = sorted(Path(str(archive)).rglob("*"))

    with pytest.raises(ArchiveError, match=f"this is no gap, .*{told}"):
        archive_once(PaperSpark(), log, archive, ACCEPTING)

    assert before == sorted(Path(str(archive)).rglob("*"))


def test_entries_that_the_log_still_has_are_no_gap(log: LogDirectory, archive: Archive) -> None:
    """
    Their manifest was lost and not the entries: accepted, they would be missing for good.
    """
    path_of(archive, archive.catalogue().ranges[1]).unlink()

    with pytest.raises(ArchiveError, match=r"the log still has these, .*entries 4 to 6"):
        archive_once(PaperSpark(), log, archive, ACCEPTING)


def test_entries_that_are_gone_from_archive_and_log_are_passed_over(
    log: LogDirectory, archive: Archive
) -> None:
    """
    Only on demand, each time; and what comes behind them is archived.
    """
    path_of(archive, archive.catalogue().ranges[1]).unlink()
    cleaned(log)

    with pytest.raises(ArchiveError, match=r"not whole, .*entries 4 to 6 are missing"):
        archive_once(PaperSpark(), log, archive)
    archive_once(PaperSpark(), log, archive, ACCEPTING)

    catalogue = archive.catalogue()
    assert ["gap"] == [each.kind for each in catalogue.breaks]
    assert ENTRIES + 1 == catalogue.last_index
