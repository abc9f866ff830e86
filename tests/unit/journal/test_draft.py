"""Whose the draft of a directory is: of one at a time, and of nobody once a process has ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError, StoreLockedError
from holdfast.journal import draft
from holdfast.journal.draft import Draft, check_empty, check_not_restored_now

OTHER = """
import pathlib, sys
from holdfast.journal.draft import Draft
draft = Draft(pathlib.Path(sys.argv[1]))
draft.path.mkdir()
(draft.path / "left").touch()
print("held", flush=True)
sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def filled(directory: Path) -> Draft:
    """A draft with something in it."""
    held = Draft(directory)
    held.path.mkdir()
    (held.path / "written").touch()
    return held


def test_what_cannot_be_replaced_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, and where a file system is mounted: found at the end all was copied for nothing."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ConfigError, match="link is a link, to real: name what it leads to"):
        Draft(tmp_path / "link")
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    with pytest.raises(ConfigError, match="real is where a file system is mounted"):
        Draft(tmp_path / "real")
    assert names(tmp_path) == ["link", "real"]


def test_a_draft_gets_the_directorys_name(tmp_path: Path) -> None:
    """Folders above it are made, an empty directory is replaced, and nothing is left beside it."""
    above = tmp_path / "not" / "there"
    held = filled(above / "new")
    (above / "new").mkdir()
    held.finish(RealDisk())
    held.release()
    assert (names(above), names(above / "new")) == (["new"], ["written"])
    with pytest.raises(ConfigError, match="not empty"):
        check_empty(above / "new")


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """As long as it lives the draft is its own; what it left is removed."""
    new = tmp_path / "new"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", OTHER, str(new)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreLockedError, match=f"another process is restoring to {new} at"):
            Draft(new)
        with pytest.raises(StoreLockedError, match="another process"):
            check_not_restored_now(new)
        other.kill()

    check_not_restored_now(new)
    assert names(tmp_path) == ["new.restoring", "new.restoring.lock"]
    held = Draft(new)
    assert not held.path.exists()
    held.release()
    assert names(tmp_path) == []


def fail(held: Draft) -> None:
    held.release()


def end(held: Draft) -> None:
    held.finish(RealDisk())
    held.release()


@pytest.mark.parametrize("ends", [fail, end])
def test_who_comes_as_another_ends_finds_how_it_ended(
    ends: Callable[[Draft], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock that it opened is not the one of that name any more, or there is a directory."""
    first = [filled(tmp_path / "new")]
    plain = draft.fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        if first:
            ends(first.pop())
        plain(descriptor, operation)

    monkeypatch.setattr(draft.fcntl, "flock", late)
    if ends is end:
        with pytest.raises(ConfigError, match="not empty"):
            Draft(tmp_path / "new")
        assert names(tmp_path / "new") == ["written"]
    else:
        held = Draft(tmp_path / "new")
        with pytest.raises(StoreLockedError, match="another process"):
            Draft(tmp_path / "new")
        held.release()
    assert names(tmp_path) == (["new"] if ends is end else [])
