"""
A database that lets in one connection of a broker, and no second one beside it.

A limit of a role or of a database that counts one for each, or others that took the places which a
holder's had: whoever takes the log, fills a database or mends what was met in one goes by the
connection it has, which must not be lost for that.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest

from holdfast.errors import UnreachableError
from holdfast.leases.contract import Outcome, Place
from holdfast.model.limits import KiB, MiB
from holdfast.raidb import between, databases, levelling
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import InTurn
from holdfast.raidb.member import Token, UnconnectedError
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import Writer
from tests.unit.raidb.several import Several, fill, until_left_out
from tests.unit.raidb.test_scrubbing import one_round
from trials.leased.model_databases import ModelMember, is_whole


def with_twins(several: Several, log: RaidbLog, refusing: str) -> list[ModelMember]:
    """Give the second ways of a broker's log, of which these databases let none in."""
    twins = [ModelMember(it.database, it) for it in several.ways()]
    for it in twins:
        it.is_let_in = it.home.member[0] not in refusing
    log.databases.add_twins(twins)
    return twins


@pytest.mark.parametrize("refusing", ["a", "abc"])
def test_a_take_goes_by_the_connection_that_it_has(refusing: str) -> None:
    """One lags: nobody served for as long as no second connection was let in where it was read."""
    several = Several(3)
    writer = Writer(several.log(by_majority=True))
    writer.take()
    writer.append(b"one", b"two")
    behind = several.databases[2].backup()
    writer.append(b"three", b"four")
    for name, value in behind.items():
        setattr(several.databases[2], name, value)
    several.databases[1].is_away = True
    waiter = Writer(several.log(by_majority=True), "b")
    assert isinstance(waiter.log, RaidbLog)
    with_twins(several, waiter.log, refusing)
    waiter.take()

    assert several.ends() == [4, 4, 4]
    assert waiter.append(b"five")[0].index == 5


def test_a_take_reads_of_another_where_one_lets_nothing_in_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first connection is broken as well, just then: others have the same."""
    several = Several(3)
    writer = several.writer()
    writer.append(b"one", b"two")
    last = several.databases[2]
    del last.rows[2], last.history[2]
    last.end = type(last.end)(1, last.history[1])
    waiter = Writer(several.log(), "b")
    assert isinstance(waiter.log, RaidbLog)
    with_twins(several, waiter.log, "a")

    def entries(*_: object) -> None:
        raise UnconnectedError("a-member lets no more connections in")

    monkeypatch.setattr(waiter.log.databases.members[0], "entries", entries)
    waiter.take()
    assert several.ends() == [2, 2, 2]


def test_where_no_way_is_left_it_is_told() -> None:
    """By the error of the last one."""
    several = Several(1)
    found = several.reached()
    twin = ModelMember(several.databases[0], several.ways()[0])
    twin.is_let_in = False
    token = Token(0, "", "a-member")
    with pytest.raises(UnreachableError, match="none of the databases"):
        Databases(found.members, InTurn()).ask_beside("a-member", _row, token, 1.0)
    found.add_twins([twin])
    row = several.databases[0].row()
    token = Token(row.lease.epoch, "", "a-member")
    with pytest.raises(UnconnectedError, match="lets no more connections in"):
        found.ask_beside("a-member", _row, token, 1.0)
    asked = partial(found.ask_beside, "a-member", _row, token, 1.0, may_go_between=True)
    assert asked().member == "a-member"
    member = found.members[0]
    assert isinstance(member, ModelMember)
    member.is_let_in = False
    with pytest.raises(UnconnectedError, match="lets no more connections in"):
        asked()


def _row(member: object, seconds: float) -> object:
    assert isinstance(member, ModelMember)
    return member.read(seconds)


@pytest.mark.parametrize("refusing", ["a", "c", "abc"])
def test_a_database_is_filled_by_the_connections_that_there_are(refusing: str) -> None:
    """It was never filled: what it was to be read from, or itself, let no second one in."""
    several = Several(3)
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    with_twins(several, writer.log, refusing)
    writer.append(*(b"%d" % number for number in range(5)))
    several.databases[2].is_away = True
    entries = writer.sealed(b"more")
    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    several.databases[2].is_away = False
    fill(writer, 20)

    assert several.states() == "active active active"
    assert several.databases[2].rows == several.databases[0].rows


def test_what_a_read_met_is_mended_by_the_connections_that_there_are() -> None:
    """One entry is read in pieces that are soon there: it takes the place of an append for that."""
    several = Several(3)
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    with_twins(several, writer.log, "abc")
    writer.append(*(b"%d" % number for number in range(5)))
    several.databases[1].damage(3)
    scrubber = writer.log.caretaker._scrubber
    assert scrubber is not None
    scrubber.met("b-member", 3)
    writer.log.caretaker.scrub()

    assert several.databases[1].rows == several.databases[0].rows
    assert writer.log.caretaker.mended_count == 1


def test_what_lets_one_connection_in_is_not_read_over() -> None:
    """Nothing waits for that, and what waits for it would be the appends; it is told."""
    several = Several(3)
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    twins = with_twins(several, writer.log, "b")
    writer.append(b"one", b"two")
    several.databases[1].damage(2)
    several.databases[2].damage(1)
    scrubber = writer.log.caretaker._scrubber
    assert scrubber is not None
    one_round(writer.log, scrubber)

    assert is_whole(several.databases[2], 1)
    assert not is_whole(several.databases[1], 2)
    told = "active: not read over: b-member lets no more connections in"
    assert writer.log.caretaker.state("b-member") == told
    twins[1].is_let_in = True
    one_round(writer.log, scrubber)
    assert is_whole(several.databases[1], 2)
    assert writer.log.caretaker.state("b-member") == ""


def lent(several: Several, log: RaidbLog, first: bytes) -> Lent:
    """Let the way to this member be slow, its place wanted, and the others' ways as they are."""
    databases = log.databases
    (index,) = (n for n, it in enumerate(several.databases) if it.member[:1].encode() == first)
    database = several.databases[index]
    database.bytes_per_second = 700 * KiB
    made = Lent(database, several.ways()[index])
    databases._by_id[database.member] = databases.members[index] = made
    return made


class Lent(ModelMember):
    """A connection that is closed when it is late; another application has its place then."""

    def _ask(self, *args: Any, **named: Any) -> Any:
        try:
            return super()._ask(*args, **named)
        except UnreachableError:
            self.is_let_in = False
            raise


LARGE = bytes(3 * MiB)
"""It takes four seconds on the slow way, and nobody would have waited for that."""


@pytest.mark.parametrize("by", ["a look over all", "a fill", "a look at histories", "a mend"])
def test_what_reads_does_not_cost_the_connection_that_appends_go_by(by: str) -> None:
    """It was closed in the middle of an entry, and its database left out for want of a place."""
    several, writer, slow = of_one_large()
    reads(several, writer, by)

    assert slow.is_let_in
    several.databases[0].bytes_per_second = 0
    assert writer.append(b"five")[0].index == 5
    assert several.states() == "active active active"


@pytest.mark.parametrize("by", ["a fill", "a mend"])
def test_in_one_piece_it_costs_it(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: pieces that are as large as what is read."""
    monkeypatch.setattr(between, "PIECE_BYTES_FIRST", 64 * MiB)
    monkeypatch.setattr(between, "CLOSING_SECONDS", 1.0)
    monkeypatch.setattr(databases, "CLOSING_SECONDS", 1.0)
    several, writer, slow = of_one_large()
    with suppress(UnreachableError):
        reads(several, writer, by)
    assert not slow.is_let_in


def of_one_large() -> tuple[Several, Writer, Lent]:
    several = Several(3)
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    writer.append(b"one", LARGE, b"three")
    slow = lent(several, writer.log, b"a")
    with_twins(several, writer.log, "a")
    writer.append(b"four")
    return several, writer, slow


def reads(several: Several, writer: Writer, by: str) -> None:
    """Let entry 2 be wanted of the slow one, for this reason."""
    log = writer.log
    assert isinstance(log, RaidbLog)
    scrubber = log.caretaker._scrubber
    assert scrubber is not None
    log.databases._clock = log.databases._between._clock = several.clock
    if by == "a fill":
        last = several.databases[2]
        left_out(log, last.member)
        last.end = type(last.end)(1, last.history[1])
        for index in (2, 3, 4):
            del last.rows[index], last.history[index]
        fill(writer, 60)
    elif by == "a mend":
        for it in several.databases[1:]:
            it.damage(2)
        scrubber.met("c-member", 2)
        for _ in range(8):
            log.caretaker.scrub()
    elif by == "a look over all":
        one_round(log, scrubber)
    else:
        row = several.databases[0].row()
        assert log.databases._has_place(log.databases.members[0], row, _place_of(several, 2))


def left_out(log: RaidbLog, member: str) -> None:
    tenure = log._tenure
    assert tenure is not None
    tenure.change({member: "failed"})
    tenure.tokens.pop(member)
    tenure.stand_within(3.0)


def _place_of(several: Several, index: int) -> Place:
    return Place(index, several.databases[0].history[index])


@pytest.mark.parametrize("is_in_pieces", [True, False])
def test_a_take_reads_in_pieces_what_is_large(
    is_in_pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the connection by which it took it; at once that is lost, as the ablation shows."""
    monkeypatch.setattr(levelling, "CLOSING_SECONDS", 1.0)
    if not is_in_pieces:
        monkeypatch.setattr(between, "PIECE_BYTES_FIRST", 64 * MiB)
    several = Several(3)
    writer = several.writer()
    writer.append(b"one")
    behind = several.databases[2].backup()
    writer.append(LARGE)
    for name, value in behind.items():
        setattr(several.databases[2], name, value)
    waiter = Writer(several.log(), "b")
    log = waiter.log
    assert isinstance(log, RaidbLog)
    slow = lent(several, log, b"a")
    log.databases._clock = log.databases._between._clock = several.clock
    log.databases._lanes = InTurn()  # Each call has its time, whoever waits for it.
    with_twins(several, log, "a")
    with nullcontext() if is_in_pieces else suppress(UnreachableError):
        waiter.take()

    assert slow.is_let_in is is_in_pieces
    if is_in_pieces:
        assert several.ends() == [2, 2, 2]


def test_the_second_connection_makes_room_for_the_first() -> None:
    """It had the only place there was, and appends were refused for as long as it lasted."""
    several = Several(1)
    found = several.reached()
    member = found.members[0]
    twin = ModelMember(several.databases[0], several.ways()[0])
    closed: list[bool] = []
    twin.close = lambda: closed.append(True)  # type: ignore[method-assign]
    found.add_twins([twin])
    token = Token(several.databases[0].epoch, "", "a-member")
    assert isinstance(member, ModelMember)
    assert found.ask_beside("a-member", _row, token, 1.0).member == "a-member"
    member.is_let_in = False
    for _ in range(2):
        with pytest.raises(UnconnectedError):
            found.ask("a-member", _row, 1.0)
    assert closed == [True]
    with pytest.raises(UnconnectedError, match="no place for a second connection"):
        found.ask_beside("a-member", _row, token, 1.0)

    member.is_let_in = True
    found.ask("a-member", _row, 1.0)
    assert found.ask_beside("a-member", _row, token, 1.0).member == "a-member"
