"""What a database shows of the queues, over SQLite where nothing depends on the dialect."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from holdfast.leases.projection import Changes, Span
from holdfast.sql import layout, projection, schema, statements
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.url import StoreUrl
from tests.unit.leases.test_projection import message_row, row

HELD = {"epoch": 1, "holder": "a" * 32, "at": 5, "last": 0}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SqliteSession]:
    """A database that is laid out, its lease held by one whose epoch is 1."""
    url = StoreUrl(kind="sqlite", hosts=(), database=str(tmp_path / "store.db"))
    made = SqliteSession.connect(url, None, 5.0)
    layout.lay_out(made, "here", lambda: "b" * 32)
    taken = {"name": "a", "address": "", "stomp": "", "lease_ms": 0, "beat": 0}
    assert made.write(statements.TAKE, {**HELD, **taken, "epoch": 0, "was": layout.NOBODY}) == 1
    assert layout.make_projections(made) == ""
    yield made
    made.close()


def shown(session: SqliteSession) -> list[tuple[object, ...]]:
    return session.rows("SELECT * FROM holdfast_queues ORDER BY number")


def test_rows_are_written_over(session: SqliteSession) -> None:
    """The same again, or another state of the same queue, leaves one row of it."""
    rows = [row(1, 3), row(2, 5), row(3, 7)]
    assert projection.write(session, HELD, Changes(queues=tuple(rows)))
    assert projection.write(session, HELD, Changes(queues=tuple(rows)))
    assert shown(session) == [astuple(it) for it in rows]
    rows[1] = row(2, 4, 9)
    assert projection.write(session, HELD, Changes(queues=(rows[1],)))
    assert shown(session) == [astuple(it) for it in rows]


def test_queues_that_are_gone_go(session: SqliteSession) -> None:
    """By number, or because nobody told of them since a certain entry."""
    rows = [row(it, as_of_index=it) for it in range(1, 6)]
    assert projection.write(session, HELD, Changes(queues=tuple(rows)))
    assert projection.write(session, HELD, Changes(gone=(4, 9)))
    assert projection.write(session, HELD, Changes(queues=(row(1, 1, 7),), stale_before=3))
    assert [it[0] for it in shown(session)] == [1, 3, 5]


@pytest.mark.parametrize("wrong", [{"epoch": 2}, {"holder": "c" * 32}, {"last": 1}])
def test_whoever_does_not_hold_the_lease_shows_nothing(
    session: SqliteSession, wrong: dict[str, object]
) -> None:
    """Nothing at all, neither new rows nor fewer; nor does what comes behind another append."""
    assert projection.write(session, HELD, Changes(queues=(row(1),)))
    changes = Changes(queues=(row(2),), gone=(1,), stale_before=99)
    assert not projection.write(session, {**HELD, **wrong}, changes)
    assert shown(session) == [astuple(row(1))]


def test_it_is_a_sign_of_life(session: SqliteSession) -> None:
    """Those that wait see that the holder is there."""
    (before,) = session.rows("SELECT beat FROM holdfast_lease")
    projection.write(session, HELD, Changes())
    (after,) = session.rows("SELECT beat FROM holdfast_lease")
    assert after[0] == before[0] + 1


def test_tables_that_cannot_be_made_are_said(session: SqliteSession) -> None:
    """Also one of that name and another shape; nothing else happens."""
    assert layout.make_projections(session) == "", "they are there"
    session.write("DROP TABLE holdfast_queues")
    session.write("CREATE TABLE holdfast_queues (other INTEGER)")
    said = layout.make_projections(session)
    assert said.startswith("the table holdfast_queues is of no use: no such column")
    session.write("DROP TABLE holdfast_queues")
    session.write("PRAGMA query_only = 1")
    said = layout.make_projections(session)
    assert said.startswith("the table holdfast_queues is of no use: attempt to write a readonly")


def test_another_that_makes_them_at_the_same_time_is_as_good(
    session: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is looked behind."""
    session.write("DROP TABLE holdfast_queues")
    write = SqliteSession.write

    def late(self: SqliteSession, statement: str, values: object = None) -> int:
        write(self, statement)
        return write(self, statement.replace("IF NOT EXISTS", ""))

    monkeypatch.setattr(SqliteSession, "write", late)
    assert layout.make_projections(session) == ""


def test_whoever_holds_a_lock_is_not_waited_for(session: SqliteSession, tmp_path: Path) -> None:
    """Nothing is written, the reason is given, and the connection goes on."""
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    session.bound(5.0)
    changes = Changes(queues=(row(1),))
    found = projection.write_unless_refused(session, HELD, changes)
    assert found == (False, "others hold a lock on the tables that show it: database is locked")
    assert time.monotonic() - began < 1
    other.execute("ROLLBACK")
    other.close()

    assert projection.write_unless_refused(session, HELD, changes) == (True, "")
    assert shown(session) == [astuple(row(1))]


def test_any_other_error_comes_out(session: SqliteSession) -> None:
    """As a table that is gone: it is no matter of waiting."""
    session.write("DROP TABLE holdfast_queues")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        projection.write_unless_refused(session, HELD, Changes(queues=(row(1),)))


def test_each_number_of_rows_and_spans_is_no_text_of_its_own(session: SqliteSession) -> None:
    """A statement is prepared for a few sizes only, however many there are at once."""
    assert layout.make_projections(session, schema.MESSAGES) == ""
    SqliteSession._texts.clear()
    for count in range(1, 65):
        rows = tuple(message_row(1, it) for it in range(count))
        assert projection.write(session, HELD, Changes(messages=rows))
        spans = tuple(Span(1, it, it) for it in range(count))
        assert projection.write(session, HELD, Changes(settled=spans))
        assert session.rows("SELECT COUNT(*) FROM holdfast_messages") == [(0,)]
    texts = [it for it in SqliteSession._texts if "holdfast_messages" in it]
    assert len(texts) == 7 + 3 + 1


def test_the_tables_of_messages_are_no_others(session: SqliteSession) -> None:
    """Who shows queues only has none of them."""
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        session.rows("SELECT 1 FROM holdfast_messages")
    assert layout.make_projections(session, schema.MESSAGES) == ""
    assert layout.make_message_views(session) == ""
    assert layout.make_message_views(session) == "", "they are there"
    for name in (*schema.MESSAGE_VIEWS, "holdfast_messages", "holdfast_subscriptions"):
        assert session.rows(f"SELECT * FROM {name}") == []


def test_views_that_cannot_be_made_are_said(session: SqliteSession) -> None:
    """Each by its name; the tables are there without."""
    assert layout.make_projections(session, schema.MESSAGES) == ""
    session.write("PRAGMA query_only = 1")
    said = layout.make_message_views(session)
    assert "the view ACTIVEMQ_MSGS could not be made: " in said
    assert "; the view ACTIVEMQ_ACKS could not be made: " in said


def test_tables_of_messages_are_made_when_they_are_told_of(session: SqliteSession) -> None:
    """Once on a connection; why not, and why no views, is said."""
    tables = projection.MessageTables()
    assert tables.make(session, Changes(queues=(row(1),))) == ""
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        session.rows("SELECT 1 FROM holdfast_messages")
    changes = Changes(messages=(message_row(1, 1),))
    session.write("PRAGMA query_only = 1")
    assert "holdfast_messages is of no use" in tables.make(session, changes)
    session.write("PRAGMA query_only = 0")
    session.write("CREATE VIEW ACTIVEMQ_MSGS AS SELECT 1")
    assert tables.make(session, changes) == ""
    assert tables.no_views == ""
    session.write("DROP TABLE holdfast_messages")
    assert tables.make(session, changes) == "", "it is not looked at again"
    assert projection.MessageTables().make(session, changes) == ""
    assert session.rows("SELECT * FROM holdfast_messages") == []
