"""The machine's file system keeps what a shared disk adds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.environment.shared_disk import RealSharedDisk, SharedDisk


@pytest.fixture
def disk() -> SharedDisk:
    return RealSharedDisk()


def test_a_new_file_is_made_once(disk: SharedDisk, tmp_path: Path) -> None:
    """A name that is taken is refused, and its content stays."""
    file = disk.create(tmp_path / "a")
    file.write(b"one", 0)
    file.close()
    with pytest.raises(FileExistsError):
        disk.create(tmp_path / "a")

    assert (tmp_path / "a").read_bytes() == b"one"


def test_a_link_is_a_second_name_or_refused(disk: SharedDisk, tmp_path: Path) -> None:
    """Of two that link to one name one wins."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    disk.link(tmp_path / "a", tmp_path / "c")
    with pytest.raises(FileExistsError):
        disk.link(tmp_path / "b", tmp_path / "c")

    assert (tmp_path / "c").read_text() == "a"


def test_others_parts_stay_when_one_is_written_through(disk: SharedDisk, tmp_path: Path) -> None:
    """What is written goes where it belongs and nowhere else; a missing file is made if wanted."""
    with pytest.raises(FileNotFoundError):
        disk.open_through(tmp_path / "a")
    one, two = (disk.open_through(tmp_path / "a", create=True) for _ in range(2))
    one.write(b"one", 0)
    two.write(b"two", 3)
    for file in (one, two):
        file.close()

    assert (tmp_path / "a").read_bytes() == b"onetwo"


def test_a_lock_is_held_by_an_open_file(disk: SharedDisk, tmp_path: Path) -> None:
    """Another handle of the same process meets it too, and closing others does not lose it."""
    (tmp_path / "a").touch()
    assert not disk.is_held(tmp_path / "a")
    lock = disk.hold(tmp_path / "a")
    with pytest.raises(BlockingIOError):
        disk.hold(tmp_path / "a")
    assert disk.is_held(tmp_path / "a")

    lock.release()
    assert not disk.is_held(tmp_path / "a")
    disk.hold(tmp_path / "a").release()


def test_all_is_done_in_the_directory_that_was_there(disk: SharedDisk, tmp_path: Path) -> None:
    """Each operation goes where the path led to at first; a look within goes by the path again."""
    root = tmp_path / "share"
    (root / "sub").mkdir(parents=True)
    (root / "a").write_text("old")
    with disk.within(root) as before:
        root.rename(tmp_path / "moved")
        (root / "sub").mkdir(parents=True)
        (root / "a").write_text("new")
        assert _read(disk, root / "a") == b"old"
        with disk.within(root) as now:
            assert _read(disk, root / "a") == b"new"
        assert now != before
        disk.create(root / "sub" / "b").close()
        disk.open_through(root / "sub" / "c", create=True).close()
        disk.link(root / "sub" / "b", root / "sub" / "d")
        disk.rename(root / "sub" / "c", root / "sub" / "e")
        disk.unlink(root / "sub" / "b")
        disk.make_directory(root / "sub" / "f")
        disk.sync_directory(root)
        assert disk.list_directory(root) == ["a", "sub"]
        assert disk.exists(root / "sub" / "e") and not disk.exists(root / "sub" / "c")
        assert disk.free_bytes(root) > 0
        disk.hold(root / "a").release()
        disk.lock(root / "sub" / "g").release()
        assert not disk.is_held(root / "a")
        disk.open(tmp_path / "beside", create=True).close()

    assert sorted(it.name for it in (tmp_path / "moved" / "sub").iterdir()) == list("defg")
    assert not list((root / "sub").iterdir())
    assert (tmp_path / "beside").exists()
    assert _read(disk, root / "a") == b"new"


def test_what_is_missing_within_is_named_by_its_path(disk: SharedDisk, tmp_path: Path) -> None:
    """And so is a directory that is not there."""
    with pytest.raises(FileNotFoundError) as caught, disk.within(tmp_path):
        disk.open(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as caught, disk.within(tmp_path / "none"):
        pass
    assert str(caught.value.filename) == str(tmp_path / "none")


def test_a_file_is_known_whatever_its_name(disk: SharedDisk, tmp_path: Path) -> None:
    """By another name it is the same, and what has its name is not."""
    one = disk.create(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    other = disk.create(tmp_path / "a")

    assert disk.open(tmp_path / "b").identity() == one.identity()
    assert other.identity() != one.identity()


def _read(disk: SharedDisk, path: Path) -> bytes:
    file = disk.open(path, writable=False)
    try:
        return file.read(10, 0)
    finally:
        file.close()


def test_a_lock_goes_with_its_process(disk: SharedDisk, tmp_path: Path) -> None:
    """Who is killed holds nothing any more."""
    (tmp_path / "a").touch()
    program = (
        "import sys; from pathlib import Path;"
        "from holdfast.environment.shared_disk import RealSharedDisk;"
        "lock = RealSharedDisk().hold(Path(sys.argv[1]));"
        "sys.stdout.write('held\\n'); sys.stdout.flush(); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert disk.is_held(tmp_path / "a")
        child.kill()
        child.wait()

    assert not disk.is_held(tmp_path / "a")
