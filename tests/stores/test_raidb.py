"""The contract of leased logs, kept by several databases that know nothing of each other."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import LeasedLog, Outcome, Place, TakeGoesOnError, Waiter
from holdfast.leases.projection import Changes, MessageKey, Span
from holdfast.model.limits import MiB
from holdfast.raidb.member import Token
from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.sql_member import SqlMember
from holdfast.sql.opening import make_sql_log
from tests.stores.broker_suite import BrokerSuite
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.stores.projection_suite import change, message, row
from trials.databases.mariadb import MariadbServer
from trials.databases.postgresql import PostgresqlServer


class TwoFiles(BrokerSuite):
    """Files of SQLite, each a database of its own."""

    count = 2
    settings = RaidbSettings()
    may_keep_unconfirmed = True  # In one of them, when the first of the others was taken.

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self._paths = [tmp_path / f"{name}.db" for name in "abc"[: self.count]]

    def another(self) -> LeasedLog:
        urls = [f"sqlite:///{it}" for it in self._paths]
        return open_raidb_log(urls, self.settings, own_directory=self._paths[0].parent)

    def lose_entry(self, index: int) -> None:
        self._change(f"DELETE FROM holdfast_entries WHERE idx = {index}")

    def rot_entry(self, index: int) -> None:
        for path in self._paths:
            with sqlite3.connect(path) as connection:
                (raw,) = connection.execute(
                    "SELECT raw FROM holdfast_entries WHERE idx = ?", (index,)
                ).fetchone()
                rotten = raw[:100] + bytes([raw[100] ^ 1]) + raw[101:]
                connection.execute(
                    "UPDATE holdfast_entries SET raw = ? WHERE idx = ?", (rotten, index)
                )
            connection.close()

    def lose_lease(self) -> None:
        self._change("DELETE FROM holdfast_lease")

    def _change(self, statement: str) -> None:
        for path in self._paths:
            with sqlite3.connect(path) as connection:
                connection.execute(statement)
            connection.close()


class TestTwoFiles(TwoFiles):
    """Two of them: both are needed to begin."""


class TestThreeFiles(TwoFiles):
    """Three of them: two are enough."""

    count = 3


class TestThreeFilesByMajority(TwoFiles):
    """Confirmed once two of them have it."""

    count = 3
    settings = RaidbSettings(confirm="majority")


def test_by_majority_one_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    """A foreign transaction holds one of three: no append waits for it, and later it has all."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    settings = RaidbSettings(confirm="majority", member_timeout_seconds=20)
    log = open_raidb_log(urls, settings, own_directory=tmp_path)
    log.open()
    try:
        writer = Writer(log)
        writer.take()
        writer.append(b"one")
        foreign = sqlite3.connect(tmp_path / "b.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        for number in range(5):
            assert writer.send(writer.sealed(b"%d" % number), 30.0) is Outcome.STORED
        assert time.monotonic() - began < 10
        assert "active: " in "".join(state for _, _, state in log.facts().members)
        foreign.execute("ROLLBACK")
        foreign.close()
        deadline = time.monotonic() + 60
        while {state for _, _, state in log.facts().members} != {"active"}:
            assert time.monotonic() < deadline, log.facts().members
            assert log.renew(SECONDS) is Outcome.STORED
        log.release(SECONDS)
        assert read_all(log) == writer.stored
        assert all(rows_of(it, tmp_path) == [e.raw for e in writer.stored] for it in urls)
    finally:
        log.close()


def test_three_kinds_of_databases_hold_one_log(
    postgresql: PostgresqlServer, mariadb: MariadbServer, tmp_path: Path
) -> None:
    """L60: PostgreSQL, MariaDB and SQLite; one is killed and filled, then a row of each rots."""
    urls = [postgresql.create("several"), mariadb.create("several"), f"sqlite:///{tmp_path}/c.db"]
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.has_thread = False  # What a thread of its own would do is done here, step by step.
    log.open()
    try:
        writer = Writer(log)
        writer.take()
        writer.append(b"one", b"two" * MiB, b"three")
        mariadb.kill()
        entries = writer.sealed(b"four")
        stored_after(writer, entries)
        assert [state for _, _, state in log.facts().members].count("failed") == 1
        mariadb.start()
        filled(log, writer)
        writer.append(b"six")
        assert read_all(log) == writer.stored
        tenure = log._tenure
        assert tenure is not None
        for member in tenure.active:  # As where a database lets no second connection in.
            token = tenure.token(member)
            found = log.databases._entries_between(member, 1, 2, token, SECONDS)
            assert found == writer.stored[1:2]
        for number, url in enumerate(urls):
            rot(url, tmp_path, entry=number + 1)
        deadline = time.monotonic() + 60
        while log.caretaker.mended_count < len(urls):
            assert time.monotonic() < deadline, log.caretaker.mended_count
            log.caretaker.scrub()
        for url in urls:
            assert rows_of(url, tmp_path) == [it.raw for it in writer.stored]
    finally:
        log.close()


def test_each_of_several_shows_queues_and_messages(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    """
    Two files of SQLite and PostgreSQL: one that somebody holds a lock on misses some, and nothing
    else comes of it; then all is compared, and what one shows by itself goes.
    """
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    urls.append(postgresql.create("showing"))
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    try:
        writer = Writer(log)
        writer.take()
        writer.append(b"one")
        first, second, third = (message(1, it) for it in (1, 2, 3))
        assert change(log, Changes(queues=(row(1, 2),), messages=(first, second)))
        assert [shown(it, tmp_path) for it in urls] == [([(1, 2)], [1, 2])] * 3
        foreign = sqlite3.connect(tmp_path / "b.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        settled = (Span(1, 1, 1),)
        assert change(log, Changes(queues=(row(1, 1),), messages=(third,), settled=settled))
        foreign.execute("ROLLBACK")
        foreign.close()
        assert writer.append(b"two")
        assert {state for _, _, state in log.facts().members} == {"active"}
        told = [shown(it, tmp_path) for it in urls]
        assert told == [([(1, 1)], [2, 3]), ([(1, 2)], [1, 2]), ([(1, 1)], [2, 3])]

        with pytest.raises(StoreError, match=r"b\.db: .*all is compared anew"):
            change(log, Changes(queues=(row(1, 1),)))
        assert [it.sequence for it in log.shown_keys(MessageKey(-1, 0), SECONDS)] == [2]
        assert change(log, Changes(queues=(row(1, 1),), messages=(third,)))
        assert [shown(it, tmp_path) for it in urls] == [([(1, 1)], [2, 3])] * 3
    finally:
        log.close()


def shown(url: str, directory: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """What one of them shows: number and depth of each queue, and its messages."""
    member = make_sql_log(
        url, lambda: SqlMember, allow_unsafe_database=False, own_directory=directory
    )
    queues = "SELECT number, depth FROM holdfast_queues ORDER BY number"
    messages = "SELECT sequence FROM holdfast_messages ORDER BY sequence"
    try:
        rows = member._link.run(SECONDS, lambda it: it.rows(queues))
        found = member._link.run(SECONDS, lambda it: it.rows(messages))
        return [(number, depth) for number, depth in rows], [it for (it,) in found]
    finally:
        member.close()


def stored_after(writer: Writer, entries: list[Entry]) -> None:
    """Send the same again until it is stored, as the driver does."""
    deadline = time.monotonic() + 30
    while True:
        assert time.monotonic() < deadline
        try:
            assert writer.send(entries) is Outcome.STORED
        except UnreachableError:
            time.sleep(0.1)
        else:
            return


def filled(log: RaidbLog, writer: Writer) -> None:
    """Write on while what was left out is filled, until all databases count."""
    deadline = time.monotonic() + 60
    while {state for _, _, state in log.facts().members} != {"active"}:
        assert time.monotonic() < deadline, log.facts().members
        log.caretaker.step()
        stored_after(writer, writer.sealed(b"meanwhile"))


def rot(url: str, directory: Path, entry: int) -> None:
    """Damage the first row of an entry in one of them."""
    member = make_sql_log(
        url, lambda: SqlMember, allow_unsafe_database=False, own_directory=directory
    )
    statement = "UPDATE holdfast_entries SET raw = :raw WHERE idx = :entry AND part = 0"
    try:
        values = {"raw": b"rotten", "entry": entry}
        assert member._link.run(SECONDS, lambda it: it.write(statement, values)) == 1
    finally:
        member.close()


def rows_of(url: str, directory: Path) -> list[bytes]:
    """The entries that stand in one of them."""
    member = make_sql_log(
        url, lambda: SqlMember, allow_unsafe_database=False, own_directory=directory
    )
    try:
        row = member.read(SECONDS)
        found: list[Entry] = []
        while len(found) < row.lease.end.index:
            found += member.entries(len(found), row.lease.end.index, 8 * MiB, SECONDS)
        return [it.raw for it in found]
    finally:
        member.close()


def test_a_file_that_came_back_is_filled_while_others_are_written(tmp_path: Path) -> None:
    """L54: with threads, a file that was locked for a while by a foreign transaction."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    log = open_raidb_log(urls, RaidbSettings(member_timeout_seconds=0.3), own_directory=tmp_path)
    log.open()
    log.caretaker.start()
    try:
        writer = Writer(log)
        writer.take()
        writer.append(b"one")
        foreign = sqlite3.connect(tmp_path / "b.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        stored_after(writer, writer.sealed(b"two"))
        assert [state for _, _, state in log.facts().members].count("active") == 2
        foreign.execute("ROLLBACK")
        foreign.close()
        deadline = time.monotonic() + 60
        while {state for _, _, state in log.facts().members} != {"active"}:
            assert time.monotonic() < deadline, log.facts().members
            stored_after(writer, writer.sealed(b"meanwhile"))
        assert read_all(log) == writer.stored
        assert all(rows_of(it, tmp_path) == [e.raw for e in writer.stored] for it in urls)
    finally:
        log.close()


def test_one_database_by_two_addresses_is_refused(tmp_path: Path) -> None:
    """L58: a link to a file is the file."""
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)

    with pytest.raises(StoreError, match=r"a\.db and .*b\.db are one database"):
        log.open()
    log.close()


def test_each_database_has_the_view_on_its_lease(tmp_path: Path) -> None:
    """What operators of ActiveMQ look at, made by the holder alone as it tells of itself."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    try:
        writer = Writer(log)
        line = Waiter(claimant=writer.claimant, known_level=1, beat=1, applied_index=0)
        log.tell(line, SECONDS)
        assert [views_of(tmp_path / f"{name}.db") for name in "ab"] == [[], []]
        writer.take()
        log.tell(line, SECONDS)
        assert [views_of(tmp_path / f"{name}.db") for name in "ab"] == [["ACTIVEMQ_LOCK"]] * 2
    finally:
        log.close()


def views_of(path: Path) -> list[str]:
    """The views that stand in a file."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
    connection.close()
    return [name for (name,) in rows]


CALL_SECONDS = 0.6


def slow_down(log: RaidbLog, name: str, bytes_per_second: float) -> None:
    """Let what is stored in one take its time, and be given up where that is too long."""
    (member,) = (it for it in log.databases.members if it.place.endswith(name))
    store = member.store

    def slowly(token: Token, entries: list[Entry], before: Place, seconds: float) -> Outcome:
        wanted = bytes_of(entries) / bytes_per_second
        time.sleep(min(wanted, seconds))
        if wanted > seconds:
            raise UnreachableError("the way there is slow")
        return store(token, entries, before, seconds)

    member.store = slowly  # type: ignore[method-assign]


def cut_off(log: RaidbLog, name: str) -> None:
    """Let nothing more be stored in one."""
    (member,) = (it for it in log.databases.members if it.place.endswith(name))

    def fail(*_: object) -> Outcome:
        raise UnreachableError("the way there is cut")

    member.store = fail  # type: ignore[method-assign]


def take_in_calls(log: RaidbLog) -> tuple[Writer, list[str]]:
    """Take it in as many calls as that needs; what was told of the second database meanwhile."""
    writer, told = Writer(log, "b"), []
    seen = log.observe(CALL_SECONDS)
    while True:
        try:
            writer.take(seen, CALL_SECONDS)
        except TakeGoesOnError:
            told += [state for _, place, state in log.facts().members if place.endswith("b.db")]
        else:
            return writer, told


def test_a_large_entry_in_one_of_three_does_not_end_the_service(tmp_path: Path) -> None:
    """J6: its holder was killed; behind the ways to the others it takes longer than a take."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    first = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    first.open()
    writer = Writer(first)
    writer.take()
    writer.append(b"one")
    for name in ("b.db", "c.db"):
        cut_off(first, name)
    with pytest.raises(UnreachableError):
        first.append(writer.sealed(bytes(2 * MiB)), 0.3)
    first.close()

    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    for name in ("b.db", "c.db"):
        slow_down(log, name, 1.0 * MiB)
    after, _ = take_in_calls(log)
    assert after.end.index == 1
    after.append(b"two")
    assert log.renew(SECONDS) is Outcome.STORED
    log.close()
    for path in sorted(tmp_path.glob("?.db")):
        with sqlite3.connect(path) as connection:
            found = connection.execute("SELECT MAX(idx), COUNT(*) FROM holdfast_entries").fetchone()
        assert found == (2, 2)


def test_a_take_goes_on_for_as_long_as_it_gets_on(tmp_path: Path) -> None:
    """J5: the one that lags is needed; by most, another one that had it all is away."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    settings = RaidbSettings(confirm="majority", member_timeout_seconds=60.0)
    first = open_raidb_log(urls, settings, own_directory=tmp_path)
    first.open()
    writer = Writer(first)
    writer.take()
    cut_off(first, "b.db")
    for _ in range(20):
        writer.append(bytes(100_000))
    first.close()

    log = open_raidb_log([urls[0], urls[1]], settings, own_directory=tmp_path)
    log.open()
    slow_down(log, "b.db", 1.0 * MiB)
    after, told = take_in_calls(log)
    assert after.end.index == 20
    assert len(told) > 1
    assert "before anybody serves" in told[0]
    after.append(b"more")
    assert log.observe(SECONDS).sure.index == 21
    log.close()
