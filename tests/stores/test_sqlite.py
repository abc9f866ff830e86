"""The contract of leased logs, kept by SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.leases.contract import LeasedLog
from holdfast.sql.opening import open_sql_log
from tests.stores.broker_suite import BrokerSuite
from tests.stores.copied_log_suite import CopiedLogSuite
from tests.stores.projection_suite import ProjectionSuite


class TestSqlite(BrokerSuite, ProjectionSuite, CopiedLogSuite):
    """One file, several connections."""

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self._path = tmp_path / "store.db"

    def another(self) -> LeasedLog:
        return open_sql_log(f"sqlite:///{self._path}", own_directory=self._path.parent)

    def lose_entry(self, index: int) -> None:
        self.change(f"DELETE FROM holdfast_entries WHERE idx = {index}")

    def rot_entry(self, index: int) -> None:
        with sqlite3.connect(self._path) as connection:
            (raw,) = connection.execute(
                "SELECT raw FROM holdfast_entries WHERE idx = ?", (index,)
            ).fetchone()
            rotten = raw[:100] + bytes([raw[100] ^ 1]) + raw[101:]
            connection.execute("UPDATE holdfast_entries SET raw = ? WHERE idx = ?", (rotten, index))
        connection.close()

    def lose_lease(self) -> None:
        self.change("DELETE FROM holdfast_lease")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, statement: str) -> None:
        with sqlite3.connect(self._path) as connection:
            connection.execute(statement)
        connection.close()
