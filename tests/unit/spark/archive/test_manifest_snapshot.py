"""
A snapshot spares reading manifests, and hides nothing that a listing or a proof would show.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.archive.manifest_reader import MANIFESTS
from holdfast.spark.archive.manifest_snapshot import (
    SNAPSHOT_NAME,
    UNREAD_MIN,
    Known,
    decode_snapshot,
    encode_snapshot,
    is_due,
)
from holdfast.spark.archive.manifests import ArchivedFile, Manifest
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive

COUNT = UNREAD_MIN + 1
"""As many as make a snapshot worth writing."""


def archived(first: int) -> ArchivedFile:
    """A file of five entries."""
    return ArchivedFile(
        path=f"records/day=2026-11-23/{first}",
        day="2026-11-23",
        first_index=first,
        last_index=first + 4,
        rows=5,
        messages=5,
        bytes=100,
        digest="d" * 32,
        chain_before="e" * 32,
        chain_after="f" * 32,
    )


def manifest(number: int) -> Manifest:
    """A range of ten entries, the first with number 1."""
    first = 10 * number - 9
    return Manifest(
        cluster_id="c",
        first_index=first,
        last_index=first + 9,
        chain_before=f"{number - 1:032x}",
        chain_after=f"{number:032x}",
        last_term=1,
        first_record=first,
        next_record=first + 10,
        first_timestamp=first,
        last_timestamp=first + 9,
        messages=10,
        log_bytes=1000,
        files=(archived(first), archived(first + 5)),
        queues={number: f"queue é {number}"},
    )


def known(count: int) -> Known:
    return {(it.name, 100, 7): it for it in map(manifest, range(1, count + 1))}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Sixty-five ranges, and their snapshot."""
    archive = Archive.open(str(tmp_path))
    for number in range(1, COUNT + 1):
        archive.publish(manifest(number))
    assert archive.renew_snapshot()
    return archive


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    names: list[str] = []
    real = Place.read

    def noted(place: Place, path: str) -> bytes:
        names.append(Path(path).name)
        return real(place, path)

    monkeypatch.setattr(Place, "read", noted)
    return names


def test_a_snapshot_reads_back() -> None:
    """Every manifest with the size and time of its file."""
    assert decode_snapshot(encode_snapshot(known(3))) == known(3)
    assert decode_snapshot(encode_snapshot({})) == {}


@pytest.mark.parametrize("data", [b"", b"\n", b"[1]\n", b'0 {"snapshot":1}\n', b"\xff\xfe"])
def test_what_is_no_snapshot_that_we_know_says_nothing(data: bytes) -> None:
    """Of another format, empty, or of somebody else."""
    assert decode_snapshot(data) == {}


def test_no_flipped_bit_makes_another_manifest_of_one() -> None:
    """The line is left out, the others stay; its file is read instead."""
    whole = known(3)
    data = encode_snapshot(whole)
    for place in range(0, len(data), 7):
        spoilt = bytearray(data)
        spoilt[place] ^= 1
        found = decode_snapshot(bytes(spoilt))
        assert all(it in whole.values() for it in found.values())


def test_one_is_due_when_many_manifests_are_not_in_it() -> None:
    """What is written again and again stays a small part of what is archived."""
    assert not is_due(64, 64)
    assert is_due(65, 65)
    assert not is_due(6_400, 200)
    assert is_due(6_400, 201)


def test_a_long_archive_is_opened_by_one_file(archive: Archive, read: list[str]) -> None:
    """And by those that came since; it is not written again for these."""
    whole = archive.catalogue(with_snapshot=False)
    assert len(read) == COUNT
    read.clear()
    assert archive.catalogue() == whole
    assert read == [SNAPSHOT_NAME]
    archive.publish(manifest(COUNT + 1))
    read.clear()
    assert archive.catalogue().last_index == whole.last_index + 10
    assert read == [SNAPSHOT_NAME, manifest(COUNT + 1).name]
    assert not archive.renew_snapshot()


def test_a_manifest_that_is_gone_is_a_gap(archive: Archive) -> None:
    """What the snapshot says of it proves only that it was there."""
    archive.place.remove(f"{MANIFESTS}/{manifest(30).name}")
    (found,) = archive.catalogue().breaks
    assert (found.kind, found.first_index, found.last_index) == ("gap", 291, 300)


def test_one_that_was_written_again_is_read(archive: Archive, tmp_path: Path) -> None:
    """By its size or its time."""
    path = tmp_path / MANIFESTS / manifest(30).name
    path.write_bytes(path.read_bytes().replace(b"e \xc3\xa9 30", b"e \xc3\xa9 31"))
    assert "was changed" in str(archive.catalogue().breaks[0])


def test_a_proof_reads_what_the_snapshot_spares(archive: Archive, tmp_path: Path) -> None:
    """A bit that rotted changes neither size nor time."""
    path = tmp_path / MANIFESTS / manifest(30).name
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"e \xc3\xa9 30", b"e \xc3\xa9 31"))

    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not archive.catalogue().breaks
    assert archive.catalogue(with_snapshot=False).breaks


def test_without_its_snapshot_an_archive_is_the_same(archive: Archive, tmp_path: Path) -> None:
    """It is removed, or spoilt."""
    whole = archive.catalogue()
    (tmp_path / MANIFESTS / SNAPSHOT_NAME).write_bytes(b"\0" * 100)
    assert archive.catalogue() == whole
    (tmp_path / MANIFESTS / SNAPSHOT_NAME).unlink()
    assert archive.catalogue() == whole


def test_the_end_is_told_by_one_manifest(archive: Archive, read: list[str]) -> None:
    """However many there are; one that is damaged is told."""
    assert archive.end() == (10 * COUNT, f"{COUNT:032x}")
    assert read == [manifest(COUNT).name]
    archive.place.publish(f"{MANIFESTS}/{manifest(COUNT).name}", b"{}")
    with pytest.raises(ArchiveError, match="cannot be read"):
        archive.end()


def test_an_archive_that_is_not_there_has_no_end(tmp_path: Path) -> None:
    """And no snapshot is written for it."""
    archive = Archive.open(str(tmp_path / "none"))
    assert archive.end() == (0, "")
    assert not archive.renew_snapshot()
