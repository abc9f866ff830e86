"""The users of a chaos run, and the search for what they showed (S14)."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest

from trials.chaos import people
from trials.chaos.people import OPERATOR_USER, People, found_in
from trials.chaos.worker import LOGIN_VARIABLE, PASSCODE_VARIABLE

PEOPLE = People("correct-horse", "hf_Y2hhb3M.battery", "staple", "stapel")


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_a_folder_without_them_is_clean(tmp_path: Path) -> None:
    """Empty files, links, and what is no file are no trouble; what is kept of them is none."""
    put(tmp_path / "a" / "empty", b"")
    put(tmp_path / "a" / "segment", b"$argon2id$v=19$" + bytes(70_000))
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert PEOPLE.left_in(tmp_path) == []


@pytest.mark.parametrize("name", list(PEOPLE.words))
@pytest.mark.parametrize(
    "place", ["a.log", "clients/h.jsonl", "a/journal/0001.seg", "a/core.17", "a.audit.jsonl"]
)
def test_one_that_was_planted_is_found(tmp_path: Path, name: str, place: str) -> None:
    """Whatever kind of file it is in, and wherever in it; else nobody knew that it can be found."""
    put(tmp_path / "b.log", b"nothing of it")
    put(tmp_path / place, bytes(1_234_567) + PEOPLE.words[name] + b"\n")
    assert PEOPLE.left_in(tmp_path) == [f"{name} stands in {place}"]


@pytest.mark.parametrize("before", range(20))
def test_one_that_lies_across_two_pieces_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Files are read piece by piece, as they are larger than what memory is there for."""
    monkeypatch.setattr(people, "_PIECE_BYTES", 16)
    put(tmp_path / "a", bytes(before) + b"correct-horse" + bytes(40))
    assert [it for _, it in found_in(tmp_path, {"it": b"correct-horse", "x": b"y"})] == ["it"]


def test_each_is_told_once_for_each_file(tmp_path: Path) -> None:
    """However often it stands there."""
    put(tmp_path / "b", b"word word")
    put(tmp_path / "a", b"word")
    found = [(str(path), name) for path, name in found_in(tmp_path, {"it": b"word"})]
    assert found == [("a", "it"), ("b", "it")]


def test_words_are_shown_by_nothing_and_workers_differ() -> None:
    """Not in a trace of the run itself; some workers log in by the password, some by the token."""
    for word in PEOPLE.words.values():
        assert word.decode() not in repr(PEOPLE)
    shown = {PEOPLE.environment(it)[PASSCODE_VARIABLE] for it in ("h-producers", "s-consumers.2")}
    assert shown == {PEOPLE.password, PEOPLE.token}
    assert PEOPLE.environment("sweeper")[LOGIN_VARIABLE] == people.CLIENT_USER
    header = b64encode(f"{OPERATOR_USER}:{PEOPLE.operators_password}".encode())
    assert header in PEOPLE.words.values()
