"""The contract of leased logs, and the accidents of a server, with a real server of MariaDB."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Waiter
from tests.stores.copied_log_suite import CopiedLogSuite
from tests.stores.leased_log_suite import SECONDS, claimant, read_all
from tests.stores.reading_suite import ReadingSuite
from tests.stores.sql_faults_suite import SECRET, SqlServerSuite
from trials.databases.mariadb import MariadbServer

pytestmark = pytest.mark.processes


class TestMariadb(SqlServerSuite, CopiedLogSuite, ReadingSuite):
    """One database of one server."""

    server: MariadbServer
    table_lock = "LOCK TABLES holdfast_queues WRITE"
    connections = (
        "SELECT id FROM information_schema.processlist"
        " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    )

    @pytest.fixture(autouse=True)
    def an_empty_database(self, mariadb: MariadbServer) -> None:
        self.server, self.database = mariadb, "holdfast"
        mariadb.create(self.database)

    def rot_entry(self, index: int) -> None:
        self.change(
            "UPDATE holdfast_entries SET raw = INSERT(raw, 101, 1,"
            f" CHAR(ASCII(SUBSTR(raw, 101, 1)) ^ 1)) WHERE idx = {index}"
        )

    @contextmanager
    def locked(self, statement: str) -> Iterator[None]:
        connection = pymysql.connect(
            host="127.0.0.1", port=self.server.port, user="root", database=self.database
        )
        with connection.cursor() as cursor:
            cursor.execute(statement)
        yield
        connection.rollback()
        connection.close()

    @contextmanager
    def unsafe(self) -> Iterator[str]:
        name = "innodb_flush_log_at_trx_commit"
        self.change(f"SET GLOBAL {name} = 2")
        try:
            yield name
        finally:
            self.change(f"SET GLOBAL {name} = 1")

    def without_delete(self) -> str:
        self.server.execute("CREATE OR REPLACE USER few@'127.0.0.1'")
        self.server.execute(f"GRANT SELECT, INSERT, UPDATE ON {self.database}.* TO few@'127.0.0.1'")
        scheme, _, rest = self.server.url(self.database).partition("://")
        return f"{scheme}://few@{rest.partition('@')[2]}"

    def only_reading(self) -> str:
        self.change("CREATE OR REPLACE USER looks@'%'")
        self.change(f"GRANT SELECT ON {self.database}.* TO looks@'%'")
        return self.url_of("looks")

    def test_a_commit_that_ends_the_connection_is_overruled(self) -> None:
        """What the server sets for all does not hold in our session."""
        for kind in ("RELEASE", "CHAIN"):
            self.server.execute(f"SET GLOBAL completion_type = '{kind}'")
            try:
                writer = self.writer()
                writer.take()
                entries = writer.append(b"one")
                assert read_all(self.opened())[-1:] == entries
            finally:
                self.server.execute("SET GLOBAL completion_type = 'NO_CHAIN'")

    def test_a_table_of_an_engine_without_transactions_is_refused(self) -> None:
        """L40: a dump that was edited for it; told with its name."""
        self.writer()
        self.change("ALTER TABLE holdfast_entries ENGINE = MyISAM")
        with pytest.raises(StoreError, match="engine of holdfast_entries is MyISAM, and must be"):
            self.opened()

    @contextmanager
    def crowded(self) -> Iterator[str]:
        with self.user("crowded", "WITH MAX_USER_CONNECTIONS 1") as name:
            connection = pymysql.connect(host="127.0.0.1", port=self.server.port, user=name)
            yield self.url_of(name)
            connection.close()
            self.change(f"ALTER USER {name}@'%' WITH MAX_USER_CONNECTIONS 9")

    @contextmanager
    def guarded(self) -> Iterator[tuple[str, str]]:
        with self.user("guarded", "IDENTIFIED BY 'right'") as name:
            yield self.url_of(name, "right"), self.url_of(name, SECRET)

    @contextmanager
    def user(self, name: str, what: str) -> Iterator[str]:
        self.change(f"CREATE OR REPLACE USER {name}@'%' {what}")
        self.change(f"GRANT ALL ON {self.database}.* TO {name}@'%'")
        yield name

    def test_packets_that_hold_no_part_are_refused(self) -> None:
        """L41: a `max_allowed_packet` of 1 MiB is named, before anything is stored."""
        self.change("SET GLOBAL max_allowed_packet = 1048576")
        try:
            with pytest.raises(StoreError, match=r"max_allowed_packet of .* is 1,048,576"):
                self.opened()
        finally:
            self.change("SET GLOBAL max_allowed_packet = 16777216")

    def test_an_entry_that_no_packet_holds_is_stored_whole(self) -> None:
        """L41: 40 MiB where 16 are allowed: several packets, one transaction, all or nothing."""
        writer = self.writer()
        writer.take()
        body = bytes(range(256)) * (40 << 12)
        entries = writer.append(body, b"small")

        assert read_all(self.opened()) == entries
        assert writer.send(entries).value == "stored"

    def test_a_large_append_of_a_zombie_leaves_no_part(self) -> None:
        """L2: refused at its first packet, in several; not one row of it is there."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        late = zombie.sealed(bytes(20 << 20))
        holder.take()

        assert zombie.send_until_known(late).value == "deposed"
        assert self.server.execute("SELECT COUNT(*) FROM holdfast_entries", self.database) == [(0,)]

    def test_names_that_differ_in_case_are_two_brokers(self) -> None:
        """The database's usual order would take them for one."""
        log = self.opened()
        for name in ("a", "A"):
            log.tell(
                Waiter(claimant=claimant(name), known_level=1, beat=1, applied_index=0), SECONDS
            )
        assert sorted(it.claimant.name for it in log.waiters(SECONDS)) == ["A", "a"]

    def test_a_killed_session_is_an_unknown_outcome(self) -> None:
        """L32: the server's own end of it, while it appends, loses and doubles nothing."""
        writer = self.writer()
        writer.take()
        is_over = threading.Event()

        def kill_sessions() -> None:
            while not is_over.wait(0.05):
                for number, *_ in self.server.execute(
                    "SELECT id FROM information_schema.processlist"
                    f" WHERE db = '{self.database}' AND id <> CONNECTION_ID()"
                ):
                    try:
                        self.server.execute(f"KILL {number}")
                    except pymysql.MySQLError:
                        continue

        thread = threading.Thread(target=kill_sessions)
        thread.start()
        unknown = 0
        until = time.monotonic() + 60
        while (unknown < 5 or len(writer.stored) < 50) and time.monotonic() < until:
            entries = writer.sealed(b"x")
            before = len(writer.stored)
            while len(writer.stored) == before:
                try:
                    writer.send(entries)
                except UnreachableError:
                    unknown += 1
        is_over.set()
        thread.join(30)

        assert unknown >= 5
        assert read_all(self.opened()) == writer.stored
