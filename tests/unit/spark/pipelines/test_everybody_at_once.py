"""
Archivers, compactions and a sweep on one archive, all at once, and killed at any of their steps.

What was archived stays, and whoever goes on alone afterwards completes it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.archive.cleaning import sweep
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines import archive as pipeline
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from trials.pipeline.interleaved import Interleaved
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log

BODIES: Final = tuple(b"%d" % number for number in range(18))
ARCHIVED: Final = 11
"""So many of them are archived, a range each, when all begin."""
MERGED_BYTES: Final = (500, 1_200, 1 << 20)
"""Of the log in merged ranges: a few, some more, all."""
DAYS: Final = 24 * 3600 * 1_000_000
SEEDS: Final = range(12)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    return orders_log(tmp_path_factory.mktemp("all") / "log", *BODIES)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that all begin with."""
    folder = tmp_path_factory.mktemp("begun")
    archived_log(orders_log(folder / "log", *BODIES[:ARCHIVED]), folder / "archive", per_range=1)
    return folder / "archive"


def chains(source: LogSource) -> bytes:
    """What stands for every byte of all entries."""
    blocks = source.blocks(1, source.position().last_index)
    return b"".join(block.chains for block in blocks if isinstance(block, EntryBlock))


class Works:
    """What may be done to one archive, by processes that know nothing of each other."""

    def __init__(self, log: LogDirectory, root: Path, merged_bytes: int) -> None:
        self.log, self.root = log, root
        self._settings = ArchiveSettings(
            compact_bytes=merged_bytes, compact_count_min=2, tasks_per_commit=2
        )

    def open(self) -> Archive:
        return Archive.open(str(self.root))

    def archive(self) -> None:
        archive = self.open()
        reader = archive.reader()
        sweep(archive, now_microseconds=time.time_ns() // 1000, reader=reader)
        archive_once(PaperSpark(), self.log, archive, self._settings, reader=reader)
        compact(PaperSpark(), archive, self._settings, reader=reader)

    def merge(self) -> None:
        compact(PaperSpark(), self.open(), self._settings)

    def sweep(self, days: int = 0) -> None:
        sweep(self.open(), now_microseconds=time.time_ns() // 1000 + days * DAYS)

    def everybody(self) -> dict[str, Callable[[], None]]:
        """Two of each that writes, and one that tidies."""
        return {
            "archiver 1": self.archive,
            "archiver 2": self.archive,
            "compaction 1": self.merge,
            "compaction 2": self.merge,
            "sweep": self.sweep,
        }

    def whole(self) -> bytes:
        """All that is archived, of an archive that must hold together."""
        archive = self.open()
        catalogue = archive.catalogue(with_snapshot=False)
        assert () == catalogue.breaks
        assert 1 == catalogue.first_index
        return chains(ArchivedSource(archive, catalogue))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_archived_stays_and_is_completed(
    seed: int, log: LogDirectory, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever meets a rival's work ends with a sentence, or does what is left of its own."""
    monkeypatch.setattr(pipeline, "RANGE_ENTRIES_MAX", 2)
    monkeypatch.setattr(pipeline, "TASKS_END_SECONDS", 0.0)
    root = Path(shutil.copytree(begun, tmp_path / "archive"))
    works = Works(log, root, MERGED_BYTES[seed % len(MERGED_BYTES)])
    everything, at_least = chains(log), works.whole()
    for turn in range(2):
        together = Interleaved(2 * seed + turn, kills_share=0.01 * (seed % 3))
        together.run(works.everybody())
        said = [each for each in together.ended.values() if each is not None]
        assert all(isinstance(each, ArchiveError | OSError) for each in said), said
        assert not any("not what was archived" in str(each) for each in said)
        now = works.whole()
        assert now.startswith(at_least), "\n".join(together.steps)
        assert everything.startswith(now), "\n".join(together.steps)
        at_least = now
    works.archive()
    assert everything == works.whole()
    for days in (2, 12):
        works.sweep(days)
        assert everything == works.whole()
