"""The file of who did what."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import pytest

from holdfast.errors import ConfigError
from holdfast.server import audit_file
from holdfast.server.audit_file import REFUSALS_PER_SECOND_MAX, AuditFile


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.microseconds = 1_700_000_000_000_000

    def wall_microseconds(self) -> int:
        return self.microseconds

    def monotonic(self) -> float:
        return self.microseconds / 1e6


class Watched(AuditFile):
    """Tells when something was written."""

    def __init__(self, path: Path) -> None:
        self.written: SimpleQueue[None] = SimpleQueue()
        super().__init__(path, Clock())

    def _write(self, given: list[bytes]) -> None:
        super()._write(given)
        self.written.put(None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_thing_is_a_line_with_its_time(path) -> None:
    """Only the node's user may read it."""
    file = AuditFile(path, Clock())
    file.note({"who": "J\u00fcrgen", "action": "x"})
    file.note({"who": "ben", "action": "a\nb"})
    file.close()
    first, second = lines(path)
    assert first == {"time": "2023-11-14T22:13:20.000Z", "who": "J\u00fcrgen", "action": "x"}
    assert second["action"] == "a\nb"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_that_a_stranger_is_called_moves_a_terminal_or_ends_a_line(path) -> None:
    """Controls beyond ASCII, marks that turn what is read around, other ends of lines: escaped."""
    name = "a\x1b[2J\x9b2J\u2028b\u202ec\x85\ud800"
    file = AuditFile(path, Clock())
    file.note({"who": name, "action": "login"})
    file.close()
    text = path.read_bytes()
    assert text.isascii()
    assert [it for it in text if it < 32] == [10]
    assert len(text.decode().splitlines()) == 1
    assert lines(path)[0]["who"] == name


def test_who_renames_it_gets_the_next_line_in_a_new_file(path) -> None:
    """Without a signal: logrotate renames, and that is all it has to do. So does removal."""
    file = Watched(path)
    before = path.with_suffix(".old")
    file.note({"n": "1"})
    file.written.get(timeout=10)
    path.rename(before)
    file.note({"n": "2"})
    file.written.get(timeout=10)
    path.unlink()
    file.note({"n": "3"})
    file.close()
    assert [it["n"] for it in lines(before)] == ["1"]
    assert [it["n"] for it in lines(path)] == ["3"]


def test_it_never_takes_more_than_its_room(path, monkeypatch) -> None:
    """A large one makes room for the next; the oldest goes."""
    monkeypatch.setattr(audit_file, "FILE_BYTES_MAX", 100)
    monkeypatch.setattr(audit_file, "AT_ONCE_MAX", 1)
    file = AuditFile(path, Clock())
    for number in range(20):
        file.note({"n": str(number), "fill": "x" * 100})
    file.close()
    there = sorted(it.name for it in path.parent.iterdir())
    assert there == ["audit.jsonl", *(f"audit.jsonl.{n}" for n in range(1, 5))]
    kept = [lines(path.with_name(name))[0]["n"] for name in there]
    assert kept == ["19", "18", "17", "16", "15"]


def test_who_is_refused_all_the_time_leaves_room_for_others(path) -> None:
    """In a second so many refusals, and how many more there were; what was done is all there."""
    clock = Clock()
    file = AuditFile(path, clock)
    for _ in range(REFUSALS_PER_SECOND_MAX + 7):
        file.note({"action": "login"}, is_refusal=True)
    file.note({"action": "grant"})
    clock.microseconds += 1_000_000
    file.note({"action": "login"}, is_refusal=True)
    file.close()
    found = [it["action"] for it in lines(path)]
    assert found.count("login") == REFUSALS_PER_SECOND_MAX + 1
    assert found[-3:] == ["grant", "refusals left out", "login"]
    assert lines(path)[-2]["outcome"] == "7"


def test_nobody_waits_for_a_disk_that_hangs_and_what_is_lost_is_counted(path, monkeypatch) -> None:
    """Neither who notes something, nor the end."""
    monkeypatch.setattr(audit_file, "WAITING_COUNT_MAX", 3)
    monkeypatch.setattr(audit_file, "CLOSE_SECONDS_MAX", 0.01)
    hanging, begun = Event(), Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        begun.set()
        hanging.wait(10)
        return write(descriptor, data)

    monkeypatch.setattr(audit_file.os, "write", hang)
    file = AuditFile(path, Clock())
    file.note({"n": "first"})
    assert begun.wait(10)
    for number in range(5):
        file.note({"n": str(number)})
    file.close()
    assert file._thread.is_alive()
    hanging.set()
    file._thread.join(10)
    assert [it.get("n", it.get("outcome")) for it in lines(path)] == ["first", "0", "1", "2", "2"]
    assert lines(path)[-1]["action"] == "lines lost"


def test_a_disk_that_fails_costs_lines_and_nothing_else(path, monkeypatch) -> None:
    """It is said once in a while, and counted until it can be written again."""
    complaints: list[str] = []
    monkeypatch.setattr(audit_file.log, "error", lambda said, **_: complaints.append(said))
    monkeypatch.setattr(audit_file, "AT_ONCE_MAX", 1)
    file = AuditFile(path, Clock())
    write = os.write
    failures = iter([OSError(28, "No space left on device")] * 2)

    def fail(descriptor: int, data: bytes) -> int:
        for failure in failures:
            raise failure
        return write(descriptor, data)

    monkeypatch.setattr(audit_file.os, "write", fail)
    for number in range(3):
        file.note({"n": str(number)})
    file.close()
    assert [it.get("n", it.get("outcome")) for it in lines(path)] == ["2", "2"]
    assert complaints == ["the audit file cannot be written"]


def test_one_that_cannot_be_written_ends_the_start(tmp_path) -> None:
    """Who wants it is told at once, with the setting's name."""
    with pytest.raises(ConfigError) as refused:
        AuditFile(tmp_path / "nowhere" / "audit", Clock())
    assert refused.value.problems[0].startswith("audit_file: ")
