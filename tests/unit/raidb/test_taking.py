"""Taking several databases: in order, bound to what was read, made alike, given back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from holdfast.errors import MirrorHistoriesError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Holding, Outcome, Place, TakeGoesOnError
from holdfast.model.limits import MiB
from holdfast.raidb.member import Token
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill
from trials.leased.model_databases import ModelDatabase, ModelMember


@pytest.fixture
def several() -> Several:
    several = Several()
    writer = several.writer()
    writer.append(b"one", b"two")
    writer.log.release(SECONDS)
    return several


def without_last(database: ModelDatabase) -> None:
    del database.rows[2]
    del database.history[2]
    before = database.history[1]
    database.end = type(database.end)(1, before)


def test_databases_are_taken_in_the_order_of_their_ids(several: Several) -> None:
    """Whoever is first in the first one meets no rival further on."""
    ways = list(reversed(several.ways()))
    Writer(several.log(ways), "b").take()

    order = [it.database.member for it in ways if "take" in it.asked]
    assert sorted(order) == ["a-member", "b-member", "c-member"]
    takes = [take for it in several.databases for take in it.takes]
    assert [epoch for epoch, _ in takes] == [1, 2] * 3


def test_the_longest_log_is_copied_to_the_others(several: Several) -> None:
    """Before the set is written: whoever reads it finds all that any of them had."""
    without_last(several.databases[0])
    without_last(several.databases[2])

    assert Writer(several.log(), "b").take().end.index == 2
    assert several.ends() == [2, 2, 2]


def test_one_that_cannot_be_made_alike_is_left_out(several: Several) -> None:
    """The others go on without it."""
    without_last(several.databases[2])
    several.databases[2].is_full = True

    Writer(several.log(), "b").take()
    assert several.states() == "active active failed"


def test_two_histories_are_refused_by_name(several: Several) -> None:
    """Both may hold what was confirmed: nobody may choose."""
    database = several.databases[1]
    database.end = type(database.end)(2, b"\7" * 16)
    writer = Writer(several.log(), "b")

    with pytest.raises(MirrorHistoriesError, match=r"-member.*-member.*entry 2 is another one"):
        writer.take()
    assert all(it.is_released for it in several.databases)


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_take_that_is_not_known_everywhere_is_given_back(
    several: Several, lost: str, place: int
) -> None:
    """Nothing may be assumed, and the next one takes all of them at once."""
    ways = several.ways()
    writer = Writer(several.log(ways), "b")
    ways[place].lost["take"] = lost

    with pytest.raises(UnreachableError):
        writer.log.take(writer.log.observe(SECONDS), writer.claimant, SECONDS)
    assert all(it.is_released for it in several.databases)
    assert Writer(several.log(), "c").take().epoch >= 2


def test_a_set_that_cannot_be_written_is_no_take(several: Several) -> None:
    """Two of three do not know it: it is given back."""
    ways = several.ways()
    writer = Writer(several.log(ways), "b")
    seen = writer.log.observe(SECONDS)
    for it in several.databases[1:]:
        it.write_set = lambda *_: None  # type: ignore[method-assign]

    with pytest.raises(UnreachableError):
        writer.log.take(seen, writer.claimant, SECONDS)
    assert several.databases[0].is_released


def lacking(database: ModelDatabase, count: int) -> None:
    """Let a database be as it was that many entries before."""
    last = database.end.index - count
    for index in range(last + 1, database.end.index + 1):
        del database.rows[index]
        del database.history[index]
    database.end = type(database.end)(last, database.history[last])


def slow(several: Several, writer: Writer, member: int) -> None:
    """Each piece that is stored in one takes a third of what a take has."""
    assert isinstance(writer.log, RaidbLog)
    made = writer.log.databases.members[member]
    assert isinstance(made, ModelMember)
    store = made.store

    def slowly(token: Token, entries: list[Entry], before: Place, seconds: float) -> Outcome:
        several.now += SECONDS / 3
        return store(token, entries, before, seconds)

    made.store = slowly  # type: ignore[method-assign]


def take_in_calls(writer: Writer) -> Holding:
    """Take it, in as many calls as that needs."""
    seen = writer.log.observe(SECONDS)
    while True:
        with suppress(TakeGoesOnError):
            return writer.take(seen)


def test_one_that_lacks_much_is_left_out_and_filled_while_the_others_serve(
    several: Several,
) -> None:
    """A7: it was put back to yesterday's state; nobody waits until it has the day since."""
    first = several.writer()
    first.append(*(bytes(3 * MiB) for _ in range(4)))
    first.log.release(SECONDS)
    lacking(several.databases[2], 4)
    writer = Writer(several.log(), "b")
    slow(several, writer, 2)
    began = several.now

    take_in_calls(writer)
    assert several.now - began < SECONDS
    assert several.states() == "active active failed"
    fill(writer)
    assert several.states() == "active active active"


def test_where_it_is_needed_the_next_call_goes_on_from_there(several: Several) -> None:
    """With one of three away: each call copies a part, and nobody else has it meanwhile."""
    first = several.writer()
    first.append(*(bytes(3 * MiB) for _ in range(4)))
    first.log.release(SECONDS)
    lacking(several.databases[1], 4)
    several.databases[2].is_away = True
    writer = Writer(several.log(), "b")
    slow(several, writer, 1)
    seen = writer.log.observe(SECONDS)
    with pytest.raises(TakeGoesOnError, match=r"made alike.*: .* gets entries 3 to 6 before .* %"):
        writer.take(seen)
    assert 2 < several.ends()[1] < 6
    assert not any(it.is_released for it in several.databases[:2])

    other = Writer(several.log(), "c")
    assert other.log.observe(SECONDS).claimant == writer.claimant
    assert take_in_calls(writer).end.index == 6
    assert several.states() == "active active failed"


def test_a_take_that_goes_on_is_its_claimants(several: Several) -> None:
    """Another claimant of the same process begins anew: what was taken before is as it is."""
    first = several.writer()
    first.append(*(bytes(3 * MiB) for _ in range(4)))
    first.log.release(SECONDS)
    lacking(several.databases[1], 4)
    several.databases[2].is_away = True
    writer = Writer(several.log(), "b")
    slow(several, writer, 1)
    with pytest.raises(TakeGoesOnError):
        writer.take()

    writer.claimant = replace(writer.claimant, holder="d" * 32)
    holding = take_in_calls(writer)
    assert holding.end.index == 6
    assert holding.claimant == writer.claimant
