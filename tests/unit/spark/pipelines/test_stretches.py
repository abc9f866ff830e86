"""Which parts of an archive are read where some of it is missing, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.spark.archive.manifests import Manifest, resolve
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.stretches import gaps_of, load_stretches

CHAIN = "ab" * 16


def archived(*ranges: tuple[int, int]) -> ArchivedSource:
    """An archive of these ranges, as far as its manifests tell."""
    manifests = [
        Manifest(
            cluster_id="c" * 32,
            first_index=first,
            last_index=last,
            chain_before=CHAIN,
            chain_after=CHAIN,
            last_term=1,
            first_record=first,
            next_record=last + 1,
            first_timestamp=0,
            last_timestamp=0,
            messages=0,
            log_bytes=0,
            files=(),
        )
        for first, last in ranges
    ]
    return ArchivedSource(Archive.open("/nowhere"), resolve(manifests))


class PaperFrames:
    """In place of a session: every read is a list of the entries it asks for."""

    def __init__(self, asked: list[tuple[str, str]] | None = None) -> None:
        self.asked = asked or []
        self.given: dict[str, str] = {}

    @property
    def read(self) -> PaperFrames:
        return PaperFrames()

    def format(self, _: str) -> PaperFrames:
        return self

    def options(self, **given: str) -> PaperFrames:
        self.given = given
        return self

    def load(self) -> PaperFrames:
        place = (self.given.get("start_index", ""), self.given.get("end_index", ""))
        return PaperFrames([place])

    def union(self, other: PaperFrames) -> PaperFrames:
        return PaperFrames([*self.asked, *other.asked])


def test_all_stretches_are_read_in_their_order_and_gaps_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A replay and a report go on behind a gap; a whole archive is read in one.
    """
    session: Any = PaperFrames()
    whole: Any = load_stretches(session, {}, archived((1, 2), (3, 4)))
    lacking = archived((1, 2), (3, 3), (6, 8))
    rest: Any = load_stretches(session, {}, lacking)

    assert ([("", "")], [("1", "3"), ("6", "8")]) == (whole.asked, rest.asked)
    assert 1 == len(gaps_of(lacking))
    assert "entries 4 to 5 are missing" in caplog.text


def test_only_an_archive_has_gaps(tmp_path: Path) -> None:
    """
    What a log lacks is damage, and told by who reads it.
    """
    assert [] == gaps_of(LogDirectory(str(tmp_path)))
