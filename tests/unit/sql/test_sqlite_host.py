"""A disk that two machines have mounted: a SQLite database on it is one machine's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment.machine import Machine
from holdfast.errors import StoreError, UnreachableError
from holdfast.sql import sqlite_file, sqlite_host
from holdfast.sql.opening import Purpose, open_sql_log
from holdfast.sql.session import Surroundings
from holdfast.sql.sqlite_host import PAGE_BYTES, around, look_at_host
from tests.stores.leased_log_suite import SECONDS, Writer

A, B = Machine("a", "mA", "b1"), Machine("b", "mB", "b2")


class Place:
    """A folder on a local disk, and the machine that looks at it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.table = folder.with_name("mountinfo")
        self.path = folder / "log.db"
        self.file = folder / "log.db-host"
        self._monkeypatch = monkeypatch
        self.on(A)

    def on(self, machine: Machine) -> None:
        self._monkeypatch.setattr(sqlite_host, "here", lambda: machine)

    def log(self, **options: Any) -> Any:
        return open_sql_log(f"sqlite:///{self.path}", own_directory=self.folder, **options)

    @property
    def names(self) -> list[str]:
        return sorted(it.name for it in self.folder.iterdir())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    table, folder = tmp_path / "mountinfo", tmp_path / "disk"
    table.write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    monkeypatch.setattr(sqlite_file, "MOUNTINFO", table)
    folder.mkdir()
    return Place(folder, monkeypatch)


def served(place: Place) -> None:
    """A broker of this machine begins a log, and is killed: what it wrote ahead lies there."""
    log = place.log()
    log.open()
    writer = Writer(log)
    writer.take()
    writer.append(b"1")
    kept = {it: it.read_bytes() for it in place.folder.iterdir()}
    log.close()
    for it, data in kept.items():
        it.write_bytes(data)


@pytest.mark.parametrize("purpose", [Purpose.SERVE, Purpose.VISIT])
def test_a_second_machine_is_refused_before_it_opens_anything(
    place: Place, purpose: Purpose
) -> None:
    """It is told whose it is, and what to do if the disk was moved; nothing there is changed."""
    served(place)
    before = {it: it.read_bytes() for it in place.folder.iterdir()}
    place.on(B)
    log = place.log(purpose=purpose)
    with pytest.raises(StoreError, match=r"machine 'a' has it.*this is 'b'.*remove .*log.db-host"):
        log.open()
    log.close()
    assert {it: it.read_bytes() for it in place.folder.iterdir()} == before

    place.file.unlink()  # As a person does who has moved the disk.
    log = place.log()
    assert log.open().end.index == 1
    log.close()
    place.on(A)
    with pytest.raises(StoreError, match="machine 'b' has it"):
        place.log().open()


def test_without_that_both_would_begin(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ablation: nobody asks which machine this is, and the second one opens it."""
    served(place)
    place.on(B)
    monkeypatch.setattr(sqlite_host, "look_at_host", lambda *_, **__: Surroundings())
    log = place.log()
    assert log.open().end.index == 1
    log.close()


def test_who_served_and_meets_another_machine_waits(place: Place) -> None:
    """A disk that was taken away under a broker is not opened anew by it; it ends nothing."""
    log = place.log()
    log.open()
    log.close()
    place.on(B)
    with pytest.raises(UnreachableError, match="machine 'a' has it"):
        log.observe(SECONDS)
    place.on(A)
    log.observe(SECONDS)
    log.close()


def test_the_same_machine_goes_on(place: Place) -> None:
    """Whatever its next start is called; two brokers of it too."""
    served(place)
    place.on(Machine("renamed", "mA", "b7"))
    first, second = place.log(), place.log()
    first.open()
    second.open()
    for log in (first, second):
        assert log.facts().warnings == ()
        log.close()
    assert json.loads(place.file.read_bytes())["start"] == "b7"
    assert place.file.stat().st_size == PAGE_BYTES


def test_what_is_allowed_goes_on_and_is_told(place: Place) -> None:
    """An operator who knows better; the file stays with the machine that has it."""
    served(place)
    place.on(B)
    log = place.log(allow_unsafe_database=True)
    log.open()
    assert [it for it in log.facts().warnings if "machine 'a' has it" in it]
    log.close()
    assert Machine.of(json.loads(place.file.read_bytes())) == A


def test_what_cannot_be_known_is_told(place: Place) -> None:
    """A container without an id, after a start: it is let in, and whose it was stays known."""
    served(place)
    place.on(Machine("3f2a", "", "b9"))
    log = place.log()
    log.open()
    assert [it for it in log.facts().warnings if "cannot be known" in it]
    log.close()
    place.on(B)
    with pytest.raises(StoreError, match="machine 'a' has it"):
        place.log().open()


def test_what_does_not_last_is_told(place: Place) -> None:
    """R16: it is lost with the container, of which nobody was told."""
    place.table.write_text("22 1 0:9 / / rw - overlay overlay rw\n")
    log = place.log()
    log.open()
    assert [it for it in log.facts().warnings if "log.db does not last: it is in a layer" in it]
    log.close()


def test_a_command_notes_nothing(place: Place) -> None:
    """A copy that is made here may be meant for another machine; a look changes nothing at all."""
    for purpose in (Purpose.VISIT, Purpose.LOOK):
        log = place.log(purpose=purpose)
        with pytest.raises(StoreError):
            log.open_existing()
        log.close()
    look_at_host(place.path, A, may_note=False)
    assert place.names == []
    served(place)
    place.on(B)
    log = place.log(purpose=Purpose.LOOK)
    assert log.open_existing().end.index == 1
    log.close()


@pytest.mark.parametrize("said", [b"", b"{", b"\xff\xfe", b"7", b"\0" * 4096])
def test_what_is_not_whole_says_nothing(place: Place, said: bytes) -> None:
    """As after a crash while it was written: the next one writes it anew."""
    place.file.write_bytes(said)
    assert look_at_host(place.path, A, may_note=True) == Surroundings()
    assert Machine.of(json.loads(place.file.read_bytes())) == A


def test_a_disk_without_room_lets_go_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it could not be noted is told, and tried again with the next connection."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        (told,) = look_at_host(place.path, A, may_note=True).told
        assert "cannot be noted there (No space left on device)" in told
    assert look_at_host(place.path, A, may_note=True) == Surroundings()
    assert Machine.of(json.loads(place.file.read_bytes())) == A


def test_it_is_beside_the_file_that_a_link_leads_to(place: Place, tmp_path: Path) -> None:
    """As SQLite's own files are: by any way to it it is the same one."""
    link = tmp_path / "link.db"
    link.symlink_to(place.path)
    assert around(str(link), may_note=True) == Surroundings()
    assert place.file.exists()


def test_this_machine_is_looked_at() -> None:
    """Without other word it is the one that this runs on."""
    assert sqlite_host.here().name
