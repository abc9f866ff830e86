"""A database of SQL as one of several, tried with a file of SQLite."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome, Place, Waiter
from holdfast.leases.projection import MessageKey
from holdfast.mirrors.mirror_set import found_set
from holdfast.model.limits import MiB
from holdfast.raidb.member import NOTHING, AstrayError, KnownSet, Token, UnconnectedError
from holdfast.raidb.sql_member import SqlMember
from holdfast.sql import whereabouts
from holdfast.sql.opening import make_sql_log, open_sql_log
from tests.stores.leased_log_suite import Writer, claimant

SECONDS = 10.0
SET = KnownSet(found_set("5" * 32, ["m"]), (("m", "here"),))


class File:
    """One file, and the members that are opened on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: list[SqlMember] = []

    def member(self) -> SqlMember:
        member = make_sql_log(
            f"sqlite:///{self.path}",
            lambda: SqlMember,
            allow_unsafe_database=False,
            own_directory=self.path.parent,
        )
        self.members.append(member)
        return member

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.path) as connection:
            found = connection.execute(statement).fetchall()
        connection.close()
        return found


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = File(tmp_path / "store.db")
    yield file
    for it in file.members:
        it.close()


def taken(member: SqlMember, epoch: int = 1) -> Token:
    who = claimant("a")
    token = Token(epoch, who.holder)
    assert member.seize(member.read(SECONDS), token, who, SECONDS)
    return token


def filled(member: SqlMember, token: Token, count: int) -> Writer:
    writer = Writer(member)  # type: ignore[arg-type] # it only seals
    writer.epoch = token.epoch
    entries = writer.sealed(*(b"%d" % number for number in range(count)))
    assert member.store(token, entries, NOTHING, SECONDS) is Outcome.STORED
    writer.stored = entries
    return writer


def test_a_new_database_is_laid_out_when_it_is_read(file: File) -> None:
    """It has an id of its own, no set, and is nobody's."""
    row = file.member().read(SECONDS)

    assert row.is_new
    assert len(row.member) == len(row.log_id) == 32
    assert row.lease.end == NOTHING
    assert file.member().read(SECONDS) == row


def test_the_first_set_is_written_once(file: File) -> None:
    """Whoever comes second finds it, and the log's id is the set's."""
    one, other = file.member(), file.member()
    row, same = one.read(SECONDS), other.read(SECONDS)
    one.found(row, SET, SECONDS)
    other.found(same, replace(SET, known=found_set("6" * 32, ["m"])), SECONDS)

    found = other.read(SECONDS)
    assert found.written == SET
    assert found.log_id == "5" * 32
    assert file.execute("SELECT store_id FROM holdfast_meta") == [("5" * 32,)]


def test_it_is_taken_only_as_it_was_read(file: File) -> None:
    """With any epoch above; a beat since then keeps it."""
    member = file.member()
    stale = member.read(SECONDS)
    token = taken(member, 7)
    assert member.read(SECONDS).is_held_by(token)

    assert not member.seize(stale, Token(8, "f" * 32), claimant("z"), SECONDS)
    before = member.read(SECONDS)
    assert member.beat(token, SECONDS) is Outcome.STORED
    assert not member.seize(before, Token(8, "f" * 32), claimant("z"), SECONDS)


def test_it_is_taken_only_from_whom_it_was_read(file: File) -> None:
    """A copy that others went on with may have come to the same epoch and beat by then."""
    member = file.member()
    taken(member, 7)
    before = member.read(SECONDS)
    file.execute(f"UPDATE holdfast_lease SET holder = '{'e' * 32}'")
    mine = claimant("z")

    assert not member.seize(before, Token(8, mine.holder), mine, SECONDS)
    assert member.seize(member.read(SECONDS), Token(8, mine.holder), mine, SECONDS)


@pytest.mark.parametrize("count", [0, 3])
def test_it_is_used_only_where_it_ends_as_it_is_known_to(file: File, count: int) -> None:
    """One that went back in time while nothing was sent is not: neither a beat nor a set."""
    member = file.member()
    token = taken(member)
    if count:
        filled(member, token, count)
    end = member.read(SECONDS).lease.end
    assert end.index == count
    assert member.beat(token, SECONDS, end=end) is Outcome.STORED
    assert member.write_set(token, SET, SECONDS, end=end) is Outcome.STORED

    later = Place(end.index + 2, b"c" * 16)
    with pytest.raises(StoreError, match=f"ends with entry {count}, and had entry {count + 2}"):
        member.beat(token, SECONDS, end=later)
    with pytest.raises(StoreError, match="went back in time"):
        member.write_set(token, replace(SET, places=()), SECONDS, end=later)
    assert member.read(SECONDS).written == SET
    with pytest.raises(StoreError, match="ends with another one, and had entry"):
        member.beat(token, SECONDS, end=Place(count, b"c" * 16))
    if count:  # More may be there: what was refused elsewhere.
        assert member.beat(token, SECONDS, end=NOTHING) is Outcome.STORED
        assert member.write_set(token, SET, SECONDS, end=NOTHING) is Outcome.STORED


def test_a_set_is_replaced_under_a_token_that_counts(file: File) -> None:
    """Another one's is not, and it is told."""
    member = file.member()
    token = taken(member)

    assert member.write_set(token, SET, SECONDS) is Outcome.STORED
    assert member.write_set(token, SET, SECONDS) is Outcome.STORED, "the same again"
    assert member.write_set(Token(1, "f" * 32), SET, SECONDS) is Outcome.DEPOSED
    assert member.read(SECONDS).written == SET
    assert file.execute("SELECT event FROM holdfast_lease") == [(1,)]


def test_what_is_given_back_counts_no_more(file: File) -> None:
    """Neither beats nor entries."""
    member = file.member()
    token = taken(member)
    member.give_back(token, SECONDS)

    assert member.read(SECONDS).lease.is_released
    assert member.beat(token, SECONDS) is Outcome.DEPOSED
    writer = Writer(member)  # type: ignore[arg-type] # it only seals
    writer.epoch = 1
    assert member.store(token, writer.sealed(b"late"), NOTHING, SECONDS) is Outcome.DEPOSED


def test_entries_are_stored_once_and_in_order(file: File) -> None:
    """Also those of an earlier epoch, as when it is filled."""
    member = file.member()
    token = taken(member, 5)
    writer = Writer(member)  # type: ignore[arg-type] # it only seals
    writer.epoch = 3
    entries = writer.sealed(b"one", b"two")
    assert member.store(token, entries, NOTHING, SECONDS) is Outcome.STORED
    assert member.store(token, entries, NOTHING, SECONDS) is Outcome.STORED

    assert member.entries(0, 2, 1 << 20, SECONDS) == entries
    writer.end = Place(4, entries[1].chain)
    with pytest.raises(StoreError, match=r"ends with entry 2, and not before entry 5"):
        member.store(token, writer.sealed(b"five"), writer.end, SECONDS)
    assert member.drop(token, 2, SECONDS) is False
    assert member.read(SECONDS).lease.first_index == 2


def test_an_entry_is_read_in_pieces(file: File) -> None:
    """None goes beyond a row: a large entry has several, of one MiB each."""
    member = file.member()
    token = taken(member)
    writer = Writer(member)  # type: ignore[arg-type] # it only seals
    writer.epoch = token.epoch
    large = writer.sealed(b"large" * MiB)
    assert member.store(token, large, NOTHING, SECONDS) is Outcome.STORED
    raw = large[0].raw

    assert member.piece(1, 0, 72, SECONDS) == raw[:72]
    assert member.piece(1, 72, 1000, SECONDS) == raw[72:1072]
    assert member.piece(1, MiB - 10, 1000, SECONDS) == raw[MiB - 10 : MiB]
    assert member.piece(1, 2 * MiB, 1000, SECONDS) == raw[2 * MiB : 2 * MiB + 1000]
    assert member.piece(1, len(raw) - 5, 1000, SECONDS) == raw[-5:]
    assert member.piece(1, len(raw), 1000, SECONDS) == b""
    assert member.piece(2, 0, 1000, SECONDS) == b""


def test_what_comes_behind_an_entry_is_cut(file: File) -> None:
    """The rows go with it, and the log goes on from there."""
    member = file.member()
    token = taken(member)
    writer = filled(member, token, 5)
    end = Place(3, writer.stored[2].chain)

    assert member.cut(token, end, SECONDS) is Outcome.STORED
    assert member.read(SECONDS).lease.end == end
    assert file.execute("SELECT COUNT(*), MAX(idx) FROM holdfast_entries") == [(3, 3)]
    assert member.store(token, writer.stored[3:], end, SECONDS) is Outcome.STORED
    assert member.cut(Token(1, "f" * 32), end, SECONDS) is Outcome.DEPOSED
    assert member.read(SECONDS).lease.end.index == 5


def test_it_is_emptied_for_a_log_that_begins_later(file: File) -> None:
    """However many entries there are; the next one is the first that is kept elsewhere."""
    member = file.member()
    token = taken(member)
    writer = filled(member, token, 200)

    assert member.clear(Token(1, "f" * 32), 150, SECONDS) is Outcome.DEPOSED
    assert member.clear(token, 150, SECONDS) is Outcome.STORED
    lease = member.read(SECONDS).lease
    assert (lease.end.index, lease.first_index) == (149, 150)
    assert file.execute("SELECT COUNT(*) FROM holdfast_entries") == [(0,)]
    assert member.store(token, writer.stored[149:], lease.end, SECONDS) is Outcome.STORED
    assert member.entries(149, 200, 1 << 20, SECONDS) == writer.stored[149:]


def test_what_arrives_late_changes_nothing(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that was worked out before something else was written finds another beat."""
    member, other = file.member(), file.member()
    token = taken(member)
    writer = filled(member, token, 5)
    row = SqlMember._row

    def late(self: SqlMember, session: object) -> object:
        found = row(self, session)  # type: ignore[arg-type]
        monkeypatch.undo()
        assert other.beat(token, SECONDS) is Outcome.STORED
        return found

    monkeypatch.setattr(SqlMember, "_row", late)
    with pytest.raises(UnreachableError, match="by somebody else meanwhile"):
        member.cut(token, Place(1, writer.stored[0].chain), SECONDS)
    assert member.read(SECONDS).lease.end.index == 5


def test_a_database_that_went_back_in_time_is_told(file: File) -> None:
    """It is at an epoch below that of the token: nothing deposed it."""
    member = file.member()
    token = taken(member, 7)
    file.execute("UPDATE holdfast_lease SET epoch = 3")

    for call in (
        lambda: member.beat(token, SECONDS),
        lambda: member.write_set(token, SET, SECONDS),
        lambda: member.cut(token, NOTHING, SECONDS),
    ):
        with pytest.raises(StoreError, match="went back in time, or is another database"):
            call()


def test_one_of_several_is_not_used_alone(file: File) -> None:
    """Neither opened nor taken by who opened it before: all of them are to be named."""
    single = open_sql_log(f"sqlite:///{file.path}", own_directory=file.path.parent)
    seen = single.open()
    member = file.member()
    member.found(member.read(SECONDS), SET, SECONDS)

    with pytest.raises(StoreError, match="one of several databases that hold the same log"):
        single.take(seen, claimant("b"), SECONDS)
    single.close()
    another = open_sql_log(f"sqlite:///{file.path}", own_directory=file.path.parent)
    with pytest.raises(StoreError, match="one of several databases that hold the same log"):
        another.open()


def test_another_database_at_its_address_is_not_written(
    file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name or a proxy that leads to another member: one copy would count as two."""
    monkeypatch.setattr(whereabouts, "REPLACED_SECONDS", 0.0)
    member = file.member()
    row = member.read(SECONDS)
    who = claimant("a")
    token = Token(1, who.holder, row.member)
    assert member.seize(row, token, who, SECONDS)
    filled(member, token, 1)
    other = File(tmp_path / "other.db")
    there = other.member()
    assert there.seize(there.read(SECONDS), Token(1, who.holder), who, SECONDS)
    for it in (member, there):
        it.close()
    other.path.rename(file.path)
    entries = Writer(member).sealed(b"x")  # type: ignore[arg-type] # it only seals
    for write in (
        lambda: member.beat(token, SECONDS),
        lambda: member.store(token, entries, NOTHING, SECONDS),
        lambda: member.write_set(token, SET, SECONDS),
        lambda: member.cut(token, Place(0, NOTHING.chain), SECONDS),
        lambda: member.clear(token, 1, SECONDS),
    ):
        with pytest.raises(UnreachableError, match="leads to another database now"):
            write()
    found = member.read(SECONDS)
    assert found.member != row.member
    assert found.lease.end == NOTHING


def test_a_file_that_was_replaced_is_another_database_after_a_while(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is emptied to be filled by the others; what is mounted over it for a moment is not."""
    member = file.member()
    before = member.read(SECONDS).member
    member.close()
    file.path.unlink()
    with pytest.raises(UnreachableError, match=r"is not there any more.*is waited for"):
        member.read(SECONDS)
    assert not file.path.exists()
    later = time.monotonic() + whereabouts.REPLACED_SECONDS
    monkeypatch.setattr(member._whereabouts, "_clock", lambda: later)
    assert member.read(SECONDS).member != before


def test_nothing_is_laid_out_by_who_only_looks(file: File) -> None:
    """Nor by a broker that knows its log: what is brought back must find it empty."""
    member = file.member()
    member.may_lay_out = False
    with pytest.raises(StoreError, match="has no log"):
        member.read(SECONDS)
    assert file.execute("SELECT name FROM sqlite_master") == []
    member.may_lay_out = True
    assert member.read(SECONDS).is_new


@pytest.mark.parametrize("is_reached_by_several", [True, False])
def test_where_an_address_has_several_hosts_an_older_one_is_known(
    file: File, monkeypatch: pytest.MonkeyPatch, is_reached_by_several: bool
) -> None:
    """By what was read and written last; one with one host is filled again by the others."""
    monkeypatch.setattr(SqlMember, "_is_reached_by_several", is_reached_by_several)
    member = file.member()
    token = taken(member)
    filled(member, token, 3)
    assert member.beat(token, SECONDS) is Outcome.STORED
    ((at,),) = file.execute("SELECT renewed_at FROM holdfast_lease")
    known = (member._safety._newest != (0, 0), member._safety._written)
    assert known == ((True, (1, at)) if is_reached_by_several else (False, (0, 0)))


def test_whatever_is_asked_is_asked_of_the_database_that_is_meant(
    file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has its name by now: nothing is read there, told, shown or dropped."""
    monkeypatch.setattr(whereabouts, "REPLACED_SECONDS", 0.0)
    member = file.member()
    meant = member.read(SECONDS).member
    filled(member, taken(member), 3)
    member.close()
    other = File(tmp_path / "other.db").member()
    filled(other, taken(other), 3)
    other.close()
    (tmp_path / "other.db").rename(file.path)
    teller = Waiter(claimant=claimant("a"), known_level=1, beat=1, applied_index=0)
    calls: list[Callable[[], object]] = [
        lambda: member.entries(0, 3, 1 << 20, SECONDS),
        lambda: member.read(SECONDS),
        lambda: member.waiters(SECONDS),
        lambda: member.tell(teller, SECONDS),
        lambda: member.forget("a", SECONDS),
        lambda: member.forget_all(SECONDS),
        lambda: member.shown_keys(MessageKey(0, 0), SECONDS),
    ]
    for call in calls:
        with (
            pytest.raises(AstrayError, match="leads to another database now"),
            member.reaching(meant),
        ):
            call()
    assert len(member.entries(0, 3, 1 << 20, SECONDS)) == 3, "no member is meant"


def test_a_copy_of_a_database_is_known_by_its_lease(file: File, tmp_path: Path) -> None:
    """It has the same ids: others took it since, or it is of a time before this broker did."""
    member = file.member()
    who = claimant("a")
    token = Token(2, who.holder, member.read(SECONDS).member)
    member.close()
    shutil.copy(file.path, tmp_path / "copy.db")
    assert member.seize(member.read(SECONDS), token, who, SECONDS)
    filled(member, token, 3)
    with member.reaching(token.member, token):
        assert len(member.entries(0, 3, 1 << 20, SECONDS)) == 3

    copy = File(tmp_path / "copy.db").member()
    for epoch in (0, 2, 3):
        if epoch:
            taken(copy, epoch)
        with pytest.raises(AstrayError, match="a copy of it"), copy.reaching(token.member, token):
            copy.entries(0, 3, 1 << 20, SECONDS)


def test_nothing_is_stored_behind_another_history(file: File) -> None:
    """The same index in another log: its chain tells."""
    member = file.member()
    token = taken(member)
    writer = filled(member, token, 3)
    writer.end = Place(3, writer.stored[2].chain)
    entries = writer.sealed(b"four")
    with pytest.raises(StoreError, match=r"ends with another entry 3 than the others"):
        member.store(token, entries, Place(3, b"\7" * 16), SECONDS)
    assert file.execute("SELECT COUNT(*) FROM holdfast_entries") == [(3,)]

    assert member.store(token, entries, writer.end, SECONDS) is Outcome.STORED


def test_what_was_never_asked_is_told_apart(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection could be made: not where there was one, or one was made that failed then."""
    member = file.member()
    token = taken(member)
    filled(member, token, 1)

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("no more connections")

    def read() -> None:
        with member.reaching(token.member, token):
            member.entries(0, 1, 1 << 20, SECONDS)

    member.close()
    connect = member._link._connect
    monkeypatch.setattr(member._link, "_connect", refuse)
    with pytest.raises(UnconnectedError, match="no more connections"):
        read()
    monkeypatch.setattr(member._link, "_connect", connect)
    for _ in ("a new connection", "one that there was"):
        with (
            pytest.raises(StoreError) as raised,
            member.reaching(token.member, token),
        ):
            member.entries(5, 6, 1 << 20, SECONDS)
        assert not isinstance(raised.value, UnconnectedError)
    read()
