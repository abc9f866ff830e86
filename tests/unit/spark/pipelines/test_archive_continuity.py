"""
Whether a log goes on where an archive ends: the same entries, or others in their place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.archive_continuity import check_same_log
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range
from trials.pipeline.written_log import orders_log


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """The first six entries of a log."""
    source = orders_log(tmp_path / "log", *BODIES[:5])
    made = Archive.open(str(tmp_path / "archive"))
    wanted = LogRange(1, 6, FIRST_CHAIN.hex())
    written = write_range(wanted, source=source, archive=made, names={})
    made.publish(joined([written], source.position().cluster_id))
    return made


def check(source: LogDirectory, archive: Archive, position: LogPosition | None = None) -> None:
    check_same_log(source, archive, archive.catalogue(), position or source.position())


BODIES = [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("count", [3, 5, 9], ids=["behind", "level", "ahead"])
def test_the_same_log_goes_on_whatever_its_length(
    archive: Archive, tmp_path: Path, count: int
) -> None:
    """A node that is behind has the same entries, fewer of them."""
    check(orders_log(tmp_path / "same", *BODIES[:count]), archive)


@pytest.mark.parametrize("count", [1, 3, 9], ids=["behind", "level", "ahead"])
def test_another_entry_in_the_place_of_one_is_told(
    archive: Archive, tmp_path: Path, count: int
) -> None:
    """Also if the log is shorter, and if it has grown beyond the archive since."""
    other = orders_log(tmp_path / "other", *BODIES[:2], *[b"other"] * count)
    with pytest.raises(ArchiveError, match=r"promoted by force(.|\n)*another --to"):
        check(other, archive)


def test_nothing_is_proven_where_they_have_nothing_in_common(
    archive: Archive, tmp_path: Path
) -> None:
    """An archive that is empty, a log that is, and one that was cleaned beyond the archive."""
    other = orders_log(tmp_path / "other", b"other")
    check_same_log(other, archive, Catalogue(), other.position())
    check(other, archive, LogPosition(first_index=3, last_index=2))
    check(other, archive, LogPosition(first_index=20, last_index=30))
