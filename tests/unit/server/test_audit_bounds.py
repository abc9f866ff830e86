"""What of all that clients cause has a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.server import audit_bounds as module
from holdfast.server.audit_bounds import (
    LINE_BYTES_PER_SECOND,
    LOGIN_BYTES_MAX,
    REFUSAL_BYTES_MAX,
    AuditBounds,
    Kind,
    Moment,
    line_of,
)
from holdfast.server.line_file import FILE_BYTES_MAX, FILES_KEPT


class Paper:
    """Bounds with a clock, and the lines that they give."""

    def __init__(self) -> None:
        self.bounds = AuditBounds()
        self.now = 100.0
        self.texts: list[bytes] = []

    def note(self, kind: Kind, who: str = "", address: str = "192.0.2.1", **more: str) -> None:
        fields = {"who": who, "source": "clients", "address": address, "action": "login", **more}
        lines = self.bounds.lines(fields, kind, self.moment)
        self.texts += [it.text for it in lines]

    @property
    def moment(self) -> Moment:
        return Moment(self.now, int(self.now * 1e6))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(it) for it in self.texts]

    @property
    def said(self) -> list[tuple[str, str, str]]:
        return [(it.get("who", ""), it["action"], it.get("outcome", "")) for it in self.lines]


@pytest.fixture
def paper() -> Paper:
    return Paper()


def test_who_comes_in_again_within_a_minute_has_one_line_and_a_count(paper) -> None:
    """From another place he has another one, and so has everybody else."""
    for _ in range(1_000):
        paper.note(Kind.LOGIN, "ann")
        paper.note(Kind.LOGIN, "ann", "2001:db8:5:1::1")
        paper.note(Kind.LOGIN, "ann", "2001:db8:5:2::1")
        paper.note(Kind.LOGIN, "ben")
        paper.now += 0.01
    assert paper.said == [("ann", "login", "")] * 2 + [("ben", "login", "")]
    paper.now = 161.0
    paper.note(Kind.CHANGE, "ops", action="purge queue")
    assert paper.said[3:] == [
        *(("ann", "more logins", "999"), ("ann", "more logins", "1999")),
        *(("ben", "more logins", "999"), ("ops", "purge queue", "")),
    ]
    paper.note(Kind.LOGIN, "ann")
    assert paper.said[-1] == ("ann", "login", "")


def test_who_comes_back_after_a_minute_is_told_how_often_before_at_once(paper) -> None:
    """Also while so many others are to be told that he is not among the first."""
    for number in range(20):
        for _ in range(2):
            paper.note(Kind.LOGIN, f"u{number}")
    paper.now += 60.0
    paper.note(Kind.LOGIN, "u19")
    assert paper.said[-2:] == [("u19", "more logins", "1"), ("u19", "login", "")]
    assert len(paper.said) == 20 + 8 + 2


@pytest.mark.parametrize("kind", [Kind.LOGIN, Kind.REFUSAL])
def test_nobody_turns_the_file_over_in_ten_hours(paper, kind) -> None:
    """
    However long the names are that he gives: by bytes, and not by lines.

    What is left out is counted, and the other kind has what it had.
    """
    for number in range(20_000):
        paper.note(kind, f"{number} " + "\U0001f600" * 1_000)
        paper.now += 0.01
    written = sum(map(len, paper.texts))
    at_once = LOGIN_BYTES_MAX if kind is Kind.LOGIN else REFUSAL_BYTES_MAX
    assert written <= at_once + 201 * (LINE_BYTES_PER_SECOND + 200)
    left = sum(int(it["outcome"]) for it in paper.lines if "left out" in it["action"])
    there = sum(it["action"] == "login" for it in paper.lines)
    paper.now += 2.0
    paper.note(Kind.LOGIN if kind is Kind.REFUSAL else Kind.REFUSAL, "cas")
    left += int(paper.lines[-2]["outcome"])
    assert paper.lines[-2]["action"] == f"{kind.value} left out"
    assert there + left == 20_000
    assert paper.said[-1] == ("cas", "login", "")
    all_at_once = LOGIN_BYTES_MAX + REFUSAL_BYTES_MAX
    seconds = (FILE_BYTES_MAX * FILES_KEPT - all_at_once) / (2 * (LINE_BYTES_PER_SECOND + 100))
    assert seconds > 10 * 3600


def test_who_is_nobody_in_particular_takes_no_line_of_a_users(paper) -> None:
    """
    He is let in as he shows nothing: a stranger has as many places as he likes.

    Of one place he has one line a minute, as a user has.
    """
    for _ in range(100):
        paper.note(Kind.LOGIN)
    assert paper.said == [("", "login", "")]
    for number in range(20_000):
        paper.note(Kind.LOGIN, "", f"198.51.{number % 250}.{number // 250}")
    strangers = sum(map(len, paper.texts))
    assert strangers <= REFUSAL_BYTES_MAX + 100
    paper.note(Kind.LOGIN, "ann")
    assert paper.said[-1] == ("ann", "login", "")


def test_what_operators_change_is_always_there(paper) -> None:
    """They are not bounded, and are told apart from what stands before them."""
    for number in range(10_000):
        paper.note(Kind.LOGIN, f"{number} " + "x" * 1_000)
    paper.now += 1.0
    fields = {"action": "purge queue", "object": "x" * 10_000}
    lines = list(paper.bounds.lines(fields, Kind.CHANGE, paper.moment))
    assert [it.is_change for it in lines] == [False, True]
    assert b"purge queue" in lines[-1].text


def test_those_who_are_remembered_are_bounded(paper, monkeypatch) -> None:
    """Who finds no place has a line each time, as far as there is room."""
    monkeypatch.setattr(module, "AGAIN_COUNT_MAX", 2)
    for _ in range(2):
        for name in ("ann", "ben", "cas"):
            paper.note(Kind.LOGIN, name)
    assert [who for who, _, _ in paper.said] == ["ann", "ben", "cas", "cas"]
    assert len(paper.bounds._again[Kind.LOGIN]) == 2


def test_at_an_end_all_is_told(paper) -> None:
    """What was counted and what was left out."""
    for _ in range(3):
        paper.note(Kind.LOGIN, "ann")
    paper.note(Kind.REFUSAL, "x" * REFUSAL_BYTES_MAX)
    rest = [json.loads(it.text) for it in paper.bounds.rest(paper.moment)]
    assert [(it["action"], it["outcome"]) for it in rest] == [
        ("more logins", "2"),
        ("refusals left out", "1"),
    ]
    assert list(paper.bounds.rest(paper.moment)) == []


def test_nothing_that_a_stranger_is_called_moves_a_terminal_or_ends_a_line() -> None:
    """Controls beyond ASCII, marks that turn what is read around, other ends of lines: escaped."""
    name = "a\x1b[2J\x9b2J\u2028b\u202ec\x85\ud800"
    text = line_of(0, {"who": name, "action": "login"})
    assert text.isascii()
    assert [it for it in text if it < 32] == [10]
    assert len(text.decode().splitlines()) == 1
    assert json.loads(text)["who"] == name
