"""
What a leased log survives of its database server: the same accidents for every kind of server.

A subclass gives the server and an empty database, see test_postgresql.py. Each test names the
fault of the table in the facts about stores that it is a test of.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import astuple
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import LeasedLog, Outcome, Place
from holdfast.leases.orders import Join
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker
from holdfast.sql import safety
from holdfast.sql.opening import open_sql_log
from tests.stores.broker_suite import BrokerSuite
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.stores.projection_suite import ProjectionSuite, project, row
from trials.databases.cutting_proxy import Cut, CuttingProxy
from trials.databases.server import DatabaseServer

SHORT_SECONDS = 1.5
SECRET = "hush-hush"


class SqlServerSuite(BrokerSuite, ProjectionSuite, ABC):
    """The contract, and the accidents of a server."""

    server: DatabaseServer
    database: str

    table_lock: ClassVar[str]
    """Locks the table of the queues, for whoever wants to write it."""
    connections: ClassVar[str]
    """Gives an id of each connection to the database."""

    @abstractmethod
    def locked(self, statement: str) -> AbstractContextManager[None]:
        """Hold what this statement locks, in a transaction of somebody else's."""

    def lease_locked(self) -> AbstractContextManager[None]:
        """Hold the lease row so."""
        return self.locked("SELECT 1 FROM holdfast_lease FOR UPDATE")

    @abstractmethod
    def unsafe(self) -> AbstractContextManager[str]:
        """Have a setting by which commits may be lost; gives its name."""

    @abstractmethod
    def without_delete(self) -> str:
        """The URL of a user that may read, insert and update, and not delete."""

    def crowded(self) -> AbstractContextManager[str]:
        """Have a user who gets no connection until the end; gives its URL."""

    @abstractmethod
    def guarded(self) -> AbstractContextManager[tuple[str, str]]:
        """Have a user with a password; gives its URL, and one whose password SECRET is wrong."""

    def url_of(self, user: str, password: str = "") -> str:
        """Where the database is for this user."""
        scheme, _, rest = self.server.url(self.database).partition("://")
        colon = ":" if password else ""
        return f"{scheme}://{user}{colon}{password}@{rest.partition('@')[2]}"

    def at(self, url: str) -> LeasedLog:
        """A log at this URL, opened; closed after the test."""
        log = open_sql_log(url, own_directory=Path("/nowhere"))
        self._opened.append(log)
        log.open()
        return log

    def another(self) -> LeasedLog:
        return open_sql_log(self.server.url(self.database), own_directory=Path("/nowhere"))

    def lose_entry(self, index: int) -> None:
        self.change(f"DELETE FROM holdfast_entries WHERE idx = {index}")

    def lose_lease(self) -> None:
        self.change("DELETE FROM holdfast_lease")

    def change(self, statement: str) -> None:
        """Do this in the database, past the log."""
        self.server.execute(statement, self.database)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, self.database)

    @pytest.fixture
    def proxy(self) -> Iterator[CuttingProxy]:
        proxy = CuttingProxy(self.server.port)
        yield proxy
        proxy.close()

    @pytest.mark.parametrize("cut", Cut)
    def test_a_connection_that_is_cut_stores_once(self, proxy: CuttingProxy, cut: Cut) -> None:
        """L32: whenever it breaks, the outcome is unknown, and the same again is stored once."""
        writer = Writer(self.at(self.server.url(self.database, proxy.port)))
        writer.take()
        writer.append(b"before")
        for number in range(5):
            entries = writer.sealed(b"%d" % number, b"and more")
            proxy.cut = cut
            with pytest.raises(UnreachableError):
                writer.send(entries)
            assert proxy.cut is None, "the cut was made"
            assert writer.send(entries) is Outcome.STORED

        assert read_all(self.opened()) == writer.stored
        assert len(writer.stored) == 11

    def test_a_reply_that_is_lost_is_found_out(self, proxy: CuttingProxy) -> None:
        """L32: it was stored, as another one can see, though its writer does not know it yet."""
        writer = Writer(self.at(self.server.url(self.database, proxy.port)))
        writer.take()
        entries = writer.sealed(b"x")
        proxy.cut = Cut.BEFORE_REPLY
        with pytest.raises(UnreachableError):
            writer.send(entries)

        assert read_all(self.opened()) == entries

    def test_a_take_that_is_cut_is_known_by_looking(self, proxy: CuttingProxy) -> None:
        """L32: taken or not, nothing is written under it; it is taken again."""
        writer = Writer(self.at(self.server.url(self.database, proxy.port)))
        seen = writer.log.observe(SECONDS)
        proxy.cut = Cut.BEFORE_REPLY
        with pytest.raises(UnreachableError):
            writer.log.take(seen, writer.claimant, SECONDS)
        assert writer.log.renew(SECONDS) is Outcome.DEPOSED
        assert writer.log.observe(SECONDS).claimant == writer.claimant
        assert writer.take().epoch == 2

    def test_a_server_that_is_killed_keeps_what_was_confirmed(self) -> None:
        """L35: kill -9 under a stream of appends; started again it has them all, each once."""
        writer = self.writer()
        writer.take()
        failed: list[StoreError] = []

        def stream() -> None:
            try:
                while True:
                    writer.send(writer.sealed(b"x" * 2000))
            except StoreError as error:
                failed.append(error)

        thread = threading.Thread(target=stream)
        thread.start()
        while len(writer.stored) < 50:
            time.sleep(0.01)
        self.server.kill()
        thread.join(30)
        assert [type(it) for it in failed] == [UnreachableError]
        with pytest.raises(UnreachableError):
            writer.log.observe(SHORT_SECONDS)
        confirmed = list(writer.stored)
        self.server.start()

        found = read_all(self.opened())
        assert found[: len(confirmed)] == confirmed
        assert len(found) <= len(confirmed) + 1
        assert writer.send(writer.sealed(b"x" * 2000)) is Outcome.STORED
        assert read_all(self.opened()) == writer.stored

    def test_a_server_that_is_paused_costs_no_more_than_the_bound(self) -> None:
        """L36: each call ends in time with an unknown outcome; resumed, it is stored once."""
        writer = self.writer()
        writer.take()
        writer.append(b"before")
        entries = writer.sealed(b"one", b"two")
        self.server.pause()
        for call in (
            lambda: writer.log.append(entries, SHORT_SECONDS),
            lambda: writer.log.observe(SHORT_SECONDS),
            lambda: writer.log.append(entries, SHORT_SECONDS),
        ):
            began = time.monotonic()
            with pytest.raises(UnreachableError):
                call()
            assert time.monotonic() - began < 10 * SHORT_SECONDS
        self.server.resume()

        assert writer.send_until_known(entries) is Outcome.STORED
        assert read_all(self.opened()) == writer.stored

    def test_a_lease_row_that_others_hold_is_waited_for_and_no_longer(self) -> None:
        """L44: an open transaction of somebody else's puts it off; nothing was stored."""
        writer = self.writer()
        writer.take()
        entries = writer.sealed(b"x")
        with self.lease_locked():
            began = time.monotonic()
            with pytest.raises(UnreachableError):
                writer.send(entries)
            assert time.monotonic() - began < 10
        assert read_all(self.opened()) == []
        assert writer.send(entries) is Outcome.STORED
        assert read_all(self.opened()) == entries

    def test_whoever_looks_into_the_tables_for_people_holds_nobody_up(self) -> None:
        """
        Neither with a lock on a row nor on a table: what is shown is put off at once, on the same
        connection, and what is stored does not wait for it.
        """
        writer = self.writer()
        writer.take()
        assert project(writer.log, row(1, 1)) is Outcome.STORED
        (connected,) = self.query(self.connections)
        for lock in ("SELECT * FROM holdfast_queues FOR UPDATE", self.table_lock):
            with self.locked(lock):
                taken = []
                for _ in range(5):
                    began = time.monotonic()
                    with pytest.raises(StoreError, match="others hold a lock") as refused:
                        project(writer.log, row(1, 2))
                    assert not isinstance(refused.value, UnreachableError)
                    assert writer.append(b"x")
                    taken.append(time.monotonic() - began)
                assert min(taken) < 0.8, "a busy machine may hold up some"
        assert connected in self.query(self.connections), "no other one was made"

        assert project(writer.log, row(1, 3)) is Outcome.STORED
        assert self.shown() == [astuple(row(1, 3))]

    def test_rows_that_the_database_refuses_keep_the_connection(self) -> None:
        """Somebody has put a condition on what people look at: that is told, and no more."""
        writer = self.writer()
        writer.take()
        assert project(writer.log, row(1, 2)) is Outcome.STORED
        self.change("ALTER TABLE holdfast_queues ADD CHECK (depth < 9)")
        (connected,) = self.query(self.connections)
        with pytest.raises(StoreError, match=r"take it not: .*(?i:constraint)") as refused:
            project(writer.log, row(1, 10))
        assert not isinstance(refused.value, UnreachableError)
        assert writer.append(b"one")
        assert project(writer.log, row(1, 3)) is Outcome.STORED
        assert connected in self.query(self.connections), "no other one was made"
        assert self.shown() == [astuple(row(1, 3))]

    def test_a_database_that_went_back_in_time_is_refused(self, tmp_path: Path) -> None:
        """L37: a broker that saw more than a restored backup has does not go on with it."""
        writer = self.writer()
        writer.take()
        writer.append(b"one", b"two")
        end = writer.log.observe(SECONDS)
        writer.append(b"three")
        seen = SeenFile(tmp_path, RealDisk())
        seen.note(writer.log.identity(), 1, writer.end, 0.0)
        self.change("DELETE FROM holdfast_entries WHERE idx = 3")
        self.change(
            f"UPDATE holdfast_lease SET last_index = 2, last_chain = '{end.end.chain.hex()}'"
        )

        worker = LogWorker(self.another(), seen, time.monotonic, name="a")
        try:
            report = worker.perform(Join(0, Place(0, bytes(16)).chain, SECONDS))
        finally:
            worker.close()

        assert type(report.error) is StoreError
        assert "went back in time" in str(report.error)

    def test_what_arrives_late_does_not_set_the_time_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        L33 of signs of life: the next connection would take the database for one of the past.
        """
        writer = self.writer()
        log: Any = writer.log
        writer.take()
        writer.append(b"one", b"two")
        late = self._time_of_the_lease() - 5000
        with monkeypatch.context() as patched:
            patched.setattr(log, "_at", lambda: late)
            assert log.renew(SECONDS) is Outcome.STORED
            assert self._time_of_the_lease() == late + 5000
            assert writer.append(b"three")
            assert self._time_of_the_lease() == late + 5000
            log.drop_before(2, SECONDS)
            assert self._time_of_the_lease() == late + 5000
        log._safety.wrote(writer.epoch, late + 5000)
        log._link.leave()
        assert writer.append(b"by a new connection")
        assert self._time_of_the_lease() > late + 5000

    def _time_of_the_lease(self) -> int:
        ((at,),) = self.query("SELECT renewed_at FROM holdfast_lease WHERE id = 1")
        return int(at)

    def test_unsafe_settings_are_refused_by_name(self) -> None:
        """L40: the broker does not start on them, unless that is allowed; then it is told."""
        with self.unsafe() as name:
            with pytest.raises(StoreError, match=f"would lose what was confirmed: {name} is"):
                self.opened()
            url = self.server.url(self.database)
            log = open_sql_log(url, allow_unsafe_database=True, own_directory=Path("/nowhere"))
            self._opened.append(log)
            log.open()
            assert any(f": {name} is" in it for it in log.facts().warnings)

    def test_settings_that_become_unsafe_stop_the_storing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """L40: somebody changes them under a broker: nothing is stored until they are back."""
        monkeypatch.setattr(safety, "LOOK_SECONDS", 0.0)
        writer = self.writer()
        writer.take()
        stored = writer.append(b"one")
        entries = writer.sealed(b"two")
        with self.unsafe() as name:
            for _ in range(2):
                with pytest.raises(AppendRefusedError, match=f": {name} is .*; nothing is stored"):
                    writer.log.append(entries, SECONDS)
            assert writer.log.renew(SECONDS) is Outcome.STORED
            assert any(f": {name} is" in it for it in writer.log.facts().warnings)

        assert writer.send(entries) is Outcome.STORED
        assert [it for it in writer.log.facts().warnings if "does not last" not in it] == []
        assert read_all(self.opened()) == stored + entries

    def test_what_cannot_be_reached_or_entered_is_said(self) -> None:
        """Wrong user, no such database: final, in one sentence, without the password."""
        scheme, _, rest = self.server.url(self.database).partition("://")
        stranger = f"{scheme}://nobody:hidden@{rest.partition('@')[2]}"
        for wrong in (self.server.url("no_such_database"), stranger):
            with pytest.raises(StoreError) as raised:
                self.at(wrong)
            assert type(raised.value) is StoreError, raised.value
            assert "hidden" not in str(raised.value)

    def test_a_user_that_may_not_clean_is_refused_at_the_start(self) -> None:
        """Else it would be found out in the middle of a night, on one broker after the other."""
        writer = self.writer()
        writer.take()
        writer.append(b"one")
        with pytest.raises(
            StoreError, match=r"does not let this user do that: .*holdfast_entries"
        ) as it:
            self.at(self.without_delete())
        assert type(it.value) is StoreError

        assert len(read_all(self.opened())) == 1

    def test_a_server_with_no_connection_left_is_tried_again(self) -> None:
        """Said in one sentence; not final, and whoever has a connection works on."""
        with self.crowded() as url:
            writer = self.writer()
            writer.take()
            log = open_sql_log(url, own_directory=Path("/nowhere"))
            self._opened.append(log)
            with pytest.raises(UnreachableError) as raised:
                log.open()
            assert "lets no more connections in: " in str(raised.value)
            assert "\n" not in str(raised.value)
            entries = writer.append(b"x")
        log.open()
        assert read_all(log) == entries

    def test_a_password_that_is_wrong_is_final_and_never_shown(self) -> None:
        """Of a running broker too, when it was changed: nothing that was stored is lost."""
        with self.guarded() as (right, wrong):
            writer = Writer(self.at(right))
            writer.take()
            entries = writer.append(b"x")
            with pytest.raises(StoreError) as raised:
                self.at(wrong)
            assert type(raised.value) is StoreError
            said = str(raised.value)
            assert "does not let this user in: " in said
            assert "\n" not in said
            assert SECRET not in said
            assert SECRET not in repr(raised.value.__cause__) + repr(raised.value.__context__)
            assert read_all(self.at(right)) == entries

    def test_facts_tell_the_version(self) -> None:
        """What it is, with its version, and where; no warning."""
        log = self.opened()
        facts = log.facts()

        assert facts.kind[-1].isdigit()
        assert facts.place == self.server.url(self.database)
        assert [it for it in facts.warnings if "does not last" not in it] == []
