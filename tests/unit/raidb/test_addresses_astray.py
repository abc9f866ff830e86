"""
An address that suddenly leads to another database: to one of another log, or to a copy of its own.

Connections that are there stay where they are, and those that are made from now on lead elsewhere.
"""

from __future__ import annotations

import logging

import pytest

from holdfast.errors import ForeignMirrorError, UnreachableError
from holdfast.leases.contract import Outcome, Place
from holdfast.raidb.accepting import look_at
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import InTurn
from holdfast.raidb.member import AstrayError, Token
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill, until_left_out
from tests.unit.raidb.test_scrubbing import one_round
from trials.leased.model_databases import ModelDatabase, ModelMember, another_log, copied

OTHERS = ["another log", "a copy"]


def with_twins(several: Several, log: RaidbLog) -> list[ModelMember]:
    """Give the second ways of a broker's log."""
    twins = [ModelMember(it.database, it) for it in several.ways()]
    log.databases.add_twins(twins)
    return twins


def other_than(database: ModelDatabase, kind: str, count: int = 30) -> ModelDatabase:
    return another_log(database.end.index + count) if kind == OTHERS[0] else copied(database, count)


def held(several: Several, count: int = 9) -> tuple[Writer, RaidbLog, list[ModelMember]]:
    writer = several.writer()
    writer.append(*(b"%d" % number for number in range(count)))
    assert isinstance(writer.log, RaidbLog)
    return writer, writer.log, with_twins(several, writer.log)


def rewritten(database: ModelDatabase, index: int) -> bytes:
    """Let another history's entry stand there, whose checksums are right; gives what was there."""
    was = database.rows[index]
    database.rows[index] = another_log(index).rows[index]
    return was


@pytest.mark.parametrize("kind", OTHERS)
def test_nothing_of_others_is_written_over_what_rotted(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was called mended; it is taken from one that leads to its own, and the state tells why."""
    caplog.set_level(logging.INFO)
    several = Several(3)
    _, log, twins = held(several)
    several.databases[1].damage(8)
    twins[0].leads_to = other = other_than(several.databases[0], kind)
    rows = dict(other.rows)
    one_round(log, log.caretaker._scrubber)  # type: ignore[arg-type] # it holds the lease

    assert several.databases[1].rows == several.databases[2].rows
    assert other.rows == rows
    told = {it: state for it, _, state in log.facts().members}
    assert told["a-member"].startswith("active: a-member leads to ")
    assert caplog.text.count("nothing is asked of it there") == 1
    twins[0].leads_to = None
    one_round(log, log.caretaker._scrubber)  # type: ignore[arg-type] # as above
    assert {state for _, _, state in log.facts().members} == {"active"}
    assert "a-member leads to its own database again" in caplog.text


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("astray", [["b"], ["a", "b"]], ids=["one", "both"])
def test_a_take_copies_nothing_of_others(kind: str, astray: list[str]) -> None:
    """One lags, and new connections lead elsewhere: what was confirmed is copied, and no other."""
    several = Several(3)
    writer = Writer(several.log(by_majority=True))
    writer.take()
    writer.append(b"one", b"two")
    ways = several.ways()
    waiter = Writer(several.log(ways, by_majority=True), "b")
    twins = with_twins(several, waiter.log)  # type: ignore[arg-type] # it is one
    lagging = several.databases[2]
    behind = lagging.backup()
    writer.append(b"three", b"four")
    for name, value in behind.items():
        setattr(lagging, name, value)
    others = []
    for number, database in enumerate(several.databases):
        if database.member[0] in astray:
            before = ModelDatabase("z")
            before.restore(database.backup())
            before.rows = {it: raw for it, raw in before.rows.items() if it <= 2}
            before.end = behind["end"]
            before.history = dict(behind["history"])
            twins[number].leads_to = other_than(before, kind)
            others.append(twins[number].database)
    waiter.take()

    assert several.ends() == [4, 4, 4]
    assert len({it.end for it in several.databases}) == 1
    assert lagging.rows == several.databases[0].rows
    assert waiter.append(b"five")[0].index == 5
    assert {it.claimant.name for it in others if it.claimant} == {"staging"}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_database_is_filled_with_nothing_of_others(kind: str) -> None:
    """It is filled from one that leads to its own, or waits."""
    several = Several(3)
    writer, log, twins = held(several)
    several.databases[2].is_away = True
    entries = writer.sealed(b"more")
    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    several.databases[2].is_away = False
    for twin, database in zip(twins[:2], several.databases, strict=False):
        twin.leads_to = other_than(database, kind)
    fill(writer, 20)
    assert several.states() == "active active failed"
    assert several.databases[2].end.index == 9

    twins[1].leads_to = None
    fill(writer, 20)
    assert several.states() == "active active active"
    assert several.databases[2].rows == several.databases[0].rows
    told = [state for _, _, state in log.facts().members]
    assert told[0].startswith("active: a-member leads to ")
    assert told[1:] == ["active", "active"]


@pytest.mark.parametrize("index", [1, 5, 9], ids=["the first", "one between", "the last"])
def test_an_entry_of_another_history_is_written_anew(index: int) -> None:
    """Its checksums are right, so only the chain tells: whoever took that one alone was lost."""
    several = Several(3)
    _, log, _ = held(several)
    was = rewritten(several.databases[1], index)
    scrubber = log.caretaker._scrubber
    assert scrubber is not None
    one_round(log, scrubber)
    one_round(log, scrubber)

    assert several.databases[1].rows[index] == was
    assert log.caretaker.mended_count == 1
    assert {state for _, _, state in log.facts().members} == {"active"}


def test_the_first_that_is_kept_is_told_by_the_next_one() -> None:
    """What it follows on was dropped everywhere."""
    several = Several(3)
    writer, log, _ = held(several)
    while writer.log.drop_before(4, SECONDS):
        pass
    was = rewritten(several.databases[1], 4)
    scrubber = log.caretaker._scrubber
    assert scrubber is not None
    one_round(log, scrubber)

    assert several.databases[1].rows[4] == was
    assert log.caretaker.mended_count == 1


def test_what_fits_nowhere_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    """An entry rots, and each other database has another history's in its place."""
    several = Several(3)
    _, log, _ = held(several)
    several.databases[1].damage(5)
    for number in (0, 2):
        rewritten(several.databases[number], 5)
    scrubber = log.caretaker._scrubber
    assert scrubber is not None
    with caplog.at_level(logging.ERROR):
        one_round(log, scrubber)

    assert log.caretaker.mended_count == 0
    assert "(entry 5): no other database has it whole" in caplog.text


def test_nothing_is_stored_behind_another_history() -> None:
    """The fence asks for the chain: an index alone is that of many a log."""
    several = Several(3)
    writer, log, _ = held(several)
    third = several.databases[2]
    assert third.claimant is not None
    token = Token(third.epoch, third.claimant.holder, third.member)
    third.end = Place(9, b"\7" * 16)
    assert until_left_out(several, lambda: writer.send(writer.sealed(b"ten"))) is Outcome.STORED

    assert several.ends() == [10, 10, 9]
    assert several.states() == "active active failed"
    assert token.member not in log.caretaker._tenure.tokens  # type: ignore[union-attr] # it holds


@pytest.mark.parametrize("call", ["entries", "read", "waiters", "forget_all", "shown_keys"])
def test_whatever_is_asked_is_asked_of_its_own_database(call: str) -> None:
    """By the first way as well, whose connection was broken: nobody else is asked it."""
    several = Several(3)
    found = several.reached()
    member = found.members[1]
    assert isinstance(member, ModelMember)
    member.leads_to = another_log(3)
    arguments = {"entries": (0, 1, 1), "shown_keys": ((0, 0),)}.get(call, ())
    with pytest.raises(AstrayError, match="leads to another database"):
        found.ask("b-member", lambda it, seconds: getattr(it, call)(*arguments, seconds), 1.0)


def test_who_knows_its_log_takes_no_other_for_it() -> None:
    """However many addresses lead elsewhere, also where no other one answers: that may pass."""
    several = Several(3)
    several.log()
    members = [ModelMember(it.database, it) for it in several.ways()]
    found = Databases(members, InTurn())
    found.set_id = several.databases[0].identity
    for member in members[1:]:
        member.leads_to = another_log(5)
    assert sorted(found.read(3.0)) == ["a-member"]
    members[0].leads_to = another_log(5)
    assert found.read(3.0) == {}
    assert isinstance(found.trouble(), UnreachableError)
    assert "has another log now (zzzz" in str(found.trouble())


def test_who_knows_nothing_takes_no_log_that_is_not_named_whole() -> None:
    """An address leads to a log of one database, and the other two do not answer: it is waited."""
    several = Several(3)
    several.log()
    members = [ModelMember(it.database, it) for it in several.ways()]
    members[2].leads_to = another_log(5)
    several.databases[0].is_away = several.databases[1].is_away = True
    found = Databases(members, InTurn())
    assert found.read(3.0) == {}
    assert "it is not known whether it is that of these brokers" in str(found.trouble())
    assert found.is_any_misled

    several.databases[0].is_away = several.databases[1].is_away = False
    assert sorted(found.read(3.0)) == ["a-member", "b-member"]
    assert found.is_any_misled


def one_is_left_and_one_was_added() -> tuple[Several, list[ModelMember]]:
    """A log in two databases; a third is named that is not there yet, and the second is lost."""
    several = Several(3)
    writer = Writer(several.log(several.ways()[:2]))
    writer.take()
    writer.log.release(SECONDS)
    for it in several.databases[1:]:
        it.is_away = True
    return several, [ModelMember(it.database, it) for it in several.ways()]


def test_an_operators_word_is_which_databases_are_meant() -> None:
    """
    What was to help in the outage refused, as the one that was lost might have been of others.
    """
    several, members = one_is_left_and_one_was_added()
    databases = Databases(members, InTurn())
    databases.are_meant = True
    found = look_at(databases)
    assert found.trouble() == "b-member cannot be used"
    with pytest.raises(UnreachableError, match="c-member: none of these databases as far as"):
        found.accept("mark", "e" * 32)
    left = Databases(members[:1], InTurn())
    left.are_meant = True
    assert look_at(left).accept("mark", "e" * 32).active == {"a-member"}

    log = several.log(is_open=False)
    log.databases.set_id = several.databases[0].identity
    log.open()


def test_of_two_logs_no_operators_word_chooses() -> None:
    """One is left of one, and one of another: neither has most of what is named."""
    several, members = one_is_left_and_one_was_added()
    several.databases[2].is_away = False
    members[2].leads_to = another_log(5)
    databases = Databases(members, InTurn())
    databases.are_meant = True
    with pytest.raises(ForeignMirrorError):
        look_at(databases).trouble()


def test_who_knows_nothing_says_what_would_tell() -> None:
    """The databases have been used together, and a broker's --data or other names help."""
    several, _ = one_is_left_and_one_was_added()
    log = several.log(is_open=False)
    with pytest.raises(
        UnreachableError, match=r"name only the databases of that log \(a-member, b-"
    ) as raised:
        log.open()
    assert "never been used" not in str(raised.value)
    assert "give this broker the --data" in str(raised.value)


@pytest.mark.parametrize("after", [4, 3], ids=["where it begins", "within what is read"])
def test_an_entry_of_another_history_is_read_of_who_has_the_right_one(after: int) -> None:
    """One row of one database ended each broker that read it, though the others had that whole."""
    several = Several(3)
    writer, log, _ = held(several)
    rewritten(several.databases[0], 5)
    assert log.entries(0, 4, 1 << 20, SECONDS)[-1].index == 4
    if after < 4:
        assert log.entries(0, after, 1 << 20, SECONDS)[-1].index == after

    assert log.entries(after, 9, 1 << 20, SECONDS) == writer.stored[after:]
    scrubber = log.caretaker._scrubber
    assert scrubber is not None
    assert scrubber.is_urgent
    log.caretaker.scrub()
    assert several.databases[0].rows[5] == several.databases[1].rows[5]


def test_what_no_database_has_as_it_was_read_before_is_given_as_it_is() -> None:
    """Who reads it knows what it follows on; one that is away may have another one."""
    several = Several(3)
    _, log, _ = held(several)
    log.entries(0, 4, 1 << 20, SECONDS)
    for it in several.databases:
        rewritten(it, 5)
    several.databases[2].is_away = True
    with pytest.raises(UnreachableError):
        log.entries(4, 5, 1 << 20, SECONDS)
    several.databases[2].is_away = False
    assert log.entries(4, 5, 1 << 20, SECONDS)[0].index == 5
