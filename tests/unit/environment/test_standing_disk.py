"""A directory is used only while its path leads to the one that was locked."""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.environment.disk import DirectoryLock, Disk, RealDisk
from holdfast.environment.standing_disk import AwayError, StandingDisk

Act = Callable[[StandingDisk, Path], object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "old").write_bytes(b"old")
    return directory


@pytest.fixture
def disk(directory: Path) -> Iterator[StandingDisk]:
    disk = StandingDisk(RealDisk())
    lock = disk.lock(directory / "lock")
    yield disk
    lock.release()


def put_copy_in_place(directory: Path) -> Path:
    """Move the directory away, and a copy of it to its path; gives where it is now."""
    away = directory.with_name("away")
    directory.rename(away)
    shutil.copytree(away, directory)
    return away


def content(directory: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in directory.iterdir()}


def test_directory_that_is_there_is_a_disk_like_any(disk: StandingDisk, directory: Path) -> None:
    """All of the contract, and also beside the directory."""
    disk.make_directory(directory / "inner")
    file = disk.open(directory / "inner" / "x", create=True)
    file.write(b"abc", 0)
    file.sync()
    file.write_durable([b"d", b"e"], 1)
    file.truncate(2)
    file.forget_cached()
    assert (2, b"ad") == (file.size(), file.read(9, 0))
    file.close()
    disk.rename(directory / "inner" / "x", directory / "y")
    disk.sync_directory(directory)
    assert disk.exists(directory / "y") and disk.free_bytes(directory) > 0
    disk.unlink(directory / "old")
    disk.open(directory.with_name("beside"), create=True).close()
    assert ["inner", "lock", "y"] == disk.list_directory(directory)


@pytest.mark.parametrize(
    "act",
    [
        lambda disk, top: disk.open(top / "new", create=True),
        lambda disk, top: disk.open(top / "old"),
        lambda disk, top: disk.open(top / "old", writable=False),
        lambda disk, top: disk.rename(top / "old", top / "new"),
        lambda disk, top: disk.unlink(top / "old"),
        lambda disk, top: disk.make_directory(top / "new"),
        lambda disk, top: disk.sync_directory(top),
    ],
)
@pytest.mark.parametrize("is_copied", [True, False])
def test_nothing_is_done_in_another_directory(
    disk: StandingDisk, directory: Path, act: Act, *, is_copied: bool
) -> None:
    """Neither in a copy nor where there is none: what stands there is somebody else's."""
    if is_copied:
        put_copy_in_place(directory)
    else:
        directory.rename(directory.with_name("away"))
    with pytest.raises(AwayError, match="not the directory any more") as raised:
        act(disk, directory)
    assert errno.ESTALE == raised.value.errno
    assert not is_copied or content(directory) == {"lock": b"", "old": b"old"}


def test_what_was_open_is_not_durable_where_nobody_reads_it(
    disk: StandingDisk, directory: Path
) -> None:
    """It is written to the old directory, and must not be told to be stored."""
    file = disk.open(directory / "old")
    file.write(b"new", 0)
    away = put_copy_in_place(directory)
    acts: tuple[Callable[[], None], ...] = (
        file.sync,
        lambda: file.write_durable([b"later"], 0),
        lambda: file.write(b"later", 0),
        lambda: file.truncate(0),
    )
    for act in acts:
        with pytest.raises(AwayError):
            act()
    file.close()
    # Looked at before as well: somebody else may have the very same file.
    assert b"new" == (away / "old").read_bytes()


CALLS: dict[str, tuple[Act, object]] = {
    "open": (lambda disk, top: disk.open(top / "old").close(), None),
    "exists": (lambda disk, top: disk.exists(top / "old"), True),
    "make_directory": (lambda disk, top: disk.make_directory(top / "new"), None),
    "list_directory": (lambda disk, top: disk.list_directory(top), ["inner", "lock", "old"]),
    "rename": (lambda disk, top: disk.rename(top / "old", top / "new"), None),
    "unlink": (lambda disk, top: disk.unlink(top / "old"), None),
    "sync_directory": (lambda disk, top: disk.sync_directory(top), None),
    "free_bytes": (lambda disk, top: disk.free_bytes(top) > 0, True),
}
"""Each call of the contract, and what it gives of a directory that is there."""


def test_no_call_of_the_contract_is_forgotten() -> None:
    """What is added to the contract has to say what it does while the directory is away."""
    assert {it for it in vars(Disk) if not it.startswith("_")} == {*CALLS, "lock"}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_tells_that_the_directory_has_gone(
    disk: StandingDisk, directory: Path, name: str
) -> None:
    """Of a mirror: it is left behind, for what it is and not as if its disk had failed."""
    directory.rename(directory.with_name("away"))
    with pytest.raises(AwayError):
        CALLS[name][0](disk, directory)


@pytest.mark.parametrize("name", CALLS)
def test_each_call_waits_for_a_directory_that_has_gone(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them fails as there is nothing: to end is to serve what stands there next time."""
    monkeypatch.setattr("holdfast.environment.standing_disk.LOOK_SECONDS", 0.02)
    (directory / "inner").mkdir()
    disk = StandingDisk(RealDisk(), waits=True)
    lock = disk.lock(directory / "lock")
    away = directory.with_name("away")
    directory.rename(away)
    told: list[object] = []
    act, given = CALLS[name]
    asking = threading.Thread(target=lambda: told.append(act(disk, directory)), daemon=True)
    asking.start()
    asking.join(0.1)
    # The loop asks how much room there is, and may not wait.
    assert asking.is_alive() is (name != "free_bytes")
    away.rename(directory)
    asking.join(10)
    assert [given] == told
    lock.release()


@pytest.mark.parametrize("name", sorted({*CALLS} - {"make_directory"}))
def test_each_call_waits_for_one_that_goes_while_it_is_done(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood when it was looked at, and what is done then fails, or tells of nothing."""
    monkeypatch.setattr("holdfast.environment.standing_disk.LOOK_SECONDS", 0.02)
    (directory / "inner").mkdir()
    disk = StandingDisk(RealDisk(), waits=True)
    lock = disk.lock(directory / "lock")
    away = directory.with_name("away")
    really = getattr(RealDisk, name)
    gone = threading.Event()

    def done(*arguments: object, **how: object) -> object:
        if not gone.is_set():
            directory.rename(away)
            gone.set()
        return really(*arguments, **how)

    monkeypatch.setattr(RealDisk, name, done)
    told: list[object] = []
    act, given = CALLS[name]
    asking = threading.Thread(target=lambda: told.append(act(disk, directory)), daemon=True)
    asking.start()
    assert gone.wait(10)
    asking.join(0.1)
    away.rename(directory)
    asking.join(10)
    assert [given] == told
    lock.release()


def test_error_of_a_directory_that_is_there_is_told(disk: StandingDisk, directory: Path) -> None:
    """Only what comes of its being away is waited for."""
    with pytest.raises(FileNotFoundError):
        disk.open(directory / "missing")
    with pytest.raises(NotADirectoryError):
        disk.list_directory(directory / "old")


def test_copy_that_comes_while_a_file_is_opened_is_not_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening: the file is the copy's, and nothing has been written."""
    real = RealDisk()
    disk = StandingDisk(real)
    lock = disk.lock(directory / "lock")

    def opened(self: RealDisk, path: Path, **how: bool) -> object:
        put_copy_in_place(directory)
        return open_really(self, path, **how)

    open_really = RealDisk.open
    monkeypatch.setattr(RealDisk, "open", opened)
    with pytest.raises(AwayError):
        disk.open(directory / "old")
    lock.release()


def test_one_that_waits_goes_on_once_the_directory_is_back(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A single directory: who ended would be started again with what is there now, and who writes on
    would lose it. Both are told once; what is read is not waited for.
    """
    caplog.set_level(logging.INFO, logger="holdfast.disk")
    monkeypatch.setattr("holdfast.environment.standing_disk.LOOK_SECONDS", 0.02)
    disk = StandingDisk(RealDisk(), waits=True)
    lock: DirectoryLock = disk.lock(directory / "lock")
    file = disk.open(directory / "old")
    away = put_copy_in_place(directory)
    writer = threading.Thread(target=file.write_durable, args=([b"new"], 0), daemon=True)
    writer.start()
    disk.open(directory / "old", writable=False).close()
    writer.join(0.1)
    assert writer.is_alive()
    assert lock.stands() is False
    shutil.rmtree(directory)
    away.rename(directory)
    writer.join(10)
    assert not writer.is_alive()
    assert b"new" == (directory / "old").read_bytes()
    lock.release()
    told = [it.getMessage() for it in caplog.records]
    assert 2 == len(told)
    assert "Do not end this process before" in told[0]
    assert told[1].endswith("data is there again: writing goes on")


def test_idle_one_is_told_of_too(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody writes, and what was confirmed last may lack in what is there now."""
    monkeypatch.setattr("holdfast.environment.standing_disk.LOOK_SECONDS", 0.02)
    told = threading.Event()
    monkeypatch.setattr("logging.Logger.critical", lambda *_arguments: told.set())
    lock = StandingDisk(RealDisk(), waits=True).lock(directory / "lock")
    put_copy_in_place(directory)
    assert told.wait(10)
    lock.release()
    del caplog
