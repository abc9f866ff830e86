"""
The room that tests take on the disk: little, and given back.

Journals are allocated ahead, in three copies, and a run starts hundreds of brokers: what all of
them write is many times what any one moment needs. So what a test that has passed wrote goes when
it ends (`tmp_path_retention_policy`), and what a fixture wrote for all tests of a file goes with
the fixture, unless one of them has failed. What a killed run leaves the next one clears; and a run
without the room it needs does not begin.

Invariants:
    Nothing of a run whose process lives is removed.
    What a failed test wrote, and what it shared with its file, stays until the next run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

MARK: Final = ".holdfast"
"""Locked by the run whose folder it is in: the system frees it whatever ends the process."""
MIB: Final = 1 << 20
ROOM_MIB: Final = 4096
"""Free before `make test` begins: three times what it was seen to have on the disk at once."""


class FoldersOfFixtures:
    """Removes what a fixture has made by `tmp_path_factory` when the fixture ends."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._mktemp = factory.mktemp
        self._made: list[list[Path]] = []
        factory.mktemp = self._noted  # type: ignore[method-assign]

    def _noted(self, basename: str, numbered: bool = True) -> Path:
        folder = self._mktemp(basename, numbered)
        if self._made:
            self._made[-1].append(folder)
        return folder

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Note what it makes; what is to be done at its end is done in the opposite order."""
        if "tmp_path_factory" not in fixturedef.argnames or fixturedef.argname == "tmp_path":
            return (yield)
        folders: list[Path] = []
        failed = request.session.testsfailed

        def remove() -> None:
            if fixturedef.scope == "session" or request.session.testsfailed == failed:
                for folder in folders:
                    shutil.rmtree(folder, ignore_errors=True)

        fixturedef.addfinalizer(remove)
        self._made.append(folders)
        try:
            return (yield)
        finally:
            self._made.pop()


def folder_of_runs() -> Path:
    """Where runs have their folders: as pytest finds it."""
    return Path(os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())


def clear_after_ended_runs(folder: Path) -> None:
    """Remove what runs have left that ended before; pytest keeps a killed one's for three days."""
    for mark in folder.glob(f"pytest-of-*/pytest-*/{MARK}"):
        with suppress(OSError), mark.open() as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)


def mark_as_ours(folder: Path) -> None:
    """Hold a folder for as long as this process lives."""
    descriptor = os.open(folder / MARK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def missing_room(folder: Path, needed_mib: int = ROOM_MIB) -> str | None:
    """Tell what to do where there is too little room; None where there is enough."""
    free = shutil.disk_usage(folder).free // MIB
    if free >= needed_mib:
        return None
    return (
        f"the tests need {needed_mib} MiB of room in {folder}, and {free} MiB are free: make room"
        " there, or name a folder on another disk with TMPDIR"
    )
