"""The contract of leased logs, and the accidents of a server, with a real server of PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.leases.projection import Changes, Projection
from holdfast.sql import safety
from holdfast.sql.opening import open_sql_log
from holdfast.sql.postgresql import PostgresqlSession
from tests.stores.copied_log_suite import CopiedLogSuite
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.stores.projection_suite import message, row
from tests.stores.reading_suite import ReadingSuite
from tests.stores.sql_faults_suite import SECRET, SHORT_SECONDS, SqlServerSuite
from trials.databases.cutting_proxy import CuttingProxy
from trials.databases.postgresql import SUPERUSER, PostgresqlServer

pytestmark = pytest.mark.processes


class TestPostgresql(SqlServerSuite, CopiedLogSuite, ReadingSuite):
    """One database of one server."""

    server: PostgresqlServer
    table_lock = "LOCK TABLE holdfast_queues"
    connections = (
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name = 'holdfast' AND datname = current_database()"
    )

    @pytest.fixture(autouse=True)
    def an_empty_database(self, postgresql: PostgresqlServer) -> None:
        self.server, self.database = postgresql, "holdfast"
        postgresql.create(self.database)

    def rot_entry(self, index: int) -> None:
        self.change(
            "UPDATE holdfast_entries SET raw = set_byte(raw, 100, get_byte(raw, 100) # 1)"
            f" WHERE idx = {index}"
        )

    @contextmanager
    def locked(self, statement: str) -> Iterator[None]:
        with psycopg.connect(
            host="127.0.0.1", port=self.server.port, user=SUPERUSER, dbname=self.database
        ) as connection:
            connection.execute(statement)
            yield
            connection.rollback()

    @contextmanager
    def configured(self, name: str, value: str) -> Iterator[None]:
        """A setting of the whole server, until the end."""
        try:
            self.configure(f"SET {name} = '{value}'", name, value)
            yield
        finally:
            self.configure(f"RESET {name}", name, None)

    def configure(self, change: str, name: str, value: str | None) -> None:
        before = self.server.execute(f"SHOW {name}")[0][0]
        self.server.execute(f"ALTER SYSTEM {change}")
        self.server.execute("SELECT pg_reload_conf()")
        until = time.monotonic() + 30
        while time.monotonic() < until:
            now = self.server.execute(f"SHOW {name}")[0][0]
            if now == value or (value is None and now != before):
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} did not change")

    @contextmanager
    def unsafe(self) -> Iterator[str]:
        with self.configured("full_page_writes", "off"):
            yield "full_page_writes"

    def without_delete(self) -> str:
        with suppress(psycopg.errors.DuplicateObject):
            self.server.execute("CREATE ROLE few LOGIN")
        self.change("GRANT USAGE ON SCHEMA public TO few")
        self.change("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO few")
        return self.server.url(self.database).replace(f"{SUPERUSER}@", "few@")

    def only_reading(self) -> str:
        with suppress(psycopg.errors.DuplicateObject):
            self.server.execute("CREATE ROLE looks LOGIN")
        self.change("GRANT USAGE ON SCHEMA public TO looks")
        self.change("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looks")
        return self.url_of("looks")

    @contextmanager
    def crowded(self) -> Iterator[str]:
        self.role("crowded", "CONNECTION LIMIT 0")
        yield self.url_of("crowded")
        self.change("ALTER ROLE crowded SUPERUSER")  # whom no limit holds

    @contextmanager
    def guarded(self) -> Iterator[tuple[str, str]]:
        self.role("guarded", "SUPERUSER PASSWORD 'right'")
        right, wrong = self.url_of("guarded", "right"), self.url_of("guarded", SECRET)
        rules = self.server.folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
        self.server.execute("SELECT pg_reload_conf()")
        until = time.monotonic() + 30
        while self.lets_in(wrong):
            assert time.monotonic() < until, "the rules are never read"
        yield right, wrong
        rules.write_text(before)
        self.server.execute("SELECT pg_reload_conf()")

    def role(self, name: str, what: str) -> None:
        self.change(f"DROP ROLE IF EXISTS {name}")
        self.change(f"CREATE ROLE {name} LOGIN {what}")

    @staticmethod
    def lets_in(url: str) -> bool:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def standby_away(self) -> Iterator[None]:
        """Every commit waits for a standby that is not there."""
        with self.configured("synchronous_standby_names", "nobody"):
            until = time.monotonic() + 30
            while not self.a_commit_waits():
                assert time.monotonic() < until, "no commit waits"
            yield

    def a_commit_waits(self) -> bool:
        """
        Try it: the server says that it knows the setting before its checkpointer, on whose word
        commits wait, has read it.
        """
        with psycopg.connect(
            host="127.0.0.1", port=self.server.port, user=SUPERUSER, dbname="postgres"
        ) as session:
            session.execute("CREATE TABLE IF NOT EXISTS tried ()")
            session.execute("COMMENT ON TABLE tried IS 'waits'")
            committing = threading.Thread(target=session.commit)
            committing.start()
            waits = f"pid = {session.info.backend_pid} AND wait_event = 'SyncRep'"
            cancel = f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {waits}"
            has_waited = False
            while committing.is_alive():
                has_waited = bool(self.server.execute(cancel)) or has_waited
                committing.join(0.01)
            return has_waited

    def test_an_append_that_waits_for_a_standby_appears_later(self) -> None:
        """L33: unseen and unknown until the standby is back, and then there, once."""
        writer, reader = self.writer(), self.opened()
        writer.take()
        writer.append(b"before")
        entries = writer.sealed(b"one", b"two")
        with self.standby_away():
            for _ in range(2):
                began = time.monotonic()
                with pytest.raises(UnreachableError):
                    writer.log.append(entries, SHORT_SECONDS)
                assert time.monotonic() - began < 10 * SHORT_SECONDS
                assert reader.observe(SECONDS).end.index == 1, "it cannot be seen"
        until = time.monotonic() + 30
        while reader.observe(SECONDS).end.index != 3 and time.monotonic() < until:
            time.sleep(0.02)

        assert read_all(reader) == writer.stored + entries, "it appeared by itself"
        assert writer.send(entries) is Outcome.STORED
        assert read_all(reader) == writer.stored

    def test_a_wait_for_a_standby_that_is_cancelled_confirms_nothing(self) -> None:
        """L34: the server says "stored" with a warning; it is unknown until a standby has it."""
        writer = self.writer()
        writer.take()
        entries = writer.sealed(b"one")
        with self.standby_away():
            for _ in range(2):
                canceller = threading.Thread(target=self.cancel_the_wait)
                canceller.start()
                with pytest.raises(UnreachableError):
                    writer.log.append(entries, SECONDS)
                canceller.join(30)
            # It can be read by now, and would be lost with this server.
            assert self.opened().observe(SECONDS).end.index == 1

        assert writer.send(entries) is Outcome.STORED
        assert read_all(self.opened()) == entries

    def cancel_the_wait(self) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            done = self.server.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                f" WHERE wait_event = 'SyncRep' AND datname = '{self.database}'"
            )
            if done:
                return
            time.sleep(0.02)

    def test_a_role_that_does_not_wait_for_commits_is_overruled(self) -> None:
        """L40: what a role or database sets by default does not hold in our session."""
        self.change(f"ALTER DATABASE {self.database} SET synchronous_commit = off")
        self.change(f"ALTER DATABASE {self.database} SET client_min_messages = error")
        self.change(
            f"ALTER DATABASE {self.database} SET default_transaction_isolation = serializable"
        )
        writer = self.writer()
        writer.take()

        assert [it for it in writer.log.facts().warnings if "does not last" not in it] == []
        entries = writer.sealed(b"one")
        with self.standby_away(), pytest.raises(UnreachableError):
            writer.log.append(entries, SHORT_SECONDS)
        assert writer.send(entries) is Outcome.STORED

    def test_a_transaction_left_open_under_the_lease_is_ended_by_the_server(self) -> None:
        """L12: a holder that was stopped while it cleaned lets go of the row within its lease."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        entries = zombie.append(b"one", b"two")
        connection = zombie.log._link._session._connection
        connection.execute("BEGIN")
        connection.execute("UPDATE holdfast_lease SET beat = beat + 1")

        until = time.monotonic() + 30
        while True:
            try:
                holder.take()
            except UnreachableError:
                assert time.monotonic() < until, "it is never let go of"
            else:
                break
        with pytest.raises(UnreachableError):
            zombie.log.drop_before(2, SECONDS)
        assert not zombie.log.drop_before(2, SECONDS)
        assert read_all(holder.log) == entries

    def test_the_next_host_is_gone_to(self) -> None:
        """Of several ways to one server the first is used, and the next where it ends.

        Who starts anew wants an answer from each: what does not answer may have taken over.
        """
        proxy = CuttingProxy(self.server.port)
        url = self.server.url(self.database).replace("@", f"@127.0.0.1:{proxy.port},", 1)
        writer = Writer(self.at(url))
        writer.take()
        writer.append(b"x")
        proxy.close()
        assert writer.append(b"y")
        with pytest.raises(UnreachableError, match="not all answer"):
            self.at(url)

    def test_a_pooler_of_connections_is_refused_by_name(self) -> None:
        """A session's settings end with its statement there: as if it were never synced."""
        with pooled(self.server.port) as port:
            url = self.server.url(self.database, port)
            with pytest.raises(StoreError, match="would lose what was confirmed: a pooler of conn"):
                self.at(url)
            log = open_sql_log(url, allow_unsafe_database=True, own_directory=Path("/nowhere"))
            self._opened.append(log)
            log.open()
            assert any("a pooler of connections" in it for it in log.facts().warnings)
            writer = Writer(log)
            writer.take()
            for _ in range(10):
                writer.append(b"x")
            prepared = "SELECT COUNT(*) FROM pg_prepared_statements"
            assert log._link.run(SECONDS, lambda it: it.rows(prepared)) == [(0,)]

    @pytest.mark.parametrize("is_allowed", [False, True])
    def test_nothing_is_left_in_the_sessions_of_a_pooler(
        self, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others get them next, and their transactions would be broken off by our bounds."""
        seen: list[object] = []
        close = PostgresqlSession.close

        def look(session: PostgresqlSession) -> None:
            seen.extend(session.rows("SELECT current_setting('lock_timeout')"))
            close(session)

        monkeypatch.setattr(PostgresqlSession, "close", look)
        with pooled(self.server.port) as port:
            url = self.server.url(self.database, port)
            log = open_sql_log(
                url, allow_unsafe_database=is_allowed, own_directory=Path("/nowhere")
            )
            with nullcontext() if is_allowed else pytest.raises(StoreError, match="a pooler"):
                log.open()
            log.close()
        assert seen == [("0",)]

    def test_tables_that_a_crash_empties_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """L40: UNLOGGED ones, by name, at a start and while it runs."""
        monkeypatch.setattr(safety, "LOOK_SECONDS", 0.0)
        writer = self.writer()
        writer.take()
        writer.append(b"one")
        for table in ("holdfast_meta", "holdfast_lease", "holdfast_entries"):
            self.change(f"ALTER TABLE {table} SET UNLOGGED")
            said = f"{table} is UNLOGGED.*SET LOGGED"
            with pytest.raises(StoreError, match=said):
                self.at(self.server.url(self.database))
            with pytest.raises(AppendRefusedError, match=said):
                writer.send(writer.sealed(b"two"))
            self.change(f"ALTER TABLE {table} SET LOGGED")
        assert writer.append(b"two")

    def test_a_limit_of_connections_is_waited_for(self) -> None:
        """What half-open connections of the dead take comes back; nobody mistyped anything."""
        self.writer()
        url = self.without_delete()
        try:
            self.server.execute("ALTER ROLE few CONNECTION LIMIT 0")
            with pytest.raises(UnreachableError, match="too many connections for role"):
                self.at(url)
        finally:
            self.server.execute("ALTER ROLE few CONNECTION LIMIT -1")

    def test_a_database_without_an_encoding_will_do(self) -> None:
        """`initdb` makes one where no language is set: text comes as text all the same."""
        known = "SELECT 1 FROM pg_database WHERE datname = 'ascii'"
        if not self.server.execute(known):
            self.server.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
        writer = Writer(self.at(self.server.create("ascii")))
        writer.take()
        entries = writer.append(b"one")

        assert read_all(self.at(self.server.url("ascii"))) == entries

    def test_a_database_that_lacks_signs_shows_messages_without_them(self) -> None:
        """One header with a sign that LATIN1 has not is no reason to show nothing any more."""
        if not self.server.execute("SELECT 1 FROM pg_database WHERE datname = 'latin'"):
            self.server.execute(
                "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
                " TEMPLATE template0"
            )
        log = self.at(self.server.create("latin"))
        writer = Writer(log)
        writer.take()
        writer.append(b"one")
        assert isinstance(log, Projection)
        changes = Changes(queues=(row(1, 2),), messages=(message(1, 2), message(1, 3)))
        assert log.project(changes, SECONDS) is Outcome.STORED

        found = self.server.execute("SELECT headers FROM holdfast_messages", "latin")
        assert [it.count("?") for (it,) in found] == [3, 3]
        ((name,),) = self.server.execute("SELECT name FROM holdfast_queues", "latin")
        assert name == row(1, 2).name


@contextmanager
def pooled(port: int) -> Iterator[int]:
    """Give a port behind which the server looks as behind a pooler: its process id is another."""

    def change(data: bytes) -> bytes:
        head, key, rest = data.partition(b"K\x00\x00\x00\x0c")
        return head + key + bytes([0, 9, 9, 9]) + rest[4:] if key and head[:1] == b"R" else data

    proxy = CuttingProxy(port)
    proxy.change_reply = change
    try:
        yield proxy.port
    finally:
        proxy.close()
