"""Laying out a database, once, and refusing one that is not ours or not whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.sql import layout, schema, statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import Values
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.url import SQLITE, StoreUrl

PLACE = "the database"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SqliteSession]:
    url = StoreUrl(SQLITE, (), str(tmp_path / "x.db"))
    session = SqliteSession.connect(url, None, 1)
    yield session
    session.close()


def lay_out(session: SqliteSession) -> str:
    numbers = count(0xA)
    return layout.lay_out(session, PLACE, lambda: f"{next(numbers):032x}")


def refusal(session: SqliteSession) -> str:
    with pytest.raises(StoreError) as raised:
        lay_out(session)
    assert PLACE in str(raised.value)
    return str(raised.value)


def test_it_is_laid_out_once(session: SqliteSession) -> None:
    """Its id is drawn then, and found ever after."""
    assert layout.read_identity(session, PLACE) is None
    assert lay_out(session) == f"{0xA:032x}"
    assert layout.lay_out(session, PLACE, lambda: "f" * 32) == f"{0xA:032x}"
    assert session.rows("SELECT format, member_id FROM holdfast_meta") == [(1, f"{0xB:032x}")]


def test_another_version_is_refused(session: SqliteSession) -> None:
    """Both versions are named; nothing is changed."""
    lay_out(session)
    session.write("UPDATE holdfast_meta SET format = 2")

    assert "have format 2, and this version of Holdfast knows format 1" in refusal(session)


@pytest.mark.parametrize("table", ["holdfast_lease", "holdfast_entries", "holdfast_brokers"])
def test_tables_of_somebody_else_are_refused(session: SqliteSession, table: str) -> None:
    """A table of our name without the one that says what it is: nothing is made beside it."""
    session.write(f"CREATE TABLE {table} (x)")

    assert f"has a table {table} and no holdfast_meta" in refusal(session)
    assert session.rows("SELECT COUNT(*) FROM sqlite_master") == [(1,)]


def test_a_table_that_lacks_a_column_is_refused(session: SqliteSession) -> None:
    """By the database's own error, before anything is written."""
    lay_out(session)
    session.write("ALTER TABLE holdfast_lease DROP COLUMN event")

    with pytest.raises(sqlite3.OperationalError) as raised:
        lay_out(session)
    assert session.fault(raised.value) is Fault.NO_COLUMN


def test_a_table_that_is_gone_is_not_made_again(session: SqliteSession) -> None:
    """L38: an empty one would be a log that lost everything, and looked well."""
    lay_out(session)
    session.write("DROP TABLE holdfast_entries")

    with pytest.raises(sqlite3.OperationalError) as raised:
        lay_out(session)
    assert session.fault(raised.value) is Fault.NO_TABLE


def test_a_log_whose_name_is_gone_does_not_begin_again(session: SqliteSession) -> None:
    """L42: neither where the lease is there still, nor where only entries are."""
    lay_out(session)
    session.write("DELETE FROM holdfast_meta")
    assert "the row of holdfast_meta" in refusal(session)

    session.write("DELETE FROM holdfast_lease")
    session.write("INSERT INTO holdfast_entries VALUES (7, 0, 1, 1, 1, 1, 1, x'00')")
    assert "has entries, and the row of holdfast_meta" in refusal(session)


def test_a_layout_that_was_broken_off_is_finished(session: SqliteSession) -> None:
    """Where tables are made one by one, the first of them says whose they are."""
    session.write(schema.creations(session.dialect)[0])

    assert lay_out(session) == f"{0xA:032x}"
    assert len(session.rows(statements.READ_LEASE)) == 1


def test_another_that_is_quicker_is_as_good(
    session: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L43: its rows are there when ours are to be written: they are the log's."""
    write = SqliteSession.write

    def raced(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        if statement == statements.INSERT_LEASE:
            monkeypatch.setattr(SqliteSession, "write", write)
            self.write(statement, values)
            self.write(
                statements.INSERT_META, {"format": 1, "store_id": "c" * 32, "member_id": "d" * 32}
            )
            self.write("COMMIT")
            self.write("BEGIN")
        return write(self, statement, values)

    monkeypatch.setattr(SqliteSession, "write", raced)

    assert lay_out(session) == "c" * 32


def test_a_lock_is_waited_for_again(
    session: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L43: another one that lays it out keeps the tables locked; not for ever."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    failures = [error, error]
    make = SqliteSession.lay_out

    def busy(self: SqliteSession, creations: list[str]) -> None:
        if failures:
            raise failures.pop()
        make(self, creations)

    monkeypatch.setattr(SqliteSession, "lay_out", busy)
    assert lay_out(session) == f"{0xA:032x}"
    session.write("DROP TABLE holdfast_meta")
    for table in ("holdfast_lease", "holdfast_entries", "holdfast_brokers"):
        session.write(f"DROP TABLE {table}")
    failures += [error] * 20
    with pytest.raises(sqlite3.OperationalError):
        lay_out(session)


def test_the_view_is_for_people_and_may_fail(session: SqliteSession) -> None:
    """It shows the lease; where it cannot be made, that is said and nothing else happens."""
    lay_out(session)
    assert not layout.make_view(session)
    assert session.rows("SELECT ID, BROKER_NAME FROM ACTIVEMQ_LOCK") == [(1, "")]
    session.write("DROP VIEW ACTIVEMQ_LOCK")
    session.write("PRAGMA query_only = 1")

    assert layout.make_view(session).startswith("the view ACTIVEMQ_LOCK could not be made: ")


@pytest.mark.parametrize("there", [(), (1, 2, 3), (1, 2, 3, 4, 5)])
def test_a_lease_that_ends_elsewhere_than_the_entries_is_refused(
    session: SqliteSession, there: tuple[int, ...]
) -> None:
    """A backup that was brought back in part is found out before anybody serves."""
    lay_out(session)
    layout.require_whole(session, PLACE)
    session.write("UPDATE holdfast_lease SET last_index = 4")
    for index in there:
        session.write(
            "INSERT INTO holdfast_entries VALUES (:index, 0, 1, 1, 1, 1, 1, 'x')", {"index": index}
        )

    found = f"they end with {max(there)}" if there else "none is there"
    with pytest.raises(StoreError, match=f"{PLACE} says that its entries end with 4, and {found}"):
        layout.require_whole(session, PLACE)


def test_a_log_that_was_cleaned_to_its_end_is_whole(session: SqliteSession) -> None:
    """Nothing is to be there."""
    lay_out(session)
    session.write("UPDATE holdfast_lease SET last_index = 4, first_index = 5")
    layout.require_whole(session, PLACE)


def test_what_was_begun_by_others_and_not_ended_is_no_log(session: SqliteSession) -> None:
    """Tables without rows, as while a backup is brought back: nothing is written beside them."""
    session.lay_out(schema.creations(session.dialect))
    with pytest.raises(StoreError, match="has no log, and this broker belongs to one"):
        layout.lay_out(session, PLACE, None)
    assert session.rows("SELECT * FROM holdfast_lease") == []
