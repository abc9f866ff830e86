"""A file of lines that rotates itself."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.server import line_file
from holdfast.server.line_file import LineFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def file_at(path: Path) -> LineFile:
    return LineFile(path, lambda: 7.0, lambda lost: b"%d lost\n" % lost)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_only_the_nodes_user_may_read_it(path) -> None:
    """It says who has which name and comes from where."""
    file = file_at(path)
    file.write([b"1\n", b"2\n"])
    file.write([])
    file.close()
    assert lines(path) == ["1", "2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_renames_it_gets_the_next_line_in_a_new_file(path) -> None:
    """Without a signal: logrotate renames, and that is all it has to do. So does removal."""
    file = file_at(path)
    before = path.with_suffix(".old")
    file.write([b"1\n"])
    path.rename(before)
    file.write([b"2\n"])
    path.unlink()
    file.write([b"3\n"])
    file.close()
    assert lines(before) == ["1"]
    assert lines(path) == ["3"]


def test_it_never_takes_more_than_its_room(path, monkeypatch) -> None:
    """A large one makes room for the next; the oldest goes."""
    monkeypatch.setattr(line_file, "FILE_BYTES_MAX", 100)
    file = file_at(path)
    for number in range(20):
        file.write([b"%d " % number + bytes(100) + b"\n"])
    file.close()
    there = sorted(it.name for it in path.parent.iterdir())
    assert there == ["audit.jsonl", *(f"audit.jsonl.{n}" for n in range(1, 5))]
    kept = [lines(path.with_name(name))[0].split()[0] for name in there]
    assert kept == ["19", "18", "17", "16", "15"]


def test_a_disk_that_fails_costs_lines_and_nothing_else(path, monkeypatch) -> None:
    """It is said once in a while, and counted until it can be written again."""
    complaints: list[str] = []
    monkeypatch.setattr(line_file.log, "error", lambda said, **_: complaints.append(said))
    file = file_at(path)
    write, numbers = os.write, count()

    def fail(descriptor: int, data: bytes) -> int:
        if next(numbers) < 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(line_file.os, "write", fail)
    for number in range(3):
        file.write([b"%d\n" % number], dropped_count=number)
    file.write([b"3\n"])
    file.close()
    assert lines(path) == ["2", "5 lost", "3"], "two that failed, and three that never came"
    assert complaints == ["the audit file cannot be written"]


def test_one_that_cannot_be_written_ends_the_start(tmp_path) -> None:
    """Who wants it is told at once, with the setting's name."""
    with pytest.raises(ConfigError) as refused:
        file_at(tmp_path / "nowhere" / "audit")
    assert refused.value.problems[0].startswith("audit_file: ")
