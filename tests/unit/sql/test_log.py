"""The leased log's own decisions, over SQLite where nothing depends on the dialect."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import EntryRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome, Place, Waiter
from holdfast.leases.projection import Changes
from holdfast.sql import log as log_module
from holdfast.sql import statements
from holdfast.sql.log import SqlLog
from holdfast.sql.opening import open_sql_log
from holdfast.sql.session import UncertainError, Values
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.url import parse_store_url
from tests.stores.leased_log_suite import SECONDS, Writer, claimant, read_all


class Database:
    """One file; every log that is opened on it is closed at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: list[SqlLog] = []

    def log(self, *, is_open: bool = True, allow_unsafe_database: bool = False) -> SqlLog:
        log = open_sql_log(
            f"sqlite:///{self.path}",
            allow_unsafe_database=allow_unsafe_database,
            own_directory=self.path.parent,
        )
        self.logs.append(log)
        if is_open:
            log.open()
        return log

    def execute(self, statement: str, *values: Any) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            connection.execute(statement, values)
        connection.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "store.db")
    yield database
    for log in database.logs:
        log.close()


@pytest.fixture
def writer(database: Database) -> Writer:
    writer = Writer(database.log())
    writer.take()
    return writer


def lose_replies(monkeypatch: pytest.MonkeyPatch, *, before: bool, count: int = 1) -> None:
    """The connection breaks at the next appends: before they are sent, or once they are done."""
    append = SqliteSession.append
    left = [None] * count

    def lost(self: SqliteSession, fence: Values, parts: Any) -> bool:
        if not left:
            return append(self, fence, parts)
        left.pop()
        if not before:
            append(self, fence, parts)
        raise UncertainError("the connection was cut")

    monkeypatch.setattr(SqliteSession, "append", lost)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_an_unknown_outcome_is_answered_by_the_same_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, *, before: bool, count: int
) -> None:
    """L32: cut before it was sent, or before the reply, once or often: it is stored once."""
    lose_replies(monkeypatch, before=before, count=count)
    entries = writer.sealed(b"one", b"two")
    for _ in range(count):
        with pytest.raises(UnreachableError):
            writer.send(entries)

    assert writer.send(entries) is Outcome.STORED
    assert read_all(writer.log) == entries


def answer_with_an_error(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """Let the database itself refuse the next appends, as a trigger or a limit of its own does."""
    append = SqliteSession.append

    def refuse(self: SqliteSession, fence: Values, parts: Any) -> bool:
        if errors:
            raise errors.pop()
        return append(self, fence, parts)

    monkeypatch.setattr(SqliteSession, "append", refuse)


def test_what_the_database_answers_with_an_error_twice_is_refused(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The lease is renewed meanwhile, so it is the entry that is not taken; others are, afterwards.
    """
    answer_with_an_error(monkeypatch, [sqlite3.IntegrityError("a trigger says no")] * 2)
    entries, beat = writer.sealed(b"one"), writer.log.observe(SECONDS).beat
    with pytest.raises(UnreachableError):
        writer.send(entries)
    with pytest.raises(EntryRefusedError, match="a trigger says no"):
        writer.send(entries)
    assert writer.log.observe(SECONDS).beat == beat + 1
    assert writer.send(entries) is Outcome.STORED


def test_an_answer_is_counted_only_twice_in_turn_and_for_the_same_entries(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is cut between the two says nothing of the entry."""
    no = sqlite3.IntegrityError("no")
    answer_with_an_error(monkeypatch, [no, UncertainError("cut"), no])
    entries = writer.sealed(b"one")
    for _ in range(3):
        with pytest.raises(UnreachableError):
            writer.send(entries)
    assert writer.send(entries) is Outcome.STORED


def test_a_deposed_holder_is_told_so_and_not_that_it_was_refused(
    writer: Writer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is looked at before anything is called refused."""
    answer_with_an_error(monkeypatch, [sqlite3.IntegrityError("no")] * 2)
    entries = writer.sealed(b"one")
    with pytest.raises(UnreachableError):
        writer.send(entries)
    Writer(database.log(), "b").take()
    assert writer.send(entries) is Outcome.DEPOSED


def test_what_was_stored_is_confirmed_by_another_write(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L34: the row alone could be undone yet; a write behind it, that is as sure, could not."""
    lose_replies(monkeypatch, before=False)
    entries = writer.sealed(b"one")
    with pytest.raises(UnreachableError):
        writer.send(entries)
    renewed: list[str] = []
    write = SqliteSession.write

    def noted(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        renewed.append(statement)
        return write(self, statement, values)

    monkeypatch.setattr(SqliteSession, "write", noted)
    beat = writer.log.observe(SECONDS).beat

    assert writer.send(entries) is Outcome.STORED
    assert renewed[-1] == log_module.statements.RENEW
    assert writer.log.observe(SECONDS).beat == beat + 1


def test_an_unknown_outcome_of_a_deposed_holder_is_deposed(
    writer: Writer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L33: once another epoch began, what was undecided will never be added to."""
    lose_replies(monkeypatch, before=True)
    entries = writer.sealed(b"late")
    with pytest.raises(UnreachableError):
        writer.send(entries)
    other = Writer(database.log(), "b")
    other.take()

    assert writer.send(entries) is Outcome.DEPOSED
    assert read_all(other.log) == []


def test_a_take_of_unknown_outcome_is_nobodys_to_assume(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may have been taken is not written under; observing it and taking again works."""
    writer = Writer(database.log())
    write = SqliteSession.write

    def cut(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        found = write(self, statement, values)
        if statement == log_module.statements.TAKE_ALONE:
            monkeypatch.setattr(SqliteSession, "write", write)
            raise UncertainError("the connection was cut")
        return found

    monkeypatch.setattr(SqliteSession, "write", cut)
    with pytest.raises(UnreachableError):
        writer.take()
    writer.epoch = 1
    assert writer.send(writer.sealed(b"x")) is Outcome.DEPOSED
    assert writer.log.observe(SECONDS).claimant == writer.claimant
    writer.take()
    assert writer.epoch == 2
    assert writer.append(b"x")


@pytest.mark.parametrize(
    "change",
    [
        "last_index = 5",
        "last_index = 0",
        "last_chain = '07070707070707070707070707070707'",
        "last_chain = 'ab' || substr(last_chain, 3)",
    ],
)
def test_an_end_that_is_not_ours_stops_everything(
    writer: Writer, database: Database, change: str
) -> None:
    """Under our epoch nobody else writes: a row that was changed by hand is not gone on with."""
    entries = writer.append(b"one", b"two")
    database.execute(f"UPDATE holdfast_lease SET {change}, first_index = 1")

    with pytest.raises(StoreError, match="changed by hand") as raised:
        writer.log.append(entries if "substr" in change else writer.sealed(b"x"), SECONDS)
    assert type(raised.value) is StoreError


@pytest.mark.parametrize(
    "change",
    ["last_chain = 'no chain'", "last_chain = 'abcd'", "first_index = 99", "epoch = -1"],
)
def test_a_lease_row_that_makes_no_sense_is_refused(
    writer: Writer, database: Database, change: str
) -> None:
    """What is in it is told, and that it was changed by hand."""
    database.execute(f"UPDATE holdfast_lease SET {change}")

    for call in (lambda: writer.log.observe(SECONDS), database.log):
        with pytest.raises(StoreError, match="makes no sense"):
            call()


def test_a_lease_that_is_ours_and_cannot_be_renewed_is_an_error(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that finds no row where it shows one does not do what it is asked."""
    write = SqliteSession.write
    monkeypatch.setattr(
        SqliteSession,
        "write",
        lambda self, statement, values=None: (
            0 if statement == log_module.statements.RENEW else write(self, statement, values)
        ),
    )

    with pytest.raises(StoreError, match="lets nothing be written"):
        writer.log.renew(SECONDS)


def turned(log: SqlLog, monkeypatch: pytest.MonkeyPatch, path: Path) -> pytest.MonkeyPatch:
    """Let new connections lead to another database, as where an address does; undo turns back."""
    connect = SqliteSession.connect
    elsewhere = parse_store_url(f"sqlite:///{path}", own_directory=path.parent)
    monkeypatch.setattr(
        log._link, "_connect", lambda _url, host, left: connect(elsewhere, host, left)
    )
    log._link.close()
    return monkeypatch


@pytest.mark.parametrize("epochs", [0, 3])
def test_an_address_that_leads_to_another_log_for_a_while_ends_nobody(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    """
    Neither who holds the lease nor who waits, whichever log is older; nothing is done to that one.
    """
    log, identity = writer.log, writer.log.identity()
    assert isinstance(log, SqlLog)
    other = Database(tmp_path / "other.db")
    staging = Writer(other.log())
    for _ in range(epochs):
        staging.take()
    before = staging.log.observe(SECONDS)
    entries = writer.sealed(b"one")
    turned(log, monkeypatch, other.path)
    for call in (
        lambda: writer.send(entries),
        lambda: log.renew(SECONDS),
        lambda: log.take(before, claimant("b"), SECONDS),
        lambda: log.observe(SECONDS),
    ):
        with pytest.raises(UnreachableError, match=rf"another log now.*{identity}.*tried again"):
            call()
    assert staging.log.observe(SECONDS) == before
    staging.log.close()
    monkeypatch.undo()

    assert writer.send(entries) is Outcome.STORED


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE TABLE x (y)", "has no log now .*bring back a backup"),
        ("CREATE TABLE holdfast_meta (id)", "has not the tables of this log"),
        (
            "CREATE TABLE holdfast_meta (id, format, store_id, member_id)",
            "has no log now",
        ),
    ],
)
def test_an_address_that_leads_to_no_log_for_a_while_ends_nobody(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, told: str
) -> None:
    """An empty database, or one of something else: nothing was lost that a backup would bring."""
    other = Database(tmp_path / "other.db")
    other.execute(statement)
    assert isinstance(writer.log, SqlLog)
    turned(writer.log, monkeypatch, other.path)
    for _ in range(2):
        with pytest.raises(UnreachableError, match=told):
            writer.log.observe(SECONDS)
    monkeypatch.undo()

    assert writer.send(writer.sealed(b"one")) is Outcome.STORED


def test_an_address_that_leads_to_a_log_of_another_version_for_a_while_ends_nobody(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A staging that is ahead."""
    other = Database(tmp_path / "other.db")
    other.log().close()
    other.execute("UPDATE holdfast_meta SET format = 99")
    assert isinstance(writer.log, SqlLog)
    turned(writer.log, monkeypatch, other.path)
    with pytest.raises(UnreachableError, match=r"cannot be used now: .*format 99"):
        writer.log.renew(SECONDS)
    monkeypatch.undo()

    assert writer.send(writer.sealed(b"one")) is Outcome.STORED


def test_who_was_not_served_from_yet_is_refused_where_another_log_is(
    writer: Writer, database: Database
) -> None:
    """Its operator is there, and nobody is without a broker for it."""
    log = writer.log
    assert isinstance(log, SqlLog)
    log._link.is_trusted = False
    database.execute("UPDATE holdfast_meta SET store_id = ?", "e" * 32)
    log.close()  # as after a lost connection

    with pytest.raises(StoreError, match=f"another log now \\({'e' * 32}\\)") as raised:
        log.observe(SECONDS)
    assert not isinstance(raised.value, UnreachableError)


def test_unsafe_settings_are_refused_or_told(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L40: each by its name; allowed on purpose they stand among the facts."""
    monkeypatch.setattr(SqliteSession, "unsafe_settings", lambda _: ["fsync is off", "x is 2"])

    with pytest.raises(StoreError, match="fsync is off; x is 2; change that, or allow it"):
        database.log()
    log = database.log(allow_unsafe_database=True)
    assert [it.partition(": ")[2] for it in log.facts().warnings] == ["fsync is off", "x is 2"]


def test_facts_tell_what_and_where(writer: Writer, database: Database) -> None:
    """The version of the database, its place, and nothing to warn of."""
    facts = writer.log.facts()

    assert facts.kind == f"SQLite {sqlite3.sqlite_version}"
    assert facts.place == f"sqlite:///{database.path}"
    assert [it for it in facts.warnings if "does not last" not in it] == []


def test_a_release_that_is_not_known_to_be_done_stores_nothing_more(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be given back: until it surely is it can be given back again, and not be used."""
    write = SqliteSession.write

    def cut(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        monkeypatch.setattr(SqliteSession, "write", write)
        raise UncertainError("the connection was cut")

    monkeypatch.setattr(SqliteSession, "write", cut)
    with pytest.raises(UnreachableError):
        writer.log.release(SECONDS)
    assert writer.send(writer.sealed(b"x")) is Outcome.DEPOSED
    writer.log.release(SECONDS)
    assert writer.log.observe(SECONDS).is_released


def test_much_is_forgotten_in_steps(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each within its bytes, told by the lease row first; also past rows that are gone."""
    entries = writer.append(*(b"x" * 1000 for _ in range(10)))
    monkeypatch.setattr(log_module, "DROP_BYTES_MAX", 3500)
    steps = []
    while True:
        is_more = writer.log.drop_before(9, SECONDS)
        steps.append(writer.log.observe(SECONDS).first_index)
        if not is_more:
            break

    assert steps == [4, 7, 9]
    assert read_all(writer.log) == entries[8:]
    assert not writer.log.drop_before(9, SECONDS)


def test_gaps_do_not_stop_what_is_to_be_forgotten(writer: Writer, database: Database) -> None:
    """L38: rows that are missing, or have lost their first part, go like the others."""
    entries = writer.append(*(b"x" for _ in range(10)))
    database.execute("DELETE FROM holdfast_entries WHERE idx IN (1, 2, 5)")
    database.execute("UPDATE holdfast_entries SET part = 1 WHERE idx = 3")
    calls = 1
    while writer.log.drop_before(8, SECONDS):
        calls += 1

    assert calls < 10
    assert writer.log.observe(SECONDS).first_index == 8
    assert read_all(writer.log) == entries[7:]


def test_more_than_there_is_cannot_be_forgotten(writer: Writer) -> None:
    """The end stays where it is: behind it nothing is kept, and the next entry follows on it."""
    writer.append(b"x", b"y")
    writer.log.drop_before(3, SECONDS)
    holding = writer.log.observe(SECONDS)
    assert (holding.first_index, holding.end.index) == (3, 2)
    writer.log.drop_before(99, SECONDS)
    assert writer.log.observe(SECONDS).first_index == 3
    assert writer.append(b"z")[0].index == 3


def test_a_take_by_an_observation_that_is_too_old_changes_nothing(
    writer: Writer, database: Database
) -> None:
    """L10: whoever was away for hours has to look again."""
    other = Writer(database.log(), "b")
    seen = other.log.observe(SECONDS)
    writer.append(b"x")
    before = other.log.observe(SECONDS)

    assert other.log.take(seen, other.claimant, SECONDS) is None
    assert other.log.observe(SECONDS) == before


def test_two_of_one_name_that_tell_first_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8: the line that is there already is told again, and not an error."""
    from holdfast.leases.contract import Waiter

    log = database.log()
    waiter = Waiter(claimant=Writer(log).claimant, known_level=1, beat=2, applied_index=3)
    write = SqliteSession.write
    skipped: list[Callable[..., int]] = [lambda: 0]

    def late(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        if statement == log_module.statements.TELL_AGAIN and skipped:
            skipped.pop()
            write(self, log_module.statements.TELL_FIRST, {**(values or {}), "beat": 1})
            return 0
        return write(self, statement, values)

    monkeypatch.setattr(SqliteSession, "write", late)
    log.tell(waiter, SECONDS)

    found = [(it.claimant.holder, it.beat) for it in log.waiters(SECONDS)]
    assert found == [(waiter.claimant.holder, 2)]


def test_an_empty_log_ends_nowhere(database: Database) -> None:
    """Index 0 and zeros."""
    assert database.log().observe(SECONDS).end == Place(0, bytes(16))


def test_the_view_on_the_lease_is_made_by_its_holder(database: Database) -> None:
    """By one broker at a time: two that made it at two nodes of Galera would hang the cluster."""
    writer, other = Writer(database.log()), database.log()

    def is_there() -> bool:
        with closing(sqlite3.connect(database.path)) as connection:
            return bool(
                connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'view'").fetchall()
            )

    for log in (writer.log, other):
        log.tell(waiter("a"), SECONDS)
        assert not is_there()
    writer.take()
    other.tell(waiter("b"), SECONDS)
    assert not is_there()
    writer.log.tell(waiter("a"), SECONDS)
    assert is_there()
    database.execute("DROP VIEW ACTIVEMQ_LOCK")
    writer.log.tell(waiter("a"), SECONDS)
    assert not is_there(), "once in a process"


def waiter(name: str) -> Waiter:
    """A broker as it tells of itself."""
    return Waiter(claimant=claimant(name), known_level=1, beat=1, applied_index=0)


def test_what_is_shown_and_the_log_is_another_is_told_anew(
    writer: Writer, database: Database
) -> None:
    """The lease is ours, and the log ends elsewhere: nothing is shown, and nobody is deposed."""
    assert writer.log.project(Changes(), SECONDS) is Outcome.STORED  # type: ignore[attr-defined]
    writer.append(b"x")
    assert writer.log.project(Changes(), SECONDS) is Outcome.STORED  # type: ignore[attr-defined]
    database.execute("UPDATE holdfast_lease SET last_index = 9")
    with pytest.raises(UnreachableError, match="does not end where"):
        writer.log.project(Changes(), SECONDS)  # type: ignore[attr-defined]


def test_without_its_tables_nothing_is_shown_and_the_reason_is_said(
    writer: Writer, database: Database
) -> None:
    """To whoever tells it; the log goes on."""
    database.execute("CREATE TABLE holdfast_queues (other INTEGER)")
    with pytest.raises(StoreError, match="holdfast_queues is of no use: no such column"):
        writer.log.project(Changes(), SECONDS)  # type: ignore[attr-defined]

    assert writer.append(b"x")
    other = database.log()
    assert other.project(Changes(), SECONDS) is Outcome.DEPOSED


def test_the_time_of_the_last_write_is_known_whatever_was_written(
    database: Database, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append, a sign of life, cleaning; what is shown may be undone, and is not counted upon."""
    log = database.logs[0]

    def require_known() -> None:
        with closing(sqlite3.connect(database.path)) as connection:
            ((epoch, at),) = connection.execute("SELECT epoch, renewed_at FROM holdfast_lease")
        assert log._safety._written == (epoch, at)

    monkeypatch.setattr(type(log._clock), "wall_microseconds", lambda _: 7_000_000)
    seen = set()
    for _ in range(2):
        writer.append(b"one", b"two")
        require_known()
        assert log.renew(SECONDS) is Outcome.STORED
        require_known()
        log.drop_before(2, SECONDS)
        require_known()
        known = log._safety._written
        assert log.project(Changes(stale_before=1), SECONDS) is Outcome.STORED
        assert log._safety._written == known
        seen.add(known)
    assert len(seen) == 2, "it grows also while the wall clock stands"


LOWERING = "UPDATE holdfast_lease SET beat = beat + 1, renewed_at = :at WHERE " + statements.HELD


@pytest.mark.parametrize("is_lowering", [False, True], ids=["as it is", "as it was"])
def test_a_sign_of_life_that_arrives_late_sets_no_time_back(
    database: Database, writer: Writer, monkeypatch: pytest.MonkeyPatch, is_lowering: bool
) -> None:
    """Of a call that was given up: by the next connection the database would be one of the past."""
    log: Any = writer.log
    assert log.renew(SECONDS) is Outcome.STORED
    epoch, at = log._safety._written
    late = {"at": at - 5000, "epoch": epoch, "holder": writer.claimant.holder}
    text = LOWERING if is_lowering else statements.RENEW
    assert log._link.run(SECONDS, lambda session: session.write(text, late)) == 1
    log._link.close()

    if is_lowering:
        with pytest.raises(UnreachableError, match="5,000 ms later it was written"):
            log.renew(SECONDS)
    else:
        assert log.renew(SECONDS) is Outcome.STORED
