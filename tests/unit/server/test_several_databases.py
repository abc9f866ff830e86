"""Databases as an operator is told of them, and asks for them."""

from __future__ import annotations

import pytest

from holdfast.errors import MirrorError
from holdfast.leases.contract import MediumFacts
from holdfast.server.several_databases import change_database, database_statuses


class Recorder:
    """A caretaker that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def disable(self, place: str) -> None:
        self.asked.append(("disable", place))

    def enable(self, place: str) -> None:
        self.asked.append(("enable", place))

    def replace(self, place: str, by: str) -> None:
        self.asked.append(("replace", place, by))


def test_each_database_is_told_of_as_a_mirror_is() -> None:
    """What stands behind the colon is why."""
    members = (("1", "sqlite:////a.db", "active"), ("2", "sqlite:////b.db", "failed: it is full"))
    told = database_statuses(MediumFacts(kind="2 databases", place="", members=members))

    assert [(it.directory, it.state, it.reason) for it in told] == [
        ("sqlite:////a.db", "active", ""),
        ("sqlite:////b.db", "failed", "it is full"),
    ]
    assert database_statuses(MediumFacts(kind="SQLite", place="")) == ()


def test_a_database_is_meant_however_its_address_is_written() -> None:
    """With its password, or without its port."""
    recorder = Recorder()
    for action in ("disable", "enable"):
        change_database(recorder, action, "postgresql://hf:secret@db1/log", "")
    change_database(recorder, "replace", "b-member", "sqlite:////c.db")

    assert recorder.asked == [
        ("disable", "postgresql://hf@db1:5432/log"),
        ("enable", "postgresql://hf@db1:5432/log"),
        ("replace", "b-member", "sqlite:////c.db"),
    ]


def test_an_address_that_is_none_is_told_without_its_password() -> None:
    """As at the start."""
    with pytest.raises(MirrorError) as raised:
        change_database(Recorder(), "disable", "oracle://hf:secret@db1/log", "")
    assert "no database that is known" in str(raised.value)
    assert "secret" not in str(raised.value)
