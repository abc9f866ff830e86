"""What a log in several databases promises where they do not all do the same."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.errors import (
    AppendRefusedError,
    CorruptEntryError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Outcome, Place, Waiter
from holdfast.model.limits import MiB
from holdfast.raidb.member import Token
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer, claimant, read_all
from tests.unit.raidb.several import TIMEOUT, Killed, Several, fill, until_left_out
from trials.leased.model_databases import ModelDatabase, ModelMember

PLENTY = 1 << 20


@pytest.fixture
def several() -> Several:
    return Several()


def writer_with_ways(several: Several) -> tuple[Writer, list]:
    ways = several.ways()
    writer = Writer(several.log(ways))
    writer.take()
    return writer, ways


# What is stored ---------------------------------------------------------------------------------


def test_an_append_is_in_all_databases(several: Several) -> None:
    """What is called stored is in each of them, with the same bytes."""
    writer = several.writer()
    writer.append(b"one", b"two")

    assert several.ends() == [2, 2, 2]
    assert len({tuple(sorted(it.rows.items())) for it in several.databases}) == 1


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_an_outcome_that_is_not_known_in_one_is_answered_by_the_same_again(
    several: Several, lost: str
) -> None:
    """L52: it is not stored before all have it; sent again it is there once."""
    writer, ways = writer_with_ways(several)
    entries = writer.sealed(b"one")
    ways[1].lost["append"] = lost

    with pytest.raises(UnreachableError, match="b-member"):
        writer.send(entries)
    assert writer.send(entries) is Outcome.STORED

    assert several.ends() == [1, 1, 1]
    assert several.states() == "active active active"


def test_a_database_that_fails_for_long_is_left_out_before_anything_is_stored(
    several: Several,
) -> None:
    """The set without it is on the others, and only then is the append called stored."""
    writer = several.writer()
    several.databases[2].is_away = True
    entries = writer.sealed(b"one")
    with pytest.raises(UnreachableError):
        writer.send(entries)
    assert several.states() == "active active active"

    several.now += TIMEOUT
    assert writer.send(entries) is Outcome.STORED

    assert several.ends() == [1, 1, 0]
    assert several.states() == "active active failed"
    for it in several.databases[:2]:
        assert it.written is not None
        assert it.written.known.active == {"a-member", "b-member"}


def test_all_that_refuse_alike_are_all_kept(several: Several) -> None:
    """L53: with no room anywhere publishing is refused; with room again the same is stored."""
    writer = several.writer()
    for it in several.databases:
        it.is_full = True
    entries = writer.sealed(b"one")

    for _ in range(3):
        with pytest.raises(AppendRefusedError, match="full"):
            writer.send(entries)
        several.now += TIMEOUT
    assert writer.log.renew(SECONDS) is Outcome.STORED
    for it in several.databases:
        it.is_full = False

    assert writer.send(entries) is Outcome.STORED
    assert several.states() == "active active active"


def test_one_that_refuses_alone_is_left_out(several: Several) -> None:
    """What others have room for is stored in those."""
    writer = several.writer()
    several.databases[0].is_full = True
    entries = writer.sealed(b"one")

    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    assert several.states() == "failed active active"


def test_too_few_that_are_left_store_nothing() -> None:
    """Of three one may go on alone only after it was one of two that went on."""
    several = Several()
    writer = several.writer()
    several.databases[0].is_away = several.databases[1].is_away = True
    entries = writer.sealed(b"one")

    for _ in range(3):
        with pytest.raises(UnreachableError):
            writer.send(entries)
        several.now += TIMEOUT
    assert several.states() == "active active active"
    several.databases[0].is_away = False
    assert writer.send(entries) is Outcome.STORED
    several.databases[0].is_away = True
    more = writer.sealed(b"two")
    assert until_left_out(several, lambda: writer.send(more)) is Outcome.STORED
    assert several.states() == "failed failed active"


def test_a_renewal_leaves_nobody_out_while_an_append_is_in_flight(several: Several) -> None:
    """Who lacks it must not be kept instead of one that may have it."""
    writer, ways = writer_with_ways(several)
    ways[2].is_cut = True
    with pytest.raises(UnreachableError):
        writer.send(writer.sealed(b"one"))
    several.now += TIMEOUT

    with pytest.raises(UnreachableError):
        writer.log.renew(SECONDS)
    assert several.states() == "active active active"


# Who holds it -----------------------------------------------------------------------------------


def test_what_was_in_flight_is_in_all_before_the_next_one_serves(several: Several) -> None:
    """L55: it was in one of them only; whoever takes the lease with that one copies it."""
    zombie, ways = writer_with_ways(several)
    zombie.append(b"one")
    ways[0].is_cut = ways[2].is_cut = True
    with pytest.raises(UnreachableError):
        zombie.send(zombie.sealed(b"two"))
    assert several.ends() == [1, 2, 1]

    other = Writer(several.log(), "b")
    assert other.take().end.index == 2
    assert several.ends() == [2, 2, 2]


def test_what_one_has_beyond_the_others_is_cut_when_it_comes_back(several: Several) -> None:
    """L55: another one went on without it, so that its own last entry is nobody's."""
    zombie, ways = writer_with_ways(several)
    zombie.append(b"one")
    ways[0].is_cut = ways[2].is_cut = True
    with pytest.raises(UnreachableError):
        zombie.send(zombie.sealed(b"lost"))
    several.databases[1].is_away = True
    other = Writer(several.log(), "b")
    other.take()
    other.append(b"two")
    assert several.ends() == [2, 2, 2]
    assert several.databases[1].history[2] != several.databases[0].history[2]

    several.databases[1].is_away = False
    fill(other)

    assert several.states() == "active active active"
    assert len({it.history[2] for it in several.databases}) == 1
    assert [bytes(it.body) for it in read_all(several.log())] == [b"one", b"two"]


def test_of_two_that_see_different_databases_one_holds_it(several: Several) -> None:
    """L56: each reaches two of three; the second one lacks one that is needed now."""
    one_ways, other_ways = several.ways(), several.ways()
    one, other = Writer(several.log(one_ways), "a"), Writer(several.log(other_ways), "b")
    one_ways[0].is_cut, other_ways[2].is_cut = True, True
    seen = other.log.observe(SECONDS)
    one.take()
    one.append(b"one")

    assert several.states() == "failed active active"
    with pytest.raises(UnreachableError, match="c-member cannot be used, and b-member alone"):
        other.log.take(seen, other.claimant, SECONDS)
    assert one.log.renew(SECONDS) is Outcome.STORED
    other_ways[2].is_cut = False
    assert other.log.take(seen, other.claimant, SECONDS) is None
    assert other.log.observe(SECONDS).claimant == one.claimant


def test_one_that_has_taken_one_database_only_gives_it_back(several: Several) -> None:
    """L56: its rival had the next one first, as it does not reach the one before."""
    one_ways, other_ways = several.ways(), several.ways()
    one, other = Writer(several.log(one_ways), "a"), Writer(several.log(other_ways), "b")
    other_ways[0].is_cut = True
    seen = one.log.observe(SECONDS)
    row = several.databases[1].row
    several.databases[1].row = lambda: stale  # type: ignore[method-assign]
    stale = row()
    other_seen = other.log.observe(SECONDS)
    several.databases[1].row = row  # type: ignore[method-assign]
    assert other.log.take(other_seen, other.claimant, SECONDS) is not None

    assert one.log.take(seen, one.claimant, SECONDS) is None
    assert other.log.renew(SECONDS) is Outcome.STORED
    assert several.databases[0].is_released or several.databases[0].epoch == 0


def test_a_stale_one_alone_never_starts(several: Several) -> None:
    """L57: it was left out; without the others nobody looks, takes or serves, and is told why."""
    writer = several.writer()
    several.databases[2].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    writer.log.release(SECONDS)
    for it in several.databases:
        it.is_away = it.member != "c-member"

    with pytest.raises(
        UnreachableError, match=r"a-member, b-member cannot be used.*c-member alone"
    ):
        several.log()
    several.databases[0].is_away = False
    with pytest.raises(UnreachableError, match="b-member cannot be used"):
        several.log()
    several.databases[1].is_away = False
    log = several.log()
    assert log.observe(SECONDS).end.index == 1
    Writer(log).take()


def test_a_higher_epoch_anywhere_deposes(several: Several) -> None:
    """Whoever took one of them is on its way to take the others."""
    holder = several.writer()
    row = several.databases[2].row()

    assert several.databases[2].seize(row, Token(7, "f" * 32), claimant("z"))

    assert holder.send(holder.sealed(b"one")) is Outcome.DEPOSED
    assert holder.log.renew(SECONDS) is Outcome.DEPOSED


def test_an_epoch_does_not_go_back_with_a_database(several: Several) -> None:
    """A take that came to a set in one of them only is known there only, and may be forgotten."""
    first = several.writer()
    first.log.release(SECONDS)
    other = Writer(several.log(), "b")
    several.databases[1].write_set = lambda *_: None  # type: ignore[method-assign]
    several.databases[2].write_set = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        other.log.take(other.log.observe(SECONDS), other.claimant, SECONDS)
    watcher = several.log()
    unsure = watcher.observe(SECONDS)
    assert (unsure.epoch, unsure.is_begun) == (2, False)
    several.databases[0].is_away = True

    holding = watcher.observe(SECONDS)
    assert (holding.epoch, holding.is_begun) == (2, False)
    assert several.log().observe(SECONDS).epoch == 1


# Reading ----------------------------------------------------------------------------------------


def test_what_only_one_has_is_not_sure(several: Several) -> None:
    """Waiting brokers follow through what more than half have; the end is that of the longest."""
    writer, ways = writer_with_ways(several)
    writer.append(b"one")
    ways[1].is_cut = ways[2].is_cut = True
    with pytest.raises(UnreachableError):
        writer.send(writer.sealed(b"two"))

    holding = several.log().observe(SECONDS)
    assert (holding.end.index, holding.sure.index) == (2, 1)


def test_an_entry_is_read_of_whoever_has_it_whole(several: Several) -> None:
    """Rotten in one and missing in another one, it comes from the third; in none: it is told."""
    writer = several.writer()
    writer.append(b"one", b"two")
    several.databases[0].damage(2)
    del several.databases[1].rows[2]
    log = several.log()

    assert [bytes(it.body) for it in log.entries(0, 2, PLENTY, SECONDS)][:1] == [b"one"]
    assert [bytes(it.body) for it in log.entries(1, 2, PLENTY, SECONDS)] == [b"two"]
    several.databases[2].damage(2)
    with pytest.raises(CorruptEntryError):
        log.entries(1, 2, PLENTY, SECONDS)
    for it in several.databases:
        it.rows.pop(2, None)
    with pytest.raises(MissingEntriesError):
        log.entries(1, 2, PLENTY, SECONDS)


def test_what_one_that_was_left_out_may_have_is_waited_for(several: Several) -> None:
    """It rots in both that count: it is mended once the third one is back."""
    writer = several.writer()
    writer.append(b"one", b"and")
    several.databases[2].is_away = True
    entries = writer.sealed(b"two")
    until_left_out(several, lambda: writer.send(entries))
    several.databases[0].damage(1)
    several.databases[1].damage(1)
    for log in (writer.log, several.log()):
        with pytest.raises(UnreachableError, match="that was left out may have it whole"):
            log.entries(0, 1, PLENTY, SECONDS)

    several.databases[2].is_away = False
    fill(writer)
    assert isinstance(writer.log, RaidbLog)
    for _ in range(20):
        writer.log.caretaker.scrub()
    assert [bytes(it.body) for it in read_all(several.log())] == [b"one", b"and", b"two"]


def test_what_one_that_is_away_may_have_is_not_called_missing(several: Several) -> None:
    """The others lack it: it is asked again later."""
    writer = several.writer()
    writer.append(b"one")
    log = several.log()
    for it in several.databases[:2]:
        it.rows.clear()
    several.databases[2].is_away = True

    with pytest.raises(UnreachableError):
        log.entries(0, 1, PLENTY, SECONDS)


# Opening ----------------------------------------------------------------------------------------


def test_a_database_that_is_given_twice_is_found_out(several: Several) -> None:
    """L58: two addresses, one member: both are named."""
    ways = several.ways()
    ways[2].database = several.databases[0]

    with pytest.raises(StoreError, match=r"a-member and a-member are one database"):
        several.log([ways[0], ways[1], ways[2]])


@pytest.mark.parametrize("is_foreign", [False, True], ids=["another of them", "another log"])
def test_an_address_that_leads_to_a_wrong_database_is_as_one_that_is_away(
    several: Several, is_foreign: bool
) -> None:
    """Others are well and enough: who waits goes on and takes over, and who starts does as well."""
    writer = several.writer()
    entries = writer.sealed(b"one")
    assert writer.log.append(entries, SECONDS) is Outcome.STORED
    waiter = Writer(several.log(), "b")
    other = Several(1)
    other.databases[0].identity, other.databases[0].member = "9" * 32, "other"
    other.log()
    wrong = other.databases[0] if is_foreign else several.databases[1]
    waiter.log.databases.members[2].leads_to = wrong
    before = waiter.log.observe(SECONDS)
    other.databases[0].beat += 1
    assert waiter.log.observe(SECONDS).beat == before.beat

    waiter.take()
    assert waiter.log.append(waiter.sealed(b"two"), SECONDS) is Outcome.STORED
    assert several.ends() == [2, 2, 1]
    assert several.states() == "active active failed"

    again = Writer(several.log(is_open=False), "c")
    again.log.databases.members[2].leads_to = wrong
    again.log.open()
    again.take()
    assert len(again.log.entries(0, 2, PLENTY, SECONDS)) == 2
    told = [told for _, _, told in again.log.facts().members]
    assert any(("has another log" if is_foreign else "are one database") in it for it in told)


def test_another_log_in_the_same_databases_is_refused(several: Several) -> None:
    """They were emptied and begun anew while this broker was running."""
    log = several.log()
    other = Several()
    for it in other.databases:
        it.identity = "9" * 32
    other.log()
    for mine, theirs in zip(several.databases, other.databases, strict=True):
        mine.written, mine.beat = theirs.written, 77

    with pytest.raises(StoreError, match="has another log now"):
        log.observe(SECONDS)


def test_it_tells_what_it_is(several: Several) -> None:
    """Number, places and states of its databases, for people."""
    writer = several.writer()
    several.databases[1].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))

    facts = writer.log.facts()
    assert facts.kind == "3 databases"
    assert facts.place == "a-member, b-member, c-member"
    assert [it[1:] for it in facts.members] == [
        ("a-member", "active"),
        ("b-member", "failed"),
        ("c-member", "active"),
    ]


# Coming back ------------------------------------------------------------------------------------


def test_one_that_was_left_out_comes_back_while_the_others_are_written(several: Several) -> None:
    """L54: it is filled between appends, and counts from then on."""
    writer = several.writer()
    several.databases[2].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    several.databases[2].is_away = False
    log = writer.log
    assert isinstance(log, RaidbLog)

    for number in range(30):
        log.caretaker.step()
        writer.append(b"%d" % number)

    assert several.states() == "active active active"
    assert len(set(several.ends())) == 1
    assert len({tuple(sorted(it.rows.items())) for it in several.databases}) == 1


def test_a_holder_that_ends_at_any_step_of_filling_leaves_it_to_the_next(several: Several) -> None:
    """L54: wherever it ends, the next one has all, fills the database, and nothing is lost."""
    step = 0
    while True:
        several = Several()
        writer = several.writer()
        several.databases[2].is_away = True
        for body in (b"one", b"two", b"three"):
            entries = writer.sealed(body)
            until_left_out(several, partial(writer.send, entries))
        several.databases[2].is_away = False
        several.statements_left = step
        try:
            fill(writer, steps=12)
        except Killed:
            is_over = False
        else:
            is_over = True
        several.statements_left = -1
        other = Writer(several.log(), "b")
        assert other.take().end.index == 3, f"killed at statement {step}"
        other.append(b"four")
        fill(other, steps=12)
        assert several.states() == "active active active", f"killed at statement {step}"
        assert len({tuple(sorted(it.rows.items())) for it in several.databases}) == 1
        if is_over:
            break
        step += 1
    assert step > 20, "there were many places to end at"


def test_one_that_was_cleaned_past_is_filled_from_the_first_that_is_kept(
    several: Several,
) -> None:
    """L59: it has nothing in common with what the others keep, so it is emptied first."""
    writer = several.writer()
    writer.append(b"one", b"two")
    several.databases[2].is_away = True
    entries = writer.sealed(b"three")
    until_left_out(several, lambda: writer.send(entries))
    writer.append(*(b"%d" % number for number in range(10)))
    while writer.log.drop_before(9, SECONDS):
        pass
    several.databases[2].is_away = False

    fill(writer)

    assert several.states() == "active active active"
    assert sorted(several.databases[2].rows) == [9, 10, 11, 12, 13]
    assert several.databases[2].first_index == 9


def test_a_new_database_is_filled_and_counts(several: Several) -> None:
    """One that was added to the addresses has nothing yet."""
    ways = several.ways()
    two = Writer(several.log(ways[:2]))
    two.take()
    two.append(b"one")
    two.log.release(SECONDS)
    three = Writer(several.log(ways), "b")
    three.take()

    fill(three)

    assert several.states() == "active active active"
    assert several.ends() == [1, 1, 1]


def test_a_new_database_at_an_old_address_takes_the_place_of_the_old_one(
    several: Several,
) -> None:
    """Its disk was lost and it was laid out anew: the member that was there is none any more."""
    writer = several.writer()
    writer.append(b"one")
    emptied = ModelDatabase("c")
    emptied.member = "d-member"
    several.databases[2].is_away = True
    entries = writer.sealed(b"two")
    until_left_out(several, lambda: writer.send(entries))
    log = writer.log
    assert isinstance(log, RaidbLog)
    place = log.databases.name("c-member")
    member = log.databases.members[2]
    assert isinstance(member, ModelMember)
    several.medium.databases[2] = member.home = emptied
    member.place_name = place
    member._way.database = emptied  # type: ignore[attr-defined]

    fill(writer)

    told = [it[1:] for it in log.facts().members]
    assert told == [("a-member", "active"), ("b-member", "active"), ("c-member", "active")]
    assert several.ends() == [2, 2, 2]


def test_an_operator_disables_and_enables(several: Several) -> None:
    """One that is disabled is not filled before it is enabled."""
    writer = several.writer()
    log = writer.log
    assert isinstance(log, RaidbLog)
    log.caretaker.want_soon({"b-member": "disabled"})
    writer.append(b"one")
    fill(writer, steps=5)
    assert several.states() == "active disabled active"
    assert several.ends() == [1, 0, 1]

    log.caretaker.want_soon({"b-member": "joining"})
    fill(writer)
    assert several.states() == "active active active"


def test_one_that_can_be_read_and_not_be_taken_is_passed_over(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three are enough, whatever the third one refuses; of two both are needed."""
    several.writer().append(b"one")
    refused: list[str] = []

    def refuse(self: ModelMember, *arguments: object) -> bool:
        if self.place == several.databases[1].member:
            refused.append(self.place)
            raise AppendRefusedError("has no room")
        return seize(self, *arguments)  # type: ignore[arg-type] # as it came

    seize = ModelMember.seize
    monkeypatch.setattr(ModelMember, "seize", refuse)
    writer = Writer(several.log(), "b")
    with pytest.raises(UnreachableError, match="not taken everywhere: has no room"):
        writer.take()
    writer.take()
    assert len(refused) == 1
    writer.append(b"two")
    assert sorted(several.states().split()) == ["active", "active", "failed"]


def test_a_message_that_one_database_is_too_slow_for_is_known_once_it_was_filled(
    several: Several,
) -> None:
    """A6: it was left out for the first of them; the next such is refused to its sender instead."""
    writer = several.writer()
    assert isinstance(writer.log, RaidbLog)
    far = writer.log.databases.members[2]
    assert isinstance(far, ModelMember)
    store = far.store

    def slowly(token: Token, entries: list[Entry], before: Place, seconds: float) -> Outcome:
        wanted = sum(len(it.raw) for it in entries) / (8 * MiB)
        several.now += min(wanted, seconds)
        if wanted > seconds:
            raise UnreachableError("the way there is slow")
        return store(token, entries, before, seconds)

    far.store = slowly  # type: ignore[method-assign]
    entries = writer.sealed(bytes(24 * MiB))
    assert writer.log.message_bytes_max(5.0) == 0
    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    assert several.states() == "active active failed"
    fill(writer)

    assert several.states() == "active active active"
    assert 9 * MiB < writer.log.message_bytes_max(5.0) < 14 * MiB


def test_entries_are_read_of_others_where_one_is_too_slow(several: Several) -> None:
    """Whoever took it needs what was in flight, and a call is as short as before."""
    writer = several.writer()
    writer.append(bytes(400_000))
    several.databases[0].bytes_per_second = 100_000
    with pytest.raises(UnreachableError):
        writer.log.entries(0, 1, 1000, 2.0)

    assert len(writer.log.entries(0, 1, 1000, 2.0)) == 1


def told_by(name: str, beat: int) -> Waiter:
    return Waiter(claimant=claimant(name), known_level=1, beat=beat, applied_index=0)


def test_a_broker_that_was_forgotten_is_not_back_with_a_database(several: Several) -> None:
    """What a database was told before it was left out is dropped when it is filled."""
    writer = several.writer()
    writer.log.tell(told_by("gone", 1), SECONDS)
    several.databases[0].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    writer.log.forget("gone", SECONDS)
    several.databases[0].is_away = False
    assert "gone" in several.databases[0].waiters

    fill(writer)
    assert several.states() == "active active active"
    assert writer.log.waiters(SECONDS) == []


def test_of_several_lines_of_one_broker_the_latest_counts(several: Several) -> None:
    """One database did not hear of it the last time: it does not look as if it were away."""
    writer = several.writer()
    line = told_by("b", 1)
    writer.log.tell(line, SECONDS)
    several.databases[0].is_away = True
    later = replace(line, beat=2)
    writer.log.tell(later, SECONDS)
    several.databases[0].is_away = False

    assert [it.beat for it in (several.databases[0].waiters["b"], later)] == [1, 2]
    assert writer.log.waiters(SECONDS) == [later]


def test_little_room_is_told_where_the_others_could_not_go_on(several: Several) -> None:
    """One of three that is nearly full would be left out in the end; of two it is told before."""
    writer = several.writer()
    log: Any = writer.log
    members = log.databases.members
    assert log.low_room == ""
    members[0].low_room = "a is nearly full"
    assert log.low_room == ""
    assert "active: a is nearly full" in {state for _, _, state in log.facts().members}
    members[1].low_room = "b is nearly full"
    assert log.low_room == "a is nearly full; b is nearly full"
    log.release(SECONDS)
    assert log.low_room == ""
