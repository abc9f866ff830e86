"""What is written is what its name leads to: a file of its own, in folders of its own, locked."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.environment.disk import DirectoryLock, DiskFile, RealDisk
from holdfast.environment.held_directory import HeldDirectory
from holdfast.environment.standing_disk import AwayError, StandingDisk

Held = tuple[StandingDisk, DirectoryLock, DiskFile]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "journal").mkdir(parents=True)
    (directory / "journal" / "1.seg").write_bytes(b"old")
    (directory / "ballot").write_bytes(b"old")
    return directory


@pytest.fixture
def held(directory: Path) -> Iterator[Held]:
    disk = StandingDisk(RealDisk())
    lock = disk.lock(directory / "lock")
    file = disk.open(directory / "journal" / "1.seg")
    yield disk, lock, file
    file.close()
    lock.release()


def bring_back(directory: Path, *names: str) -> None:
    """As rsync does: each file is written beside, and renamed over the one that is there."""
    for name in names:
        draft = directory / f"{name}.draft"
        draft.write_bytes(b"older")
        draft.replace(directory / name)


def test_backup_that_is_brought_back_into_it_is_noticed(held: Held, directory: Path) -> None:
    """The lock stays as it is, and what is written has no name any more: nobody would read it."""
    disk, lock, file = held
    bring_back(directory, "journal/1.seg")
    assert lock.stands()
    for act in (file.sync, lambda: file.write_durable([b"new"], 0)):
        with pytest.raises(AwayError, match=r"journal/1\.seg in it is another file"):
            act()
    # By path neither: what is made there would follow on what is not there.
    with pytest.raises(AwayError):
        disk.open(directory / "journal" / "2.seg", create=True)
    assert ["1.seg"] == [it.name for it in (directory / "journal").iterdir()]


def test_nobody_looks_at_the_file_and_it_is_not_noticed(
    held: Held, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above rests on: with the lock alone all of that counts as stored."""
    _, _, file = held
    monkeypatch.setattr(HeldDirectory, "why_not_standing", lambda *_: "")
    bring_back(directory, "journal/1.seg")
    file.write_durable([b"new"], 0)
    assert b"older" == (directory / "journal" / "1.seg").read_bytes()


def test_other_open_file_is_looked_at_before_a_name_is_made(held: Held, directory: Path) -> None:
    """The ballot is written rarely: a log that rolls on must not leave it behind."""
    disk, _, file = held
    ballot = disk.open(directory / "ballot")
    bring_back(directory, "ballot")
    file.write_durable([b"new"], 0)
    with pytest.raises(AwayError, match="ballot in it"):
        disk.rename(directory / "journal" / "1.seg", directory / "journal" / "2.seg")
    ballot.close()
    disk.rename(directory / "journal" / "1.seg", directory / "journal" / "2.seg")


@pytest.mark.parametrize("is_link", [True, False])
def test_folder_that_is_replaced_alone_is_noticed(
    held: Held, directory: Path, *, is_link: bool
) -> None:
    """A mount or a link of its own: the directory and its lock are the same as before."""
    disk, _, file = held
    journal = directory / "journal"
    away = journal.rename(directory.with_name("away"))
    if is_link:
        journal.symlink_to(shutil.copytree(away, directory.with_name("copy")))
    else:
        shutil.copytree(away, journal)
    with pytest.raises(AwayError, match=r"1\.seg in it"):
        file.sync()
    with pytest.raises(AwayError, match="journal in it is another folder"):
        disk.open(journal / "2.seg", create=True)
    assert not (journal / "2.seg").exists()
    if is_link:
        journal.unlink()
        journal.symlink_to(away)  # The same folder by another way stands.
    else:
        shutil.rmtree(journal)
        away.rename(journal)
    disk.open(journal / "2.seg", create=True).close()


@pytest.mark.parametrize("name", ["checkpoints", "lost+found", "kept"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_folder_that_may_be_made_anew_is_not_waited_for(
    held: Held, directory: Path, name: str, *, is_empty: bool
) -> None:
    """The pages say that it may be deleted, and nobody could put it back with its number."""
    disk, lock, file = held
    folder = directory / name
    disk.make_directory(folder)
    disk.open(folder / "old", create=True).close()
    draft = disk.open(folder / "draft", create=True)
    shutil.rmtree(folder)
    if is_empty:
        folder.mkdir()
    file.write_durable([b"new"], 0)
    draft.write(b"gone", 0)
    draft.sync()
    # As any disk says it: whoever made the draft begins again.
    with pytest.raises(FileNotFoundError):
        disk.rename(folder / "draft", folder / "new")
    draft.close()
    disk.make_directory(folder)
    disk.open(folder / "new", create=True).close()
    file.write_durable([b"newer"], 0)
    (directory / "lock").unlink()
    file.write_durable([b"newest"], 0)
    assert lock.stands() and ["new"] == disk.list_directory(folder)
    assert b"newest" == (directory / "journal" / "1.seg").read_bytes()


def test_journal_that_is_another_is_noticed_also_while_nothing_in_it_is_open(
    directory: Path,
) -> None:
    """Between two segments, and for as long as there is no room for one."""
    disk = StandingDisk(RealDisk())
    lock = disk.lock(directory / "lock")
    disk.open(directory / "journal" / "1.seg").close()
    away = (directory / "journal").rename(directory / "away")
    with pytest.raises(AwayError, match="journal in it is another folder"):
        disk.open(directory / "journal" / "2.seg", create=True)
    shutil.copytree(away, directory / "journal")
    with pytest.raises(AwayError, match="journal in it is another folder"):
        disk.open(directory / "journal" / "2.seg", create=True)
    assert not (directory / "journal" / "2.seg").exists()
    lock.release()


def test_renames_and_removals_of_its_own_are_none_of_others(held: Held, directory: Path) -> None:
    """A file becomes a segment while it is open, and one that is open is removed or replaced."""
    disk, _, file = held
    journal = directory / "journal"
    disk.rename(journal / "1.seg", journal / "2.seg")
    file.write_durable([b"a"], 0)
    removed = disk.open(journal / "3.seg", create=True)
    replaced = disk.open(directory / "ballot")
    disk.unlink(journal / "3.seg")
    disk.open(journal / "3.seg", create=True).close()
    disk.rename(journal / "3.seg", directory / "ballot")
    removed.sync()
    replaced.sync()
    removed.close()
    replaced.close()
    bring_back(directory, "journal/2.seg")
    with pytest.raises(AwayError):
        file.sync()


def test_rename_that_fails_leaves_what_is_looked_at(held: Held, directory: Path) -> None:
    """The file is where it was."""
    disk, _, file = held
    with pytest.raises(OSError, match="No such file"):
        disk.rename(directory / "journal" / "1.seg", directory / "missing" / "1.seg")
    bring_back(directory, "journal/1.seg")
    with pytest.raises(AwayError):
        file.sync()


def test_lock_whose_name_was_removed_is_made_anew(
    held: Held, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All else is ours, and who comes now is refused: nothing to wait for that cannot be."""
    caplog.set_level(logging.ERROR, logger="holdfast.disk")
    disk, lock, file = held
    (directory / "lock").unlink()
    file.write_durable([b"new"], 0)
    assert lock.stands()
    with pytest.raises(BlockingIOError):
        RealDisk().lock(directory / "lock")
    assert ["Never remove it" in it.getMessage() for it in caplog.records] == [True]
    (directory / "lock").unlink()
    disk.unlink(directory / "ballot")
    lock.release()
    RealDisk().lock(directory / "lock").release()


@pytest.mark.parametrize("is_running", [True, False])
def test_nothing_is_written_once_another_process_took_the_directory(
    held: Held, directory: Path, *, is_running: bool
) -> None:
    """The files are the same: each byte would go over what that one confirmed, also if it ended."""
    _, lock, file = held
    (directory / "lock").unlink()
    other = RealDisk().lock(directory / "lock")
    (directory / "journal" / "1.seg").write_bytes(b"of the other")
    if not is_running:
        other.release()
    acts: tuple[Callable[[], None], ...] = (
        lambda: file.write_durable([b"new"], 0),
        lambda: file.write(b"new", 0),
        lambda: file.truncate(0),
        file.sync,
    )
    for act in acts:
        with pytest.raises(AwayError, match="another process has this directory, or had it"):
            act()
    assert b"of the other" == (directory / "journal" / "1.seg").read_bytes()
    assert not lock.stands()
    other.release()


def test_lock_is_not_made_anew_in_another_directory(held: Held, directory: Path) -> None:
    """A backup leaves the lock out: what came in the place is not ours."""
    _, lock, file = held
    away = directory.rename(directory.with_name("away"))
    shutil.copytree(away, directory, ignore=shutil.ignore_patterns("lock"))
    with pytest.raises(AwayError, match="not the directory any more"):
        file.sync()
    assert not (directory / "lock").exists()
    assert not lock.stands()


def test_lock_is_not_made_anew_beside_a_backup(held: Held, directory: Path) -> None:
    """The log's file is another one as well: this process has not what it would lock."""
    _, lock, file = held
    bring_back(directory, "journal/1.seg")
    (directory / "lock").unlink()
    with pytest.raises(AwayError):
        file.write(b"new", 0)
    assert not (directory / "lock").exists()
    assert not lock.stands()


@pytest.mark.parametrize("what", ["everything", "a backup"])
def test_lock_that_is_missing_is_nobody_elses(held: Held, directory: Path, what: str) -> None:
    """All that was in the directory was removed, or a backup without a lock is there: it is told
    that what is open is all there is, and not to end this process."""
    _, _, file = held
    if what == "everything":
        for each in directory.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    else:
        (directory / "lock").unlink()
        bring_back(directory, "journal/1.seg")
    with pytest.raises(AwayError) as away:
        file.sync()
    assert "another process has this directory" not in str(away.value)


def test_lock_of_who_has_ended_is_not_made_anew(directory: Path) -> None:
    """Released is released."""
    disk = StandingDisk(RealDisk())
    lock = disk.lock(directory / "lock")
    lock.release()
    (directory / "lock").unlink()
    with pytest.raises(AwayError):
        disk.unlink(directory / "ballot")
    assert not (directory / "lock").exists()


@pytest.mark.parametrize("what", ["file", "lock"])
def test_node_says_what_to_do(
    directory: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process, or a backup that was brought back: each has its own way on."""
    monkeypatch.setattr("holdfast.environment.standing_disk.LOOK_SECONDS", 0.02)
    disk = StandingDisk(RealDisk(), waits=True)
    lock = disk.lock(directory / "lock")
    file = disk.open(directory / "journal" / "1.seg")
    kept = (directory / "kept").resolve()
    if what == "file":
        kept.hardlink_to(directory / "journal" / "1.seg")
        bring_back(directory, "journal/1.seg")
    else:
        kept.hardlink_to(directory / "lock")
        bring_back(directory, "lock")
    writer = threading.Thread(target=file.write_durable, args=([b"new"], 0), daemon=True)
    writer.start()
    writer.join(0.1)
    assert writer.is_alive()
    kept.replace(directory / ("journal/1.seg" if what == "file" else "lock"))
    writer.join(10)
    assert b"new" == (directory / "journal" / "1.seg").read_bytes()
    lock.release()
    told = " ".join(it.getMessage() for it in caplog.records)
    wanted = (
        "which other one was started on it" if what == "lock" else "over those of the same name"
    )
    assert wanted in told and "is there again: writing goes on" in told
