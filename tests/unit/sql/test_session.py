"""What sessions of all dialects share, shown on one that only writes down what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from holdfast.environment.remote_server import Host
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.parts import Part
from holdfast.sql.session import Session, Values
from holdfast.sql.url import StoreUrl


class WrittenDown(Session):
    """Answers each write with the next of `counts`."""

    dialect = sqlite.dialect(paramstyle="named")
    errors = (ValueError,)

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)
        self.written: list[str] = []

    @classmethod
    def connect(cls, url: StoreUrl, host: Host | None, seconds: float) -> WrittenDown:
        return cls()

    def bound(self, seconds: float) -> None: ...

    def write(self, statement: str, values: Values | None = None) -> int:
        self.written.append(statement)
        return self.counts.pop(0) if self.counts else 0

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        return []

    def append(self, fence: Values, parts: Sequence[Part]) -> bool:
        return False

    def unsafe_settings(self) -> list[str]:
        return []

    @staticmethod
    def fault(error: Exception) -> Fault:
        return Fault.UNKNOWN

    def lay_out(self, creations: Sequence[str]) -> None: ...

    def close(self) -> None: ...


class Percent(WrittenDown):
    """A driver that wants its values otherwise."""

    dialect = postgresql.dialect(paramstyle="pyformat")


def test_values_stand_as_the_driver_wants_them() -> None:
    """The same text for each dialect, written for each once."""
    statement = "SELECT x FROM y WHERE a = :first AND b < :first AND c = :second"

    assert WrittenDown().text(statement) == statement
    assert Percent().text(statement) == (
        "SELECT x FROM y WHERE a = %(first)s AND b < %(first)s AND c = %(second)s"
    )
    assert Percent().text(statement) is Percent().text(statement)


def test_a_transaction_ends_with_its_commit() -> None:
    """What fails inside is not committed; the connection is not used any more then."""
    session = WrittenDown()
    with session.transaction():
        session.write("x")
    assert session.written == ["BEGIN", "x", "COMMIT"]

    session = WrittenDown()
    with pytest.raises(ValueError, match="no"), session.transaction():
        raise ValueError("no")
    assert session.written == ["BEGIN"]


def test_what_is_not_ours_any_more_is_not_cleaned() -> None:
    """The rows go only behind the fence, in one transaction with it."""
    held, deposed = WrittenDown(0, 1), WrittenDown(0, 0)

    assert held.clean({})
    assert held.written == ["BEGIN", statements.CLEAN, statements.DELETE, "COMMIT"]
    assert not deposed.clean({})
    assert deposed.written == ["BEGIN", statements.CLEAN, "COMMIT"]
