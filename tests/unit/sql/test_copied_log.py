"""What is asked of a log in a database beside what brokers ask: looked for, begun, made whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.sql.copied_log import CopiedSqlLog
from holdfast.sql.opening import open_sql_log
from holdfast.sql.sqlite import SqliteSession
from tests.stores.copied_log_suite import ANCHOR, SECONDS, entries_behind, plan_of, take

ENTRIES = entries_behind(ANCHOR)
PLAN = plan_of(ENTRIES)


@pytest.fixture
def another(tmp_path: Path) -> Callable[[], CopiedSqlLog]:
    """One more way to the same file."""
    return lambda: open_sql_log(f"sqlite:///{tmp_path}/x.db", own_directory=tmp_path)


def test_looking_for_a_log_makes_no_file(
    another: Callable[[], CopiedSqlLog], tmp_path: Path
) -> None:
    """SQLite would make an empty one."""
    with pytest.raises(StoreError, match="holds no log"):
        another().open_existing()
    assert list(tmp_path.iterdir()) == []


def test_one_of_several_databases_is_no_place_to_copy_to(
    another: Callable[[], CopiedSqlLog],
) -> None:
    """Neither looked at by itself nor written: the others would not have it."""
    log = another()
    log.open()
    log._link.run(SECONDS, lambda it: it.write("UPDATE holdfast_lease SET members = 'several'"))
    found = log.identity()
    log.close()
    for call in (
        another().open_existing,
        lambda: another().begin_copy(plan_of(ENTRIES, identity=found)),
    ):
        with pytest.raises(StoreError, match="is one of several databases"):
            call()


def test_an_end_whose_answer_is_lost_is_asked_for_again(
    another: Callable[[], CopiedSqlLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L32: it was made whole, and the connection is gone: the same again finds it so."""
    log = another()
    log.begin_copy(PLAN)
    take(log)
    log.append(ENTRIES, SECONDS)
    require_there = SqliteSession.require_there
    lost = [1]

    def lose(self: SqliteSession) -> None:
        if lost:
            lost.pop()
            raise OSError("the connection is gone")
        require_there(self)

    monkeypatch.setattr(SqliteSession, "require_there", lose)
    with pytest.raises(UnreachableError):
        log.finish_copy(SECONDS)
    assert log.is_half_copy
    assert log.finish_copy(SECONDS) is Outcome.STORED
    assert not log.is_half_copy
    log.close()
    served = another()
    assert served.open().end == PLAN.end
    served.close()
