"""
The contract of leased logs, and the accidents of a cluster, with three real nodes of Galera.

Of the contract's tests each way to the log leads to the next node, so that two that compete do so
through different ones: what one of them writes is certified against the other's by the cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import AppendRefusedError, EntryRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import LeasedLog, Outcome, Place, Waiter
from holdfast.leases.orders import Join
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker
from holdfast.sql import safety
from holdfast.sql.opening import open_sql_log
from tests.stores.broker_suite import BrokerSuite
from tests.stores.copied_log_suite import CopiedLogSuite
from tests.stores.leased_log_suite import (
    KNOWN_SECONDS_MAX,
    SECONDS,
    Writer,
    read_all,
)
from tests.stores.projection_suite import ProjectionSuite
from tests.stores.sql_faults_suite import SHORT_SECONDS
from trials.databases.galera import GaleraCluster, GaleraNode, await_true

pytestmark = pytest.mark.processes

LEASE_SECONDS = 15.0
DEADLOCK = 1213


class TestGalera(BrokerSuite, CopiedLogSuite, ProjectionSuite):
    """One database of three nodes."""

    @pytest.fixture(autouse=True)
    def an_empty_database(self, galera: GaleraCluster) -> None:
        self.cluster, self.database = galera, galera.create()
        self._ways = 0

    def another(self) -> LeasedLog:
        """One more way, to the next node; the first one leads to the first."""
        node = self.cluster.nodes[self._ways % len(self.cluster.nodes)]
        self._ways += 1
        return open_sql_log(node.url(self.database), own_directory=Path("/nowhere"))

    def at(self, url: str) -> LeasedLog:
        """A log at this URL, opened; closed after the test."""
        log = open_sql_log(url, own_directory=Path("/nowhere"))
        self._opened.append(log)
        log.open()
        return log

    def change(self, statement: str) -> None:
        """Do this in the database, past the log."""
        self.cluster.nodes[0].execute(statement, self.database)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connected(1) as session:
            return answers(session, statement)

    def lose_entry(self, index: int) -> None:
        self.change(f"DELETE FROM holdfast_entries WHERE idx = {index}")

    def lose_lease(self) -> None:
        self.change("DELETE FROM holdfast_lease")

    def rot_entry(self, index: int) -> None:
        self.change(
            "UPDATE holdfast_entries SET raw = INSERT(raw, 101, 1,"
            f" CHAR(ASCII(SUBSTR(raw, 101, 1)) ^ 1)) WHERE idx = {index}"
        )

    def to_node(self, number: int, name: str = "a") -> Writer:
        """A process that knows this node only."""
        return Writer(self.at_node(number), name)

    def at_node(self, number: int) -> LeasedLog:
        """A way to this node only."""
        return self.at(self.cluster.nodes[number].url(self.database))

    def to_all(self, first: int, name: str = "a") -> Writer:
        """A process that knows all nodes, and tries this one first."""
        return Writer(self.at(self.cluster.url(self.database, first=first)), name)

    def read_at(self, number: int) -> list[object]:
        """All entries, as this node gives them."""
        return list(read_all(self.at_node(number)))

    def connected(self, number: int) -> pymysql.connections.Connection[Any]:
        """Somebody else's session at this node; it sees what the others have committed."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.cluster.nodes[number].port,
            user="root",
            database=self.database,
            read_timeout=30,
            init_command="SET SESSION wsrep_sync_wait = 7",
        )

    def conflicts(self) -> int:
        """How many transactions the cluster has refused or ended for another's sake."""
        names = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
        return sum(int(node.status()[name]) for node in self.cluster.nodes for name in names)

    def test_it_is_known_for_what_it_is(self) -> None:
        """A lease outlives the time for which a cluster stands still over a node that is gone."""
        log = self.opened()

        assert log.facts().kind.startswith("Galera, MariaDB ")
        assert log.lease_seconds == LEASE_SECONDS

    def test_the_node_of_the_holder_is_killed_in_a_commit(self) -> None:
        """L45: it goes on at another node within its lease; all that was confirmed is there."""
        writer = self.to_all(0)
        writer.take()
        silences: list[float] = []
        is_over = threading.Event()

        def stream() -> None:
            while not is_over.is_set():
                entries, began = writer.sealed(b"x" * 2000), time.monotonic()
                writer.send_until_known(entries)
                silences.append(time.monotonic() - began)

        thread = threading.Thread(target=stream)
        thread.start()
        try:
            await_true(lambda: len(writer.stored) >= 50, "some are stored")
            self.cluster.nodes[0].kill()
            killed_at = len(writer.stored)
            await_true(lambda: len(writer.stored) >= killed_at + 50, "it goes on")
        finally:
            is_over.set()
            thread.join(60)

        assert max(silences) < LEASE_SECONDS
        for number in (1, 2):
            assert self.read_at(number) == writer.stored
        self.cluster.go_on()
        assert self.read_at(0) == writer.stored

    def test_a_node_that_is_paused_is_gone_on_without(self) -> None:
        """
        L46: a holder whose node hangs is replaced through another one, which a broker finds by
        itself; what had been sent to the paused one is never stored, however late it wakes up.
        """
        zombie, holder = self.to_node(0, "a"), self.to_all(0, "b")
        zombie.take()
        kept = zombie.append(b"before")
        late = zombie.sealed(b"late")
        self.cluster.nodes[0].pause()
        with pytest.raises(UnreachableError):
            zombie.log.append(late, SHORT_SECONDS)
        began = time.monotonic()
        take_until_known(holder)
        after = holder.append(b"after")
        assert time.monotonic() - began < LEASE_SECONDS
        self.cluster.nodes[0].resume()
        self.cluster.await_whole()

        assert zombie.send_until_known(late) is Outcome.DEPOSED
        for number in range(3):
            assert self.read_at(number) == kept + after

    def test_a_node_without_the_majority_neither_stores_nor_tells(self) -> None:
        """
        L47: cut off with its holder, it is of no use to it in either direction, also where its
        settings let old reads through; a broker that knows all nodes finds one that may write.
        """
        self.cluster.nodes[0].execute("SET GLOBAL wsrep_dirty_reads = ON")
        zombie, holder, anew = self.to_node(0, "a"), self.to_all(0, "b"), self.at_node(0)
        zombie.take()
        kept = zombie.append(b"before")
        late = zombie.sealed(b"late")
        anew.close()
        self.cluster.nodes[0].cut_off()
        try:
            await_true(lambda: self.status(0, "wsrep_cluster_status") != "Primary", "it is alone")
            began = time.monotonic()
            take_until_known(holder)
            after = holder.append(b"after")
            assert time.monotonic() - began < LEASE_SECONDS
            for call in (
                zombie.log.observe,
                partial(zombie.log.append, late),
                zombie.log.renew,
                anew.observe,
            ):
                began = time.monotonic()
                with pytest.raises(UnreachableError):
                    call(SHORT_SECONDS)
                assert time.monotonic() - began < 10 * SHORT_SECONDS
        finally:
            self.cluster.nodes[0].join_again()
            self.cluster.nodes[0].ask("SET GLOBAL wsrep_dirty_reads = OFF")
        self.cluster.await_whole()

        assert zombie.send_until_known(late) is Outcome.DEPOSED
        for number in range(3):
            assert self.read_at(number) == kept + after

    def test_a_node_that_replicates_nothing_is_gone_past(self) -> None:
        """
        It is in the cluster and has all, and its new sessions give the others nothing, as somebody
        changes a table there: what was stored through one of those nobody else would ever get.
        """
        writer = self.to_all(0)
        writer.take()
        kept = writer.append(b"before")
        node = self.cluster.nodes[0]
        node.ask("SET GLOBAL wsrep_on = OFF")
        try:
            with suppress(UnreachableError):  # The connection is cut.
                node.ask(f"KILL {own_id(writer.log)}")
                writer.log.renew(SECONDS)
            kept += writer.append(b"after")
            with pytest.raises(UnreachableError, match="wsrep_on"):
                self.at_node(0)
        finally:
            node.ask("SET GLOBAL wsrep_on = ON")
        for number in range(3):
            assert self.read_at(number) == kept

    def test_a_good_node_is_found_at_the_start_and_when_it_comes_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first of the URL would lose what is stored; then all would, and one is put right."""
        monkeypatch.setattr(safety, "LOOK_SECONDS", 0.1)
        monkeypatch.setattr(safety, "SEARCH_SECONDS", 0.5)
        name = "innodb_flush_log_at_trx_commit"
        nodes = self.cluster.nodes
        try:
            nodes[0].execute(f"SET GLOBAL {name} = 0")
            writer = self.to_all(0)
            writer.take()
            assert writer.append(b"one")
            for node in nodes[1:]:
                node.execute(f"SET GLOBAL {name} = 0")
            entries = writer.sealed(b"two")
            await_true(lambda: is_refused(writer, entries), "nothing is stored")
            nodes[2].execute(f"SET GLOBAL {name} = 1")
            await_true(lambda: not is_refused(writer, entries), "the good node is found")
        finally:
            for node in nodes:
                node.execute(f"SET GLOBAL {name} = 1")

    def test_a_node_that_has_left_its_cluster_is_no_database_of_its_own(self) -> None:
        """
        It was started by itself with the rows of then, its lease row among them: they say in which
        cluster they are.
        """
        writer = self.to_node(1)
        writer.take()
        kept = writer.append(b"before")
        writer.log.tell(
            Waiter(claimant=writer.claimant, known_level=1, beat=1, applied_index=0), SECONDS
        )
        assert self.read_at(2) == kept
        node = self.cluster.nodes[2]
        settings = node.settings()
        node.stop()
        alone = {name: it for name, it in settings.items() if not name.startswith("wsrep")}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node, "settings", lambda: alone)
            patch.setattr(node, "is_ready", lambda: bool(node.status()))
            node.start()
            with pytest.raises(UnreachableError, match="in none, and its log is in the Galera"):
                self.at_node(2)
            node.stop()
        self.cluster.await_whole()
        assert self.read_at(2) == kept

    def test_what_the_cluster_finds_too_large_costs_nobody_else_anything(self) -> None:
        """It is refused by the cluster's own limit, twice, and the next one is stored."""
        writer = self.to_node(0)
        writer.take()
        node = self.cluster.nodes[0]
        node.ask("SET GLOBAL wsrep_max_ws_size = 2000000")
        try:
            large = writer.sealed(b"x" * 4_000_000)
            with pytest.raises(EntryRefusedError, match=r"(?i)size"):
                writer.send_until_known(large)
            kept = writer.append(b"small")
        finally:
            node.ask("SET GLOBAL wsrep_max_ws_size = DEFAULT")
        assert self.read_at(1) == kept

    def test_a_take_at_another_node_ends_a_batch_that_is_being_stored(self) -> None:
        """L48: the take is the first to be certified; of the batch not one row is there."""
        zombie, holder = self.to_node(0, "a"), self.to_node(1, "b")
        zombie.take()
        kept = zombie.append(b"before")
        late = zombie.sealed(bytes(12 << 20), b"late")
        conflicts = self.conflicts()
        takes = before_last_packet(zombie.log, holder.take)
        with pytest.raises(UnreachableError):
            zombie.log.append(late, SECONDS)

        assert takes() == 1
        assert self.conflicts() == conflicts + 1
        assert zombie.send(late) is Outcome.DEPOSED
        after = holder.append(b"after")
        for number in range(3):
            assert self.read_at(number) == kept + after

    def test_a_node_that_lags_does_not_tell_what_was(self) -> None:
        """L49: it applies nothing just now; it is waited for, and no longer than asked."""
        writer, reader = self.to_node(0), self.to_node(1)
        elsewhere = self.to_all(1)
        writer.take()
        writer.append(b"before")
        assert reader.log.observe(SECONDS).end == writer.end
        with self.connected(1) as blocker:
            try:
                blocker.query("FLUSH TABLES WITH READ LOCK")
                await_true(lambda: self.status(1, "wsrep_local_state_comment") != "Synced", "lags")
                writer.append(b"after")
                began = time.monotonic()
                with pytest.raises(UnreachableError):
                    reader.log.observe(SHORT_SECONDS)
                assert time.monotonic() - began < 10 * SHORT_SECONDS
                with suppress(UnreachableError):
                    elsewhere.log.observe(SHORT_SECONDS)
                assert elsewhere.log.observe(SECONDS).end == writer.end, "another node knows"
            finally:
                blocker.query("UNLOCK TABLES")

        assert reader.log.observe(SECONDS).end == writer.end
        self.cluster.await_whole()

    def test_a_cluster_that_begins_with_the_one_that_missed_something(self, tmp_path: Path) -> None:
        """L50: all were killed; who saw more refuses it, and goes on with the most advanced."""
        nodes = self.cluster.nodes
        writer = self.to_all(0)
        writer.take()
        writer.append(b"one", b"two")
        assert self.read_at(2) == writer.stored, "it has applied all that it was sent"
        nodes[2].kill()
        writer.send_until_known(writer.sealed(b"three"))
        seen = SeenFile(tmp_path, RealDisk())
        seen.note(writer.log.identity(), writer.epoch, writer.end, 0.0)
        self.cluster.kill()
        assert self.cluster.recovered(2) < self.cluster.recovered(0)
        nodes[2].allow_first()
        nodes[2].is_first = True
        nodes[2].start()

        error = self.joined(nodes[2], seen)
        assert type(error) is StoreError
        assert "went back in time" in str(error)
        nodes[2].kill()
        # What it did meanwhile is not the others' history: it is to be sent the whole of theirs.
        (nodes[2].data / "grastate.dat").unlink()
        self.cluster.start(0)
        assert self.joined(nodes[2], seen) is None
        for number in range(3):
            assert self.read_at(number) == writer.stored

    def test_a_lock_that_is_read_is_everybodys(self) -> None:
        """L51: two nodes lock one row for two clients, and a lock of a name; why we use neither."""
        self.writer().take()
        with self.connected(0) as one, self.connected(1) as other:
            for statement in (
                "SELECT epoch FROM holdfast_lease FOR UPDATE",
                "SELECT GET_LOCK('holdfast', 0)",
            ):
                assert answers(one, statement) == answers(other, statement) == [(1,)]
            one.rollback()
            other.rollback()

    @pytest.mark.parametrize("fence", ["read", "written"])
    def test_a_fence_holds_by_being_written(self, fence: str) -> None:
        """L51: a zombie that only reads the epoch stores after the take; one that writes cannot."""
        zombie, holder = self.to_node(0, "a"), self.to_node(1, "b")
        zombie.take()
        with self.connected(0) as session:
            session.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            session.begin()
            if fence == "read":
                assert answers(session, "SELECT epoch FROM holdfast_lease") == [(1,)]
            else:
                session.query("UPDATE holdfast_lease SET beat = beat + 1 WHERE epoch = 1")
            session.query("INSERT INTO holdfast_entries VALUES (9, 0, 1, 1, 1, 1, 1, 'late')")
            holder.take()
            refusal = refused(session.commit)
            session.rollback()

        rows = self.cluster.nodes[2].execute(
            "SELECT idx, term FROM holdfast_entries", self.database
        )
        assert (refusal, rows) == ((None, [(9, 1)]) if fence == "read" else (DEADLOCK, []))

    def status(self, number: int, name: str) -> str:
        """One thing that a node says of itself."""
        return self.cluster.nodes[number].status().get(name, "")

    def joined(self, node: GaleraNode, seen: SeenFile) -> Exception | None:
        """Why a broker that has seen this does not go on with this node, if it does not."""
        log = open_sql_log(node.url(self.database), own_directory=Path("/nowhere"))
        worker = LogWorker(log, seen, time.monotonic, name="a")
        try:
            return worker.perform(Join(0, Place(0, bytes(16)).chain, SECONDS)).error
        finally:
            worker.close()


def take_until_known(writer: Writer) -> None:
    """Take the lease, while the cluster makes up its mind who is in it."""
    until = time.monotonic() + KNOWN_SECONDS_MAX
    while True:
        try:
            writer.take(seconds=SHORT_SECONDS)
            return
        except UnreachableError:
            assert time.monotonic() < until, "it is never taken"


def is_refused(writer: Writer, entries: list[Entry]) -> bool:
    """Whether it keeps nothing of this."""
    try:
        writer.send_until_known(entries)
    except AppendRefusedError:
        return True
    return False


def before_last_packet(log: LeasedLog, action: Callable[[], object]) -> Callable[[], int]:
    """Do this once, before the last packet of a long append is sent; gives how often it was."""
    session = log._link._session  # type: ignore[attr-defined]
    # On a machine with much to do a transaction waits for its client longer than the usual second.
    session.write("SET SESSION idle_write_transaction_timeout = 0")
    send, done = session._send, []

    def send_after(text: str, values: dict[str, Any]) -> list[int]:
        if "; COMMIT" in text:
            done.append(action())
        return list(send(text, values))

    session._send = send_after
    return lambda: len(done)


def own_id(log: LeasedLog) -> int:
    """Of the log's connection, at its node."""
    session = log._link._session  # type: ignore[attr-defined]
    return int(session.rows("SELECT CONNECTION_ID()")[0][0])


def answers(connection: pymysql.connections.Connection[Any], statement: str) -> list[Any]:
    """What this statement gives."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def refused(action: Callable[[], object]) -> int | None:
    """The number of the error that this raises, if it does."""
    try:
        action()
    except pymysql.MySQLError as error:
        return int(error.args[0])
    return None
