"""A copy in the making in a database: begun in one transaction, whole in one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan
from holdfast.sql import copying, layout, statements
from holdfast.sql.session import Values
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.url import SQLITE, StoreUrl
from tests.stores.copied_log_suite import ANCHOR, entries_behind, plan_of

PLACE = "the database"
PLAN = plan_of(entries_behind(ANCHOR))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SqliteSession]:
    url = StoreUrl(SQLITE, (), str(tmp_path / "x.db"))
    session = SqliteSession.connect(url, None, 1)
    yield session
    session.close()


def begin(session: SqliteSession, plan: CopyPlan = PLAN) -> bool:
    numbers = count(0xA)
    return copying.begin(session, PLACE, plan, lambda: f"{next(numbers):032x}", 1)


def test_it_begins_behind_its_anchor_and_is_no_log(session: SqliteSession) -> None:
    """The lease row ends with the anchor, whose row is there; a broker is told what it is."""
    assert begin(session)
    assert begin(session), "as often as it is asked"
    rows = session.rows("SELECT epoch, last_index, first_index FROM holdfast_lease")
    assert rows == [(PLAN.epoch_before, ANCHOR.index, ANCHOR.index)]
    assert session.rows("SELECT idx, raw FROM holdfast_entries") == [(ANCHOR.index, ANCHOR.raw)]
    assert not copying.is_whole(session)
    with pytest.raises(StoreError, match="the database has a copy that is not whole"):
        layout.lay_out(session, PLACE, lambda: "e" * 32)


def test_a_beginning_that_is_broken_off_left_nothing(
    session: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its rows was the last one written: all of them are, or none is."""
    write = SqliteSession.write
    written = [
        statements.INSERT_LEASE,
        statements.BEGIN_BEHIND,
        statements.INSERT_ENTRY,
        statements.INSERT_META,
        statements.INSERT_MARK,
    ]
    for last in written:

        def broken(
            self: SqliteSession, statement: str, values: Values | None = None, last: str = last
        ) -> int:
            found = write(self, statement, values)
            if statement == last:
                raise KeyboardInterrupt
            return found

        monkeypatch.setattr(SqliteSession, "write", broken)
        with pytest.raises(KeyboardInterrupt):
            begin(session)
        for table in ("holdfast_meta", "holdfast_lease", "holdfast_entries"):
            assert session.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    monkeypatch.setattr(SqliteSession, "write", write)
    assert begin(session)


def test_a_broker_that_is_quicker_keeps_its_log(
    session: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are there when ours are to be written: that is another log, and stays one."""
    write = SqliteSession.write

    def raced(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        if statement == statements.INSERT_LEASE:
            monkeypatch.setattr(SqliteSession, "write", write)
            self.write("ROLLBACK")
            layout.lay_out(self, PLACE, lambda: "b" * 32)
            self.write("BEGIN")
        return write(self, statement, values)

    monkeypatch.setattr(SqliteSession, "write", raced)
    with pytest.raises(StoreError, match=f"another log \\({'b' * 32}\\)"):
        begin(session)
    assert copying.is_whole(session)


def test_it_is_made_whole_by_the_holder_at_the_end_alone(session: SqliteSession) -> None:
    """Not by another epoch or holder, not before the last entry; then its mark is gone."""
    begin(session)
    session.write("UPDATE holdfast_lease SET epoch = 99, holder = 'h', last_index = 46")
    session.write("UPDATE holdfast_lease SET last_chain = :chain", {"chain": PLAN.end.chain.hex()})
    held = {"epoch": 99, "holder": "h"}
    assert not copying.finish(session, {**held, "epoch": 98}, PLAN.end)
    assert not copying.finish(session, {**held, "holder": "x"}, PLAN.end)
    assert not copying.finish(session, held, Place(45, PLAN.end.chain))
    assert not copying.finish(session, held, Place(46, bytes(16)))
    assert not copying.is_whole(session)

    assert copying.finish(session, held, PLAN.end)
    assert copying.is_whole(session)
    assert session.rows(statements.READ_MARK) == []
    assert layout.lay_out(session, PLACE, lambda: "e" * 32) == PLAN.identity
    assert not begin(session), "it is a log now"
