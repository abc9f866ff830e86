"""
An address that leads to a clone: a copy with all its ids in which others began sets of their own.

What is there looks newer than all else, and is not what this log had; the others go on without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome, Place
from holdfast.leases.seen import Seen
from holdfast.raidb.histories import Histories
from holdfast.raidb.member import Row, Token
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer, claimant
from tests.unit.raidb.several import Several, fill, until_left_out
from trials.leased.model_databases import ModelDatabase, ModelMember, cloned

ENTRIES = 5


def held(several: Several, *, by_majority: bool = False) -> tuple[Writer, RaidbLog]:
    log = several.log(by_majority=by_majority)
    writer = Writer(log)
    writer.take()
    writer.append(*(b"%d" % number for number in range(ENTRIES)))
    return writer, log


def turn(log: RaidbLog, place: int, other: ModelDatabase | None) -> None:
    log.databases.members[place].leads_to = other


def know(log: RaidbLog, several: Several, place: Place, epoch: int = 1) -> None:
    """Let this broker have seen that as final, in this epoch."""
    seen = Seen(several.databases[0].identity, epoch, place, epoch)
    log.databases.seen = lambda: seen


def as_it_is(database: ModelDatabase) -> tuple[object, ...]:
    return database.epoch, database.end, dict(database.rows), database.written


@pytest.mark.parametrize("by_majority", [False, True], ids=["all", "majority"])
@pytest.mark.parametrize("starts", [0, 1, 5])
def test_a_holder_goes_on_without_a_clone(starts: int, by_majority: bool) -> None:
    """It is not deposed by what others took elsewhere; put right the database is filled."""
    several = Several()
    writer, log = held(several, by_majority=by_majority)
    clone = cloned(several.databases[2], 30, starts)
    before = as_it_is(clone)
    turn(log, 2, clone)
    entries = writer.sealed(b"more")
    outcome = until_left_out(several, lambda: writer.log.append(entries, SECONDS))
    assert outcome is Outcome.STORED
    writer.end = Place(entries[-1].index, entries[-1].chain)
    writer.next_record = entries[-1].next_record
    for _ in range(20):
        several.now += 0.5
        assert log.renew(SECONDS) is Outcome.STORED
        log.caretaker.step()
    assert several.ends()[:2] == [ENTRIES + 1] * 2
    assert as_it_is(clone) == before

    turn(log, 2, None)
    fill(writer)
    assert several.states() == "active active active"
    assert several.ends() == [ENTRIES + 1] * 3


@pytest.mark.parametrize("starts", [0, 1, 5])
def test_who_waits_takes_over_without_a_clone(starts: int) -> None:
    """It lacks what was seen as final, and the others have it."""
    several = Several()
    writer, _ = held(several)
    clone = cloned(several.databases[2], 30, starts)
    writer.append(b"more")
    before = as_it_is(clone)
    waiter = Writer(several.log(is_open=False), "b")
    know(waiter.log, several, several.databases[0].end)
    turn(waiter.log, 2, clone)
    waiter.log.open()
    waiter.take()
    waiter.append(b"of b")
    assert several.ends()[:2] == [ENTRIES + 2] * 2
    assert as_it_is(clone) == before


def test_who_knows_nothing_waits_until_somebody_holds_the_others() -> None:
    """A clone or the log that went back: signs of life under the earlier start tell."""
    several = Several()
    writer, _ = held(several)
    clone = cloned(several.databases[2], 30, 5)
    stranger = several.log(is_open=False)
    turn(stranger, 2, clone)
    with pytest.raises(UnreachableError, match="start 6, which a-member, b-member never let begin"):
        stranger.open()
    assert writer.log.renew(SECONDS) is Outcome.STORED
    stranger.open()
    assert stranger.observe(SECONDS).end.index == ENTRIES


def test_the_log_that_went_back_is_not_gone_by() -> None:
    """Where only the one that is said to be newer has what is final, the others went back."""
    several = Several()
    backups = [it.backup() for it in several.databases[:2]]
    _, log = held(several)
    final = several.databases[2].end
    for database, backup in zip(several.databases[:2], backups, strict=True):
        database.restore(backup)
    again = several.log(is_open=False)
    know(again, several, final)
    with pytest.raises(StoreError):
        again.open()
        again.observe(SECONDS)
    assert several.databases[2].end == final
    assert not again.databases.histories._apart
    log.close()


def test_what_became_final_while_they_were_read_need_not_be_in_them() -> None:
    """A holder that is well reads them in one thread and appends in another; one is away."""
    several = Several()
    _, log = held(several)
    identity, end = several.databases[0].identity, several.databases[0].end
    several.databases[2].is_away = True
    later = Place(end.index + 1, b"c" * 16)
    known = iter([Seen(identity, 1, end, 1)])
    log.databases.seen = lambda: next(known, Seen(identity, 1, later, 1))
    assert len(log.databases.read(SECONDS)) == 2
    with pytest.raises(UnreachableError, match="this broker saw as final"):
        log.databases.read(SECONDS)


def test_what_lacks_what_is_final_is_not_gone_by_while_others_are_away() -> None:
    """The one that is away may be what the log went on with, and the rest what it left out."""
    several = Several()
    writer, log = held(several)
    ways = several.ways()
    for database in several.databases[1:]:
        database.is_away = True
    entries = writer.sealed(b"more")
    with pytest.raises(UnreachableError):
        until_left_out(several, lambda: log.append(entries, SECONDS))
    for database in several.databases[1:]:
        database.is_away = False
    ways[0].is_cut = True
    late = several.log(ways, is_open=False)
    know(late, several, Place(entries[-1].index, entries[-1].chain))
    with pytest.raises(UnreachableError, match="lack entry 6, which this broker saw as final: the"):
        late.open()

    ways[0].is_cut = False
    late.open()
    assert late.observe(SECONDS).end.index == ENTRIES + 1


def test_what_was_dropped_is_lacked_by_nobody() -> None:
    """Who saw an entry long ago asks for it where it was cleaned since."""
    several = Several()
    writer, log = held(several)
    seen = Place(2, several.databases[0].history[2])
    while log.drop_before(4, SECONDS):
        pass
    ways = several.ways()
    ways[0].is_cut = True
    late = several.log(ways, is_open=False)
    know(late, several, seen)
    late.open()
    assert late.observe(SECONDS).first_index == 4
    assert writer.log.renew(SECONDS) is Outcome.STORED


@pytest.mark.parametrize("is_own", [True, False], ids=["taken here", "taken by another one"])
def test_what_is_taken_here_promises_nothing_to_others(is_own: bool) -> None:
    """The address was turned between reading and taking: what it leads to was not let begin."""
    several = Several(2)
    several.log().close()
    members = [ModelMember(it.database, it) for it in several.ways()]
    rows = {it: it.database.row() for it in members}
    histories = Histories(lambda *_: None)
    assert histories.judge(rows, is_all=True) == {}

    taker, first = claimant("b"), several.databases[0]
    assert first.seize(first.row(), Token(2, taker.holder, first.member), taker)
    histories.take(taker.holder if is_own else "f" * 32, 2)
    rows = {members[0]: first.row(), members[1]: cloned(several.databases[1], 0, 1).row()}
    if not is_own:
        assert histories.judge(rows, is_all=True) == {}  # It may have let both begin since.
        return
    with pytest.raises(UnreachableError, match="start 1, which a-member never let begin"):
        histories.judge(rows, is_all=True)


def rows_of(several: Several, *others: ModelDatabase) -> dict[ModelMember, Row]:
    """The rows of all, and of others in the places of the last ones."""
    databases = [*several.databases[: -len(others) or None], *others]
    return rows_by([ModelMember(it.database, it) for it in several.ways()], databases)


def rows_by(
    members: Sequence[ModelMember], databases: Sequence[ModelDatabase]
) -> dict[ModelMember, Row]:
    return {it: database.row() for it, database in zip(members, databases, strict=True)}


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_two_starts_of_one_number_are_told_by_who_began_them(is_taken_again: bool) -> None:
    """One of them here and one in staging; since then the others may have been taken again."""
    several = Several()
    held(several)
    rows = rows_of(several, cloned(several.databases[2], 30, 0))
    if is_taken_again:
        taker = claimant("b")
        for database in several.databases[:2]:
            assert database.seize(database.row(), Token(2, taker.holder, database.member), taker)
        rows |= {it: it.database.row() for it in list(rows)[:2]}
    with pytest.raises(UnreachableError, match="start 1, which a-member, b-member never let begin"):
        Histories(lambda *_: None).judge(rows, is_all=True)


def test_a_start_that_was_promised_by_whom_began_it_is_of_this_history() -> None:
    """Who took it wrote the set elsewhere, and died: another one took that one since."""
    several = Several()
    writer, log = held(several)
    first, second, third = several.databases
    before = first.written
    log.release(SECONDS)
    writer.take()
    first.written = before  # As if it had died before it wrote the second set there.
    taker, another = claimant("b"), claimant("c")
    for database in (second, third):
        assert database.seize(database.row(), Token(3, taker.holder, database.member), taker)
    assert Histories(lambda *_: None).judge(rows_of(several), is_all=True) == {}

    first.claimant = another
    with pytest.raises(UnreachableError, match="start 2, which a-member never let begin"):
        Histories(lambda *_: None).judge(rows_of(several), is_all=True)


def test_a_verdict_on_a_clone_is_over_once_the_address_is_put_right() -> None:
    """What stands there then may be of a start of the same number: it is filled, not refused."""
    several = Several()
    writer, _ = held(several)
    histories = Histories(lambda *_: None)
    clone = cloned(several.databases[2], 30, 0)
    ways = list(rows_of(several))
    led_wrong = [*several.databases[:2], clone]
    with pytest.raises(UnreachableError):
        histories.judge(rows_by(ways, led_wrong), is_all=True)
    assert writer.log.renew(SECONDS) is Outcome.STORED
    assert list(histories.judge(rows_by(ways, led_wrong), is_all=True)) == [ways[2]]
    assert histories.judge(rows_by(ways, several.databases), is_all=True) == {}


def test_who_waits_reads_no_entries_of_a_copy_that_it_did_not_look_at() -> None:
    """An address was turned since the look: what the copy has there is another entry."""
    several = Several(2)
    writer, _ = held(several)
    waiter = several.log(is_open=False)
    waiter.open()
    assert waiter.observe(SECONDS).end.index == ENTRIES
    for place, database in enumerate(several.databases):
        turn(waiter, place, cloned(database, 30, 0))
    with pytest.raises(UnreachableError, match="leads to a copy"):
        waiter.entries(0, 3, 1_000, SECONDS)
    for place in range(2):
        turn(waiter, place, None)
    assert len(waiter.entries(0, 3, 1_000, SECONDS)) == 3
    assert writer.log.renew(SECONDS) is Outcome.STORED


def test_what_was_begun_here_was_let_begin() -> None:
    """A start of this process, in which it failed to take all, does not speak against the next."""
    several = Several()
    ways = several.ways()
    writer = Writer(several.log(ways))
    ways[2].is_cut = True
    until_left_out(several, writer.take)
    assert several.states() == "active active failed"
    writer.log.release(SECONDS)
    ways[0].lost["set"] = "request"
    first, second, _ = several.databases
    before = first.written
    writer.take()
    first.written = before  # As if it had died before it wrote the second set there.
    assert second.written is not None
    assert second.written.known.number.start == 2
    assert writer.log.observe(SECONDS).epoch == 2
