"""Tests of leases/cache.py: what an earlier process knew is there, or is forgotten as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.environment.unsynced_disk import UnsyncedDisk
from holdfast.errors import ForeignDirectoryError, StoreError, StoreLockedError
from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.leases.cache import boot_id, is_cache, open_cache

SETTINGS = JournalSettings(segment_bytes=64 * 1024)
DISK = UnsyncedDisk(RealDisk())


def opened(data: Path, boot: str = "one") -> Journal:
    """The cache as a process of this boot finds it."""
    return open_cache(data, DISK, SETTINGS, boot)


def filled(data: Path, boot: str = "one") -> None:
    """A process that has cached one entry, and ended."""
    journal = opened(data, boot)
    writer = JournalWriter(journal, lambda _result: None)
    entry = seal_entry(
        index=1,
        term=1,
        kind=KIND_RECORDS,
        timestamp=1,
        first_record=1,
        record_count=0,
        parts=[b"body"],
        previous_chain=bytes(16),
    )
    writer.turn([journal.stage([entry])])
    writer.close()
    journal.close()


def test_a_later_process_of_the_same_boot_finds_it(tmp_path: Path) -> None:
    """The page cache outlives the process."""
    filled(tmp_path)

    journal = opened(tmp_path)
    assert 1 == journal.last_index
    journal.close()
    assert is_cache(tmp_path, DISK)


@pytest.mark.parametrize("kind", ["make_directory", "open", "lock"])
@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "has no room for .* make room there"), (errno.EIO, "cannot be used")],
)
def test_a_directory_that_takes_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int, told: str
) -> None:
    """With what to do; nothing of the log is lost by it."""

    def refuse(*_: object, **_more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(UnsyncedDisk, kind, refuse)
    with pytest.raises(StoreError, match=f"{tmp_path}.*{told}"):
        opened(tmp_path)


@pytest.mark.parametrize("boot", ["two", ""])
def test_after_a_restart_of_the_machine_it_is_forgotten(tmp_path: Path, boot: str) -> None:
    """Nobody knows what of it reached the disk; also where a boot has no name."""
    filled(tmp_path)

    journal = opened(tmp_path, boot)
    assert 0 == journal.last_index
    journal.close()


def test_what_cannot_be_opened_is_read_anew(tmp_path: Path) -> None:
    """A file that is not a segment at all costs a reading, not a start."""
    filled(tmp_path)
    for path in (tmp_path / "cache" / "journal").iterdir():
        path.rename(path.with_name("99999999999999999999.segment"))

    journal = opened(tmp_path)
    assert 0 == journal.last_index
    journal.close()


def test_another_process_keeps_it(tmp_path: Path) -> None:
    """It is not emptied under whoever has it, whatever its boot is called."""
    journal = opened(tmp_path)
    for boot in ("one", "two"):
        with pytest.raises(StoreLockedError, match="another process"):
            opened(tmp_path, boot)
    journal.close()


def test_the_log_of_a_node_is_no_cache(tmp_path: Path) -> None:
    """Messages that are nowhere else are not taken for something that may go."""
    disk = RealDisk()
    Journal.open(tmp_path, disk, SETTINGS).close()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ForeignDirectoryError, match="nothing was changed"):
        opened(tmp_path)
    assert before == sorted(tmp_path.rglob("*"))
    assert not is_cache(tmp_path, disk)


def test_this_boot_has_a_name() -> None:
    """The same each time it is asked."""
    assert boot_id() == boot_id() != ""
