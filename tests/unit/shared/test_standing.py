"""Whether what was written stands under its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.environment.shared_disk import RealSharedDisk
from holdfast.errors import UnreachableError
from holdfast.shared.standing import Standing, require_standing

DISK = RealSharedDisk()
Look = Callable[[Path, Standing], None]


@pytest.fixture
def written(tmp_path: Path) -> Standing:
    file = DISK.create(tmp_path / "a")
    file.write(b"one two", 0)
    return Standing(file, file.identity(), ((0, b"one"), (4, b"two")))


@pytest.fixture(params=["as of NFS", "as of a local disk"])
def look(request: pytest.FixtureRequest) -> Look:
    is_coherent = request.param == "as of a local disk"

    def look(root: Path, written: Standing) -> None:
        require_standing(DISK, root, root / "a", written, is_coherent=is_coherent)

    return look


def test_it_stands_there(written: Standing, tmp_path: Path, look: Look) -> None:
    """The same file, with what was written; whatever stands beside that."""
    written.file.write(b"-", 3)
    look(tmp_path, written)


def test_a_copy_of_the_file_is_another_one(written: Standing, tmp_path: Path, look: Look) -> None:
    """However alike they are: what is written next is not in it."""
    (tmp_path / "b").write_bytes(b"one two")
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(
        UnreachableError, match=r"a is not the file that this broker writes: a copy"
    ):
        look(tmp_path, written)


def test_a_file_that_is_gone_is_waited_for(written: Standing, tmp_path: Path, look: Look) -> None:
    """An older copy of the directory has none yet."""
    (tmp_path / "a").unlink()
    with pytest.raises(UnreachableError, match=r"a is not there: a copy of .*, or an older state"):
        look(tmp_path, written)


@pytest.mark.parametrize("content", [b"one", b"0ne two", b""])
def test_an_older_content_of_the_same_file_is_noticed(
    written: Standing, tmp_path: Path, look: Look, content: bytes
) -> None:
    """Copied over it in place, or of a replica that was behind."""
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UnreachableError, match="has not what this broker wrote there"):
        look(tmp_path, written)
