"""Where the path leads to: one log, in one directory for each call."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

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
        path.way.look()
    path.refusal = ""
    path.way.look()
    assert path.forgot == 1


def test_what_was_away_is_looked_at(path: Shared) -> None:
    """The same directory, and another log in it."""
    path.way.look()
    path.places.store.unlink()
    path.lay_out("2" * 32)
    path.way.look()
    path.way.note_away()
    with pytest.raises(UnreachableError, match="another log now"):
        path.way.look()
