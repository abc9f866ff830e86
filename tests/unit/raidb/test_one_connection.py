"""
A database that lets in one connection of a broker, and no second one beside it.

A limit of a role or of a database that counts one for each, or others that took the places which a
holder's had: whoever takes the log, fills a database or looks them over goes by the one it has.
"""

from __future__ import annotations

import pytest

from holdfast.errors import UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import InTurn
from holdfast.raidb.member import Token, UnconnectedError
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import Writer
from tests.unit.raidb.several import Several, fill, until_left_out
from tests.unit.raidb.test_scrubbing import one_round
from trials.leased.model_databases import ModelMember


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
    assert found.ask_beside("a-member", _row, token, 1.0).member == "a-member"
    member = found.members[0]
    assert isinstance(member, ModelMember)
    member.is_let_in = False
    with pytest.raises(UnconnectedError, match="lets no more connections in"):
        found.ask_beside("a-member", _row, token, 1.0)


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


def test_what_rotted_is_mended_by_the_connections_that_there_are() -> None:
    """A look over all goes on, and takes the place of an append for a moment only."""
    several = Several(3)
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    with_twins(several, writer.log, "abc")
    writer.append(*(b"%d" % number for number in range(5)))
    several.databases[1].damage(3)
    scrubber = writer.log.caretaker._scrubber
    assert scrubber is not None
    one_round(writer.log, scrubber)

    assert several.databases[1].rows == several.databases[0].rows
    assert writer.log.caretaker.mended_count == 1
