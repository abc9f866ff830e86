"""Where the path leads to: one log, in one directory for each call."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.environment.shared_disk import RealSharedDisk
from holdfast.errors import StoreError, UnreachableError
from holdfast.shared.places import Places
from holdfast.shared.store_file import Origin, lay_out
from holdfast.shared.way import Way

IDENTITY = "1" * 32


class Shared:
    """A directory with a log, the way to it, and what was asked of it."""

    def __init__(self, root: Path) -> None:
        self.disk = RealSharedDisk()
        self.places = Places(root / "shared")
        self.lay_out(IDENTITY)
        self.refusal = ""
        self.forgot = 0
        self.way = Way(self.disk, self.places, judge=self.judge, forget=self.forget)
        self.way.note_opened(IDENTITY)

    def lay_out(self, identity: str) -> None:
        lay_out(self.disk, self.places, Origin(identity).fields(), identity)

    def judge(self) -> None:
        if self.refusal:
            raise StoreError(self.refusal)

    def forget(self) -> None:
        self.forgot += 1

    def replace(self, identity: str) -> None:
        """Put another directory in its place."""
        root = self.places.root
        root.rename(root.with_name(f"before-{identity}"))
        self.lay_out(identity)


@pytest.fixture
def path(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def test_a_call_is_made_in_one_directory(path: Shared) -> None:
    """What comes in its place meanwhile is neither read nor written by it."""

    def call() -> None:
        path.replace("2" * 32)
        path.disk.create(path.places.journal / "made").close()

    path.way.make(call)

    assert not (path.places.journal / "made").exists()
    before = path.places.root.with_name(f"before-{'2' * 32}")
    assert (before / "journal" / "made").exists()


def test_before_it_is_opened_a_call_goes_by_the_path(tmp_path: Path) -> None:
    """The directory may not be there yet."""
    places = Places(tmp_path / "none")
    way = Way(RealSharedDisk(), places, judge=lambda: None, forget=lambda: None)

    assert way.make(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        way.note_opened(IDENTITY)


def test_another_directory_with_the_log_is_gone_on_with(
    path: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, and what was read before is forgotten."""
    path.replace(IDENTITY)
    with caplog.at_level(logging.WARNING, "holdfast.shared"):
        for _ in range(2):
            assert path.way.make(lambda: 7) == 7

    assert caplog.text.count("leads to another directory than before, with the same log") == 1
    assert path.forgot == 1


def test_another_log_is_waited_out(path: Shared) -> None:
    """No call is made there."""
    path.replace("2" * 32)
    with pytest.raises(UnreachableError, match=f"has another log now \\({'2' * 32}\\)"):
        path.way.make(lambda: pytest.fail("it was made"))
    assert not path.forgot


def test_what_is_unsafe_for_a_while_is_waited_out(path: Shared) -> None:
    """Something may be mounted over it as it came: a refusal would end every broker for good."""
    path.replace(IDENTITY)
    path.refusal = "'soft' is no way to mount it"
    with pytest.raises(UnreachableError, match=r"has what cannot be used now: 'soft' is no way"):
        path.way.make(lambda: None)
    path.refusal = ""
    path.way.make(lambda: None)
    assert path.forgot == 1


def test_what_was_away_is_looked_at(path: Shared) -> None:
    """The same directory may have another log in it."""
    root = path.places.root
    root.rename(root.with_name("away"))
    with pytest.raises(UnreachableError, match=r"shared is not there: see whether .* is mounted"):
        path.way.make(lambda: None)
    root.with_name("away").rename(root)
    path.places.store.unlink()
    path.lay_out("2" * 32)
    with pytest.raises(UnreachableError, match="another log now"):
        path.way.make(lambda: None)


def test_what_is_there_again_was_away_for_a_moment(path: Shared) -> None:
    """It was missed by a call, and all is well by now: that ended the holder for good."""
    root = path.places.root

    def call() -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file", str(root / "current"))

    def other() -> None:
        raise FileNotFoundError(errno.ENOENT, "no such file")

    for it, name in ((call, "current"), (other, "shared")):
        with pytest.raises(UnreachableError, match=f"{name} is not there: see whether"):
            path.way.make(it)
    path.way.make(lambda: None)


@pytest.mark.parametrize("name", ["current", "lease", "journal", "brokers"])
def test_a_part_that_is_removed_is_gone(path: Shared, name: str) -> None:
    """The rest is there before and after: one sentence, which has nobody put an older one back."""
    part = path.places.root / name
    part.rename(part.with_name("aside"))
    with pytest.raises(StoreError, match=f"{name} is gone, and the rest of .* is there") as caught:
        path.way.make(lambda: path.disk.identity(part))
    assert not isinstance(caught.value, UnreachableError)
    assert "the whole directory back from the newest copy" in str(caught.value)


def test_a_file_that_may_come_or_go_is_waited_for(path: Shared) -> None:
    """One that is named and not seen yet; and `store`, without which nothing says what is there."""
    for it in (path.places.beat(3), path.places.store):
        it.unlink(missing_ok=True)
        with pytest.raises(UnreachableError, match=f"{it.name} is not there"):
            path.way.make(lambda it=it: path.disk.identity(it))


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EACCES])
def test_whatever_cannot_be_asked_may_pass(path: Shared, number: int) -> None:
    """By the call, by the look that comes before, and by the one that comes after."""

    class Failing(RealSharedDisk):
        def open(self, path: Path, **others: Any) -> Any:
            raise OSError(number, os.strerror(number))

    def call() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(UnreachableError, match="shared cannot be reached: "):
        path.way.make(call)
    path.way._disk = Failing()
    path.places.current.unlink()
    path.way._was_away = False
    with pytest.raises(UnreachableError, match="current is not there"):
        path.way.make(lambda: path.disk.identity(path.places.current))
    with pytest.raises(UnreachableError, match="shared cannot be reached: "):
        path.way.make(lambda: None)


def test_want_of_room_may_pass(path: Shared) -> None:
    """It is told as that."""

    def call() -> None:
        raise NoRoomError(errno.ENOSPC, "no space left on device")

    with pytest.raises(UnreachableError, match=r"shared has no room \(make some\): no space"):
        path.way.make(call)
