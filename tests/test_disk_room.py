"""
What tests leave on the disk, and whether there is room for them.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.disk_room import MARK, clear_after_ended_runs, mark_as_ours, missing_room

CONFTEST = """
import pytest
from tests.disk_room import FoldersOfFixtures

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(FoldersOfFixtures(config._tmp_path_factory))
"""
FILE = """
import pytest

@pytest.fixture(scope="module")
def {name}(tmp_path_factory):
    folder = tmp_path_factory.mktemp("{name}")
    yield folder
    assert folder.is_dir()  # Its own end comes first.

@pytest.fixture(scope="session")
def all_{name}(tmp_path_factory):
    return tmp_path_factory.mktemp("all_{name}")

def test_{name}({name}, all_{name}, tmp_path):
    (tmp_path / "own").touch()
    assert {outcome}
"""
SETTINGS = "[pytest]\ntmp_path_retention_policy = failed\n"


def test_only_what_a_failed_test_has_written_stays(tmp_path: Path) -> None:
    """Its own folder, and those that fixtures have made for its file."""
    project, written = tmp_path / "project", tmp_path / "written"
    project.mkdir()
    (project / "conftest.py").write_text(CONFTEST)
    (project / "pytest.ini").write_text(SETTINGS)
    for name, outcome in (("bad", False), ("good", True), ("poor", False)):
        (project / f"test_{name}.py").write_text(FILE.format(name=name, outcome=outcome))
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-q", "--basetemp", str(written), "--rootdir", str(project), str(project)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert "2 failed, 1 passed" in ended.stdout, ended.stdout
    left = {path.name for path in written.iterdir() if not path.is_symlink()}
    assert left == {"bad0", "test_bad0", "poor0", "test_poor0"}


def test_a_run_clears_what_others_have_left_that_have_ended(tmp_path: Path) -> None:
    """What a process holds that lives is left alone, and so is what another project's run wrote."""
    runs = tmp_path / "pytest-of-somebody"
    for number in range(3):
        (runs / f"pytest-{number}").mkdir(parents=True)
        (runs / f"pytest-{number}" / "data").write_bytes(b"data")
    (runs / "pytest-0" / MARK).touch()
    with (runs / "pytest-1" / MARK).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        clear_after_ended_runs(tmp_path)
        assert sorted(path.name for path in runs.iterdir()) == ["pytest-1", "pytest-2"]
    clear_after_ended_runs(tmp_path)
    assert [path.name for path in runs.iterdir()] == ["pytest-2"]
    mark_as_ours(runs / "pytest-2")
    clear_after_ended_runs(tmp_path)
    assert (runs / "pytest-2" / "data").exists()


def test_too_little_room_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Which folder, how much is needed, how much there is, and what to do."""
    assert missing_room(tmp_path, 0) is None
    needed = 1 << 40
    told = missing_room(tmp_path, needed)
    assert told is not None
    assert told.startswith(f"the tests need {needed} MiB of room in {tmp_path}, and ")
    assert "MiB are free: make room there, or name a folder on another disk with TMPDIR" in told
