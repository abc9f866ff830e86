"""The log in the files of a stopped node: verified, then read, never written."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.copying.scanned_log import ScannedLog
from holdfast.environment.disk import RealDisk
from holdfast.errors import CorruptEntryError, StoreError
from tests.unit.copying.places_to_copy import node


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "journal").glob("*.segment"))


def test_every_entry_is_read_file_by_file(tmp_path: Path) -> None:
    """In order, over all its files; nothing of them is changed."""
    entries = node(tmp_path, 60)
    assert len(segments(tmp_path)) > 1
    before = [it.read_bytes() for it in segments(tmp_path)]
    log = ScannedLog(tmp_path, RealDisk())
    found = []
    while more := log.entries(len(found)):
        found += more
    assert found == entries
    assert log.entries(9)[0] == entries[9]
    assert log.ballot is not None
    assert log.first is not None
    assert log.first.base_index == 1
    assert [it.read_bytes() for it in segments(tmp_path)] == before


def test_damage_is_named_and_nothing_is_read(tmp_path: Path) -> None:
    """An entry that was durable once and is wrong now: whatever is copied would lack it."""
    node(tmp_path, 60)
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[4096 + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptEntryError) as raised:
        ScannedLog(tmp_path, RealDisk())
    assert raised.value.segment == path.name


def test_damage_since_it_was_verified_is_found(tmp_path: Path) -> None:
    """Checksums are looked at whenever an entry is read."""
    entries = node(tmp_path, 60)
    log = ScannedLog(tmp_path, RealDisk())
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[4096 + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptEntryError):
        log.entries(0)
    assert entries


def test_an_end_of_which_nobody_knows_is_for_its_node(tmp_path: Path) -> None:
    """Torn or rotten cannot be told here: the sentence says who settles it."""
    entries = node(tmp_path, 3)
    path = segments(tmp_path)[-1]
    data = bytearray(path.read_bytes())
    end = 4096 + sum(len(it.raw) for it in entries)
    data[end - 20] ^= 1
    path.write_bytes(data)
    ballot = (tmp_path / "ballot").read_bytes()
    (tmp_path / "ballot").unlink()
    with pytest.raises(StoreError, match="start the node on it once, which settles that"):
        ScannedLog(tmp_path, RealDisk())
    assert ballot
