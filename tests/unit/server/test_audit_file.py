"""The file of who did what, and the one of changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Event

import pytest

from holdfast.errors import ConfigError
from holdfast.server import audit_file, line_file
from holdfast.server.audit_bounds import LOGIN_BYTES_MAX, Kind
from holdfast.server.audit_file import AuditFile

LOGIN = {"source": "clients", "address": "192.0.2.1", "action": "login"}


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.microseconds = 1_700_000_000_000_000

    def wall_microseconds(self) -> int:
        return self.microseconds

    def monotonic(self) -> float:
        return self.microseconds / 1e6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def changes_of(path: Path) -> Path:
    return path.with_name("audit.jsonl.changes")


def test_each_thing_is_a_line_with_its_time(path) -> None:
    """And what operators change is a line of the second file, too."""
    file = AuditFile(path, Clock())
    file.note({"who": "J\u00fcrgen", "action": "x"}, Kind.CHANGE)
    file.note({"who": "ben", "action": "a\nb"}, Kind.REFUSAL)
    file.note({"who": "ben", **LOGIN}, Kind.LOGIN)
    file.close()
    first, second, third = lines(path)
    assert first == {"time": "2023-11-14T22:13:20.000Z", "who": "J\u00fcrgen", "action": "x"}
    assert (second["action"], third["action"]) == ("a\nb", "login")
    assert lines(changes_of(path)) == [first]


def test_nobody_turns_over_what_operators_did(path, monkeypatch) -> None:
    """
    Of members, transfers and promotions there is no other record, and users log in as they like.

    In the first file their lines would be gone; of the second nobody else has a line.
    """
    monkeypatch.setattr(line_file, "FILE_BYTES_MAX", 10_000)
    monkeypatch.setattr(audit_file, "AT_ONCE_MAX", 50)
    clock = Clock()
    file = AuditFile(path, clock)
    file.note({"action": "remove member", "object": "c"}, Kind.CHANGE)
    for number in range(2_000):
        who = {"who": f"ann {number}", **LOGIN, "outcome": "x" * 100}
        file.note(who, Kind.LOGIN)
        file.note(who, Kind.REFUSAL)
    file.close()
    kept = [it for it in path.parent.iterdir() if not it.name.startswith(changes_of(path).name)]
    assert len(kept) == 5
    assert not any(b"remove member" in it.read_bytes() for it in kept)
    assert [it["object"] for it in lines(changes_of(path))] == ["c"]


def test_nobody_waits_for_a_disk_that_hangs_and_what_is_lost_is_counted(path, monkeypatch) -> None:
    """
    Neither who notes something, nor the end. What operators do has a place when others' is full.
    """
    monkeypatch.setattr(audit_file, "WAITING_COUNT_MAX", 4)
    monkeypatch.setattr(audit_file, "CLOSE_SECONDS_MAX", 0.01)
    hanging, begun = Event(), Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        begun.set()
        hanging.wait(10)
        return write(descriptor, data)

    monkeypatch.setattr(line_file.os, "write", hang)
    file = AuditFile(path, Clock())
    file.note({"n": "first"}, Kind.CHANGE)
    assert begun.wait(10)
    for number in range(5):
        file.note({"n": f"refusal {number}"}, Kind.REFUSAL)
    for number in range(3):
        file.note({"n": f"change {number}"}, Kind.CHANGE)
    file.close()
    assert file._thread.is_alive()
    hanging.set()
    file._thread.join(10)
    said = [it.get("n", it.get("outcome")) for it in lines(path)]
    assert said == ["first", "refusal 0", "refusal 1", "change 0", "change 1", "4"]
    assert lines(path)[-1]["action"] == "lines lost"
    changed = [it.get("n", it.get("outcome")) for it in lines(changes_of(path))]
    assert changed == ["first", "1", "change 0", "change 1"]


def test_what_was_left_out_is_told_at_the_end_at_the_latest(path, monkeypatch) -> None:
    """How often somebody came in again, and how many lines there was no room for."""
    file = AuditFile(path, Clock())
    for _ in range(3):
        file.note({"who": "ann", **LOGIN}, Kind.LOGIN)
    file.note({"who": "x" * LOGIN_BYTES_MAX, **LOGIN}, Kind.LOGIN)
    file.close()
    said = [(it["action"], it.get("outcome")) for it in lines(path)]
    assert said == [("login", None), ("more logins", "2"), ("logins left out", "1")]


def test_one_that_cannot_be_written_ends_the_start(tmp_path) -> None:
    """Who wants it is told at once, with the setting's name."""
    with pytest.raises(ConfigError) as refused:
        AuditFile(tmp_path / "nowhere" / "audit", Clock())
    assert refused.value.problems[0].startswith("audit_file: ")
