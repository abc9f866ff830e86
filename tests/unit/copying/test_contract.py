"""What a source and a target are, whichever place they have."""

from __future__ import annotations

from pathlib import Path

from holdfast.copying.contract import CHUNK_BYTES, Source, Target
from holdfast.copying.directory_source import DirectorySource
from holdfast.copying.directory_target import DirectoryTarget, NewNode
from holdfast.copying.leased import LeasedSource, LeasedTarget
from holdfast.environment.disk import RealDisk
from tests.unit.copying.places_to_copy import SETTINGS, Time, node, served, sqlite_at


def test_each_source_gives_what_follows_and_nothing_behind_the_end(tmp_path: Path) -> None:
    """A directory and a database: the same questions, in the same words."""
    count = len(node(tmp_path / "a", 10))
    served(sqlite_at(tmp_path / "x"), count)
    sources: list[Source] = [
        DirectorySource(tmp_path / "a", RealDisk()),
        LeasedSource.open(sqlite_at(tmp_path / "x"), hold=Time().hold),
    ]
    for source in sources:
        assert [it.index for it in source.entries(3)] == list(range(4, count + 1))
        assert source.entries(count) == []
        assert source.plan.end.index == count
        source.keep()
        source.close()


def test_a_chunk_is_bounded_in_bytes(tmp_path: Path) -> None:
    """Not more than a chunk is in memory at once, but for one entry that is longer."""
    assert CHUNK_BYTES == 8 << 20
    node(tmp_path / "a", 40)
    targets: list[Target] = [
        DirectoryTarget(tmp_path / "b", NewNode(), SETTINGS),
        LeasedTarget(sqlite_at(tmp_path / "x"), ""),
    ]
    source = DirectorySource(tmp_path / "a", RealDisk())
    assert sum(len(it.raw) for it in source.entries(0)) <= 64 * 1024, "of one file"
    source.close()
    for target in targets:
        assert not target.is_whole
        target.close()
