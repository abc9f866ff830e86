"""Who looks at an archive again and again reads each manifest once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import ArchiveError, UnreadableArchiveError
from holdfast.spark.archive.manifest_reader import MANIFESTS, ManifestReader
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Nine entries in three ranges."""
    log = orders_log(tmp_path / "log", *(b"%d" % number for number in range(8)))
    return archived_log(log, tmp_path / "to", per_range=3)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each file was read."""
    found: Counter[str] = Counter()
    before = Place.read

    def counted(place: Place, path: str) -> bytes:
        found[path.rpartition("/")[2]] += 1
        return before(place, path)

    monkeypatch.setattr(Place, "read", counted)
    return found


def manifests(archive: Archive) -> list[Path]:
    return sorted((Path(str(archive)) / MANIFESTS).iterdir())


def test_each_manifest_is_read_once(archive: Archive, read: Counter[str]) -> None:
    """
    However often it is looked, and whoever asks for the end; then only what is new.
    """
    third = manifests(archive)[2]
    content = third.read_bytes()
    third.unlink()
    reader = archive.reader()
    for _ in range(3):
        assert 2 == len(reader.catalogue().ranges)
        assert 6 == reader.end()[0]
    third.write_bytes(content)
    for _ in range(3):
        assert 9 == reader.end()[0]
        assert 9 == reader.catalogue().last_index

    assert {1} == {read[it.name] for it in manifests(archive)}


def test_what_is_proven_is_read_anew(archive: Archive, read: Counter[str]) -> None:
    """
    A manifest that has rotted since is found, and what is known afterwards is what was read.
    """
    reader = archive.reader()
    reader.catalogue()
    path = manifests(archive)[1]
    path.write_bytes(path.read_bytes().replace(b'"messages": 3', b'"messages": 7'))
    found = reader.look(proving=True).catalogue

    assert ["manifest", "gap"] == [each.kind for each in found.breaks]
    assert [2, 3, 2] == [read[it.name] for it in manifests(archive)], "what differs once more"
    assert found == reader.catalogue()


def test_the_end_of_a_long_archive_is_found_by_one_manifest(
    archive: Archive, read: Counter[str]
) -> None:
    """
    Who only wants to know where to go on reads no other.
    """
    assert 9 == ManifestReader(archive.place).end()[0]
    assert {manifests(archive)[2].name: 1} == read


def test_an_end_that_cannot_be_read_is_told(archive: Archive) -> None:
    """
    Nothing is added behind it.
    """
    path = manifests(archive)[2]
    path.write_bytes(path.read_bytes().replace(b'"messages": 3', b'"messages": 7'))
    reader = archive.reader()
    reader.catalogue()

    with pytest.raises(ArchiveError, match="changed after it was written"):
        reader.end()


def test_what_came_otherwise_once_is_read_once_more(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A store may err once; an archive that is not whole would end who archives.
    """
    before, seen = Place.read, set[str]()

    def errs_once(place: Place, path: str) -> bytes:
        content = before(place, path)
        if path in seen:
            return content
        seen.add(path)
        return content.replace(b'"messages": 3', b'"messages": 7')

    monkeypatch.setattr(Place, "read", errs_once)

    assert not archive.catalogue(with_snapshot=False).breaks
    seen.clear()
    assert 9 == archive.end()[0]
    for manifest in archive.catalogue().ranges:
        seen.clear()
        archive.check_manifest(manifest)


def test_what_comes_otherwise_each_time_is_a_store_that_errs(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Nothing is known of the manifest then: it is neither damaged nor passed over.
    """
    before, numbers = Place.read, count(1)

    def errs(place: Place, path: str) -> bytes:
        content = before(place, path)
        return content.replace(b'"messages": 3', b'"messages": %d' % (3 + next(numbers)))

    manifest = archive.catalogue().ranges[1]
    monkeypatch.setattr(Place, "read", errs)
    for ask in (archive.catalogue, archive.end, lambda: archive.check_manifest(manifest)):
        with pytest.raises(UnreadableArchiveError, match="otherwise each time"):
            ask()


def test_a_snapshot_is_written_when_it_lacks_many(
    archive: Archive, read: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whether it does is known without reading it again.
    """
    monkeypatch.setattr("holdfast.spark.archive.manifest_snapshot.UNREAD_MIN", 1)
    reader = archive.reader()

    assert [True, False, False] == [reader.renew_snapshot() for _ in range(3)]
    assert 1 == read["snapshot.jsonl"], "in vain, at the beginning"
    read.clear()
    assert 3 == len(ManifestReader(archive.place).catalogue().ranges)
    assert {"snapshot.jsonl": 1} == read
