"""One of several brokers over a log that one of them may write, over a modelled medium."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from holdfast.errors import (
    AppendRefusedError,
    CorruptEntryError,
    JournalFailedError,
    NotLeaderError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.jobs import WriteResult
from holdfast.leases.driver import LATER_SECONDS
from holdfast.leases.orders import Drop, Look, Project, Release, Renew, Store, Take
from holdfast.leases.projection import Changes
from holdfast.leases.state import Phase
from trials.leased.model_directory import ModelDirectory, ModelDirectoryLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import LOST, Fate
from trials.leased.showing_log import ShowingLog
from trials.simulation.local_journal import SMALL

AWAY = Fate(before=LOST)


def test_the_first_of_all_takes_what_nobody_held(broker: Callable[..., Any]) -> None:
    """It joins, looks, takes, and serves an empty log in epoch 1."""
    first = broker("a").serve()

    assert (1, 0) == (first.driver.term, first.driver.commit_index)
    assert [(1, "a" * 32)] == first.medium.takes


def test_what_is_proposed_is_stored_then_cached_then_given(broker: Callable[..., Any]) -> None:
    """In that order: the cache never has what is not stored."""
    holder = broker("a").serve()
    index = holder.propose(b"one", b"two")
    assert (0, 0) == (holder.journal.last_index, len(holder.medium.rows))
    holder.until(lambda: holder.medium.rows)
    assert index == holder.driver.commit_index == holder.journal.last_index
    (entry,) = holder.driver.take_committed(1 << 20)

    assert holder.medium.history == {index: entry.chain}
    assert (1, 2) == (entry.term, entry.record_count)


def test_entries_follow_on_one_another_before_any_is_stored(broker: Callable[..., Any]) -> None:
    """Behind what waits, what is under way, and what is in the cache."""
    holder = broker("a").serve()
    holder.store(b"zero")
    holder.propose(b"one")
    holder.turn()
    holder.propose(b"two")
    assert [2, 3] == [it.index for it in [*holder.state.in_flight, *holder.state.pending]]
    holder.until(lambda: holder.driver.commit_index == 3)

    assert [1, 2, 3] == holder.take()
    assert 4 == holder.journal.next_record_number


def test_whoever_waits_follows_and_takes_over_with_one_append(broker: Callable[..., Any]) -> None:
    """After the lease and its margin; what was confirmed is there (L1)."""
    holder, standby = broker("a").serve(), broker("b")
    holder.store(b"one", b"two")
    standby.until(lambda: standby.journal.last_index == 2)
    last_beat = standby.passage.now
    standby.until(lambda: standby.take() is not None and standby.driver.is_serving)

    assert standby.passage.now - last_beat >= 5.25 - standby.state.settings.look_seconds
    assert (2, 2) == (standby.driver.term, standby.driver.taken_index)
    standby.store(b"three")
    assert 3 == standby.driver.commit_index


def test_a_holder_that_is_gone_is_not_waited_for(broker: Callable[..., Any]) -> None:
    """Its process is known to be gone: the fence makes it safe to take the lease at once."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    began = standby.passage.now
    standby.driver.holder_is_gone("a" * 32)
    standby.until(lambda: standby.driver.is_leader)

    assert standby.passage.now - began < 0.1
    assert [1, 2] == [epoch for epoch, _ in holder.medium.takes]


def test_a_zombie_stores_nothing_and_steps_down(broker: Callable[..., Any]) -> None:
    """It was stopped past its lease, then goes on with an append under way (L2, L3)."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    holder.propose(b"never stored")
    holder.turn()
    standby.until(lambda: standby.driver.is_leader)
    holder.passage.now += 8.0
    assert not holder.driver.may_dispatch(0.0)
    holder.perform()

    assert not holder.driver.is_leader
    assert {} == holder.medium.rows
    assert 0 == holder.driver.commit_index
    with pytest.raises(NotLeaderError):
        holder.propose(b"nor this")


def test_a_lease_that_ran_out_is_not_served(broker: Callable[..., Any]) -> None:
    """The medium is away for longer: nobody serves, then it is taken again."""
    holder = broker("a").serve()
    holder.passage.fates.extend([AWAY] * 12)
    holder.until(lambda: not holder.driver.is_leader)
    assert "the medium did not answer" in holder.driver.trouble
    holder.until(lambda: holder.driver.is_leader)

    assert "" == holder.driver.trouble
    assert 2 == holder.driver.term


def test_a_reply_that_is_lost_does_not_cost_the_lease(broker: Callable[..., Any]) -> None:
    """The same append goes again in time, and is stored once (L32)."""
    holder = broker("a").serve()
    index = holder.propose(b"one")
    holder.passage.fates.append(Fate(after=LOST))
    holder.until(lambda: holder.driver.commit_index == index)

    assert 1 == holder.driver.term
    assert holder.driver.is_serving
    assert ["append", "append"] == [it for it in holder.passage.asked if it == "append"]
    assert [1] == sorted(holder.medium.rows)


def test_an_append_that_was_stored_may_be_confirmed_late_behind_a_fence(
    broker: Callable[..., Any],
) -> None:
    """The medium judged it: it is given out although the lease has run out meanwhile."""
    holder = broker("a").serve()
    holder.propose(b"one")
    holder.turn()
    report = holder.worker.perform(holder.orders.pop(0))
    holder.passage.now += 30.0
    holder.driver.stored(report)
    holder.turn()

    assert [1] == holder.take()
    assert not holder.driver.is_leader


def test_without_a_fence_nothing_is_confirmed_past_the_lease(broker: Callable[..., Any]) -> None:
    """Nobody judged it: it may stand in a file that nobody reads (L3, L13)."""
    directory = ModelDirectory()
    holder = broker("a", log_type=ModelDirectoryLog)
    holder.log.medium = holder.medium = directory
    holder.serve()
    holder.propose(b"one")
    holder.turn()
    report = holder.worker.perform(holder.orders.pop(0))
    assert report.outcome is not None
    holder.passage.now = holder.state.valid_until
    holder.driver.stored(report)
    holder.turn()

    assert [] == holder.take()
    assert not holder.driver.is_leader


def test_a_renewal_that_finds_another_epoch_deposes(broker: Callable[..., Any]) -> None:
    """An idle holder finds out by its next sign of life."""
    holder = broker("a").serve()
    standby = broker("b")
    standby.driver.holder_is_gone("a" * 32)
    standby.until(lambda: standby.driver.is_leader)
    holder.until(lambda: not holder.driver.is_leader)

    assert isinstance(holder.orders[0], Look)
    holder.until(lambda: holder.driver.leader == "b")


def test_a_full_medium_refuses_and_goes_on_when_there_is_room(broker: Callable[..., Any]) -> None:
    """The lease is kept, publishers are told, and what was accepted is stored in the end (L39)."""
    holder = broker("a").serve()
    index = holder.propose(b"one")
    holder.passage.fates.extend([Fate(refusal="full")] * 4)
    holder.until(holder.driver.refusal)
    assert holder.driver.is_serving
    holder.until(lambda: holder.driver.commit_index == index)

    assert ("", 1) == (holder.driver.refusal(), holder.driver.term)


def test_a_lease_is_kept_through_a_long_refusal(broker: Callable[..., Any]) -> None:
    """Signs of life go between the attempts, for longer than a lease."""
    holder = broker("a").serve()
    holder.propose(b"one")
    began, renewals = holder.passage.now, 0
    while holder.passage.now < began + 12.0:
        holder.until(lambda: holder.orders)
        if isinstance(holder.orders[0], Store):
            holder.passage.fates.append(Fate(refusal="full"))
        renewals += isinstance(holder.orders[0], Renew)
        holder.perform()

    assert renewals >= 10
    assert holder.driver.is_serving
    assert 1 == holder.driver.term


def test_a_medium_without_room_is_not_waited_by_as_by_a_good_standby(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Where a broker cannot join, look or take for want of room it says so, in ever longer pauses,
    and nobody is told that publishing was refused and is not any more (L39).
    """
    broker("a").serve()
    standby = broker("b")

    def refuse(*_: object, **_more: object) -> None:
        raise AppendRefusedError("f has no room")

    for name in ("open", "observe", "take"):
        with monkeypatch.context() as patch:
            patch.setattr(standby.log, name, refuse)
            began = standby.passage.now
            standby.until(lambda: standby.driver.trouble)
            while standby.passage.now < began + 20.0:
                standby.until(lambda: standby.orders)
                standby.perform()

            standby.until(lambda: standby.driver.trouble)
            assert "f has no room" == standby.driver.trouble
            assert "" == standby.state.refusal == standby.driver.refusal()
        standby.until(lambda: not standby.driver.trouble)
    standby.until(lambda: standby.driver.is_serving)


def test_a_clean_hand_over_takes_no_lease(broker: Callable[..., Any]) -> None:
    """What waits is stored first, then the lease is given back and taken at once (L6)."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: "b" in standby.medium.waiters and standby.driver.leader == "a")
    with pytest.raises(StoreError, match="no other broker waits"):
        holder.driver.transfer()
    holder.until(lambda: holder.driver.is_there("b"))
    index = holder.propose(b"stored before")
    with pytest.raises(StoreError, match="whoever waits takes the lease first"):
        holder.driver.transfer("b")
    assert "b" == holder.driver.transfer()
    with pytest.raises(NotLeaderError):
        holder.propose(b"too late")
    holder.until(lambda: not holder.driver.is_leader)
    began = standby.passage.now
    standby.until(lambda: standby.driver.is_leader)

    assert standby.passage.now - began <= 0.5
    assert index == standby.driver.commit_index
    with pytest.raises(NotLeaderError):
        holder.driver.transfer()


def test_nobody_takes_it_so_it_is_taken_back(broker: Callable[..., Any]) -> None:
    """After a while: the other one died while it was to take over."""
    holder = broker("a").serve()
    ghost = broker("b")
    ghost.until(lambda: "b" in ghost.medium.waiters)
    holder.until(lambda: holder.driver.is_there("b"))
    holder.driver.transfer()
    holder.until(lambda: not holder.driver.is_leader)
    holder.until(lambda: holder.driver.is_serving)

    assert 2 == holder.driver.term


def test_a_release_whose_reply_was_lost_is_given_again(broker: Callable[..., Any]) -> None:
    """Not in a rush: between two attempts there is a pause."""
    holder, other = broker("a").serve(), broker("b")
    other.until(lambda: "b" in other.medium.waiters)
    holder.until(lambda: holder.driver.is_there("b"))
    holder.driver.transfer()
    holder.until(lambda: holder.orders and isinstance(holder.orders[0], Release))
    holder.passage.fates.append(Fate(before=LOST, is_quick=True))
    holder.perform()
    assert [] == holder.orders
    assert holder.driver.rests_until > holder.passage.now
    holder.until(lambda: not holder.driver.is_leader)

    assert holder.medium.is_released


def test_what_is_dropped_here_is_dropped_there(broker: Callable[..., Any]) -> None:
    """Except for the entry before the first one kept, which whoever comes new begins behind."""
    holder = broker("a", journal_settings=SMALL).serve()
    holder.store(*[b"%d" % number * 4000 for number in range(12)])
    holder.take()
    holder.turn()
    holder.journal.drop_before(9)
    first = holder.journal.first_index
    assert first > 3
    holder.until(lambda: min(holder.medium.rows) == first - 1 and not holder.orders)
    assert first - 1 == holder.medium.first_index

    late = broker("b")
    late.until(lambda: late.journal.last_index == 12)
    assert first == late.journal.first_index
    assert not any(isinstance(it, Drop) for it in holder.orders)


def test_a_cache_of_a_log_that_was_cleaned_further_begins_anew(broker: Callable[..., Any]) -> None:
    """It was away for long: what it has is not joined to what is there (L10)."""
    holder = broker("a", journal_settings=SMALL).serve()
    holder.store(b"x" * 4000)
    away = broker("b")
    away.until(lambda: away.take() == [1])
    holder.store(*[b"%d" % number * 4000 for number in range(12)])
    holder.take()
    holder.turn()
    holder.journal.drop_before(9)
    holder.until(lambda: min(holder.medium.rows) > 2 and not holder.orders)
    away.until(lambda: away.journal.last_index == 13)

    assert (1, 13) == (away.driver.log_epoch, away.driver.sure_index)
    assert holder.journal.first_index == away.journal.first_index
    assert list(range(away.journal.first_index, 14)) == away.take()


def test_a_tail_that_was_cut_off_is_not_kept(broker: Callable[..., Any]) -> None:
    """Without a fence an end may be read that the next holder does not find: it is begun anew."""
    directory = ModelDirectory()
    brokers = []
    for name in "ab":
        made = broker(name, log_type=ModelDirectoryLog)
        made.log.medium = made.medium = directory
        brokers.append(made)
    writer, reader = brokers
    writer.serve()
    writer.store(b"kept")
    writer.propose(b"written, not synced")
    writer.turn()
    writer.passage.fates.extend([Fate(), AWAY])
    writer.perform()
    reader.until(lambda: reader.journal.last_index == 2)
    directory.cut_unsynced = lambda count: 0
    reader.until(lambda: reader.take() is not None and reader.driver.is_serving)

    assert 1 == reader.journal.last_index == reader.driver.commit_index
    assert 1 == reader.driver.log_epoch
    reader.store(b"in its place")
    assert directory.history[2] == reader.journal.last_chain


def test_what_cannot_be_gone_on_with_ends_it(broker: Callable[..., Any]) -> None:
    """The lease row is gone: no turn any more, no dispatch, nothing proposed (L42)."""
    holder = broker("a").serve()
    holder.medium.has_lease_row = False
    holder.propose(b"one")
    with pytest.raises(StoreError, match="the lease row is gone"):
        holder.until(lambda: False)
    assert not holder.driver.may_dispatch(0.0)
    assert not holder.driver.is_leader
    with pytest.raises(StoreError, match="the lease row is gone"):
        holder.turn()
    with pytest.raises(StoreError, match="the lease row is gone"):
        holder.propose(b"two")


def test_a_cache_that_cannot_be_written_ends_it(broker: Callable[..., Any]) -> None:
    """The journal's writer has said so for good."""
    holder = broker("a").serve()
    failure = JournalFailedError("the disk is gone")
    result = WriteResult.__new__(WriteResult)
    result.failure = failure
    holder.driver.stored(result)
    with pytest.raises(JournalFailedError):
        holder.turn()
    assert not holder.driver.may_dispatch(0.0)


def test_damage_in_what_is_to_be_given_is_told_and_mended(broker: Callable[..., Any]) -> None:
    """The entry is given later, whole; none is left out."""
    holder = broker("a", journal_settings=SMALL).serve()
    holder.store(*[b"%d" % number * 4000 for number in range(3)])
    holder.take()
    holder.turn()
    reader = broker("b", journal_settings=SMALL)
    reader.until(lambda: reader.journal.last_index == 3)
    reader.journal.need_from(99)
    place = reader.journal.place_of(2)
    reader.local.disk.flip_bit(place.path, (place.byte + place.size - 20) * 8)
    first = [it.index for it in reader.driver.take_committed(1)]
    with pytest.raises(CorruptEntryError):
        reader.take()
    assert [1] == first
    assert (2,) == reader.driver.damaged
    reader.until(lambda: not reader.driver.damaged)

    assert [2, 3] == reader.take()


def test_whoever_restarts_goes_on_with_its_cache(broker: Callable[..., Any]) -> None:
    """Only what is new is read; a holder that comes back waits for its own old lease too."""
    holder = broker("a").serve()
    holder.store(b"one", b"two")
    holder.local.close()
    again = broker("c", disk=holder.local.disk)
    asked = again.passage.asked
    again.until(lambda: again.driver.role == "standby")
    assert -1 == again.driver.sure_index, "there may be more, and the end was not looked at yet"
    again.until(lambda: again.driver.sure_index == 2)
    assert 2 == again.driver.commit_index
    assert "entries" not in asked
    began = again.passage.now
    again.until(lambda: again.driver.is_leader)
    assert again.passage.now - began >= 5.0


def test_two_that_take_at_once_are_one_holder(broker: Callable[..., Any]) -> None:
    """Both saw the same silence: one compare-and-set wins (L5)."""
    both = [broker("a"), broker("b")]
    for it in both:
        it.until(lambda it=it: it.orders and isinstance(it.orders[0], Take))
    for it in both:
        it.perform()

    assert [True, False] == [it.driver.is_leader for it in both]
    both[1].until(lambda: both[1].driver.leader == "a")


def test_the_same_name_twice_hurts_nobody(broker: Callable[..., Any], medium: ModelMedium) -> None:
    """Two processes of one name are two holders: the second waits like any other (L8)."""
    first = broker("a").serve()
    second = broker("a")
    second.state.claimant = replace(first.driver.claimant, holder="f" * 32)
    second.until(lambda: second.driver.leader == "a")
    assert not second.driver.is_leader
    first.store(b"one")
    second.until(lambda: second.driver.is_leader)

    first.propose(b"two")
    first.until(lambda: not first.driver.is_leader)
    assert [(1, "a" * 32), (2, "f" * 32)] == medium.takes
    assert [1] == sorted(medium.rows)


def test_it_asks_for_nothing_after_its_end(broker: Callable[..., Any]) -> None:
    """What it held is nobody's business any more; the worker gives it back."""
    holder = broker("a").serve()
    holder.driver.end()
    assert not holder.driver.is_leader
    for _ in range(20):
        holder.step()
        assert not holder.driver.is_leader
        assert holder.state.phase is Phase.WAITING
    holder.worker.close()
    assert holder.medium.is_released


def test_while_the_medium_is_away_it_is_asked_ever_more_rarely(broker: Callable[..., Any]) -> None:
    """From 50 ms up to a second, and never in a spin."""
    lone = broker("a")
    lone.passage.fates.extend([Fate(before=LOST, is_quick=True)] * 40)
    lone.turn()
    times = []
    while lone.driver.role == "joining":
        lone.until(lambda: lone.orders)
        times.append(lone.passage.now)
        lone.perform()
    pauses = [after - before for before, after in pairwise(times)]

    assert min(pauses) >= 0.025
    assert max(pauses) <= 1.01
    assert pauses[8] > 0.5


A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def elected(broker: Callable[..., Any], *names: str) -> list[Any]:
    """Brokers with an elector, which the first of them holds the lease of."""
    made = [broker(name, has_elector=True) for name in names]
    holder = made[0]
    holder.until(lambda: holder.driver.elections.is_willing)
    holder.hear(A, B, C)
    holder.until(lambda: holder.driver.is_serving)
    for other in made[1:]:
        other.passage.now = holder.passage.now
        other.until(lambda other=other: other.driver.elections.is_willing)
        other.until(lambda other=other: other.driver.leader == "a")
    return made


def test_nobody_takes_what_nobody_holds_before_it_is_elected(broker: Callable[..., Any]) -> None:
    """It joins and looks, and stands for election; only then it takes."""
    first = broker("a", has_elector=True)
    first.until(lambda: first.driver.elections.is_willing)
    for _ in range(20):
        first.step()
    assert [] == first.medium.takes
    first.hear(B, A)
    first.step()
    assert [] == first.medium.takes
    first.hear(A, B)
    first.until(lambda: first.medium.takes == [(1, A)])


def test_of_two_that_wait_the_elected_one_takes_over(broker: Callable[..., Any]) -> None:
    """The holder is gone, and its machine says so: the second of the line leaves it alone."""
    _, elect, other = elected(broker, "a", "b", "c")
    for each in (elect, other):
        each.hear(A, B, C)
        each.driver.holder_is_gone(A)
        for _ in range(6):
            each.step()

    assert [(1, A), (2, B)] == elect.medium.takes


def test_a_session_that_ended_hands_over_before_the_lease_does(broker: Callable[..., Any]) -> None:
    """A machine that is gone says nothing: 2.5 s of silence and no session are enough of 5.25."""
    holder, elect = elected(broker, "a", "b")
    elect.hear(A, B)
    began = heard = elect.passage.now

    def is_taken() -> bool:
        nonlocal heard
        if elect.passage.now >= heard + 0.3:
            heard = elect.passage.now
            elect.hear(B)
        return bool(elect.driver.is_leader)

    elect.until(is_taken)
    assert 2.5 <= elect.passage.now - began < 3.5
    assert [(1, A), (2, B)] == holder.medium.takes


def test_a_holder_without_its_elector_goes_on_and_gives_more_signs_of_life(
    broker: Callable[..., Any],
) -> None:
    """The store's lease is what counts: ten beats in the time of a lease instead of five."""
    (holder,) = elected(broker, "a")
    beats = holder.medium.beat
    until = holder.passage.now + 50.0
    while holder.passage.now < until:
        holder.hear(trouble="it is away")
        holder.step()
        assert holder.driver.may_dispatch(0.0)
    assert holder.medium.beat - beats >= 90
    assert [(1, A)] == holder.medium.takes


@pytest.mark.parametrize(("lives", "kept"), [(True, 4.5), (False, 1.5)])
def test_a_beat_counts_for_the_whole_lease_only_while_the_session_lives(
    broker: Callable[..., Any], *, lives: bool, kept: float
) -> None:
    """The store does not answer: with a session it is 4.5 s, without one no more than 1.5."""
    (holder,) = elected(broker, "a")
    if not lives:
        holder.until(lambda: holder.passage.now > holder.state.elections.sure_until)
        holder.until(lambda: holder.state.renewed_at > holder.state.elections.sure_until)
    began = holder.state.renewed_at
    for part in range(1, 8):
        holder.passage.now = began + part * kept / 8
        if lives:
            holder.hear(A)
    assert holder.driver.may_dispatch(0.0)
    holder.passage.now = began + kept + 0.01
    assert not holder.driver.may_dispatch(0.0)


def test_a_message_may_take_less_while_no_session_is_sure(broker: Callable[..., Any]) -> None:
    """
    A beat counts for two fifths then: what is let in must be stored in that time, or it takes the
    lease each time that it is sent.
    """
    (holder,) = elected(broker, "a")
    holder.state.throughput.stored(6_000_000, 1.0, holder.passage.now)
    holder.hear(A)
    assert 10_000_000 == holder.driver.message_bytes_max
    holder.until(lambda: holder.passage.now > holder.state.elections.sure_until)
    assert 4_000_000 == holder.driver.message_bytes_max
    assert holder.driver.message_bytes_max < 6_000_000 * holder.state.call_seconds(4_000_000)


def test_nothing_is_handed_over_while_nobody_can_be_elected(broker: Callable[..., Any]) -> None:
    """Whoever waits would wait three leases: who asks is told so instead."""
    holder, other = elected(broker, "a", "b")
    other.until(lambda: "b" in other.medium.waiters)
    holder.until(holder.driver.others)
    holder.hear(trouble="it is away")
    with pytest.raises(StoreError, match="elector does not answer"):
        holder.driver.transfer()
    holder.hear(A, B)
    assert holder.driver.transfer() == "b"


def test_an_elector_revives_no_lease_that_had_ended(broker: Callable[..., Any]) -> None:
    """It was stopped, and finds a new session before it finds out about its lease."""
    (holder,) = elected(broker, "a")
    holder.passage.now = holder.state.valid_until + 0.1
    assert holder.passage.now < holder.state.renewed_at + 4.5
    holder.hear(A)

    assert not holder.driver.is_leader


def test_an_elector_that_is_away_costs_patience_and_no_more(broker: Callable[..., Any]) -> None:
    """The holder dies while nobody reaches it: the lease, the margin and two leases more."""
    _, waiting = elected(broker, "a", "b")
    began = waiting.passage.now
    waiting.hear(trouble="it is away")
    waiting.until(lambda: waiting.driver.is_leader)

    assert 15.25 <= waiting.passage.now - began < 15.9


def test_who_does_not_reach_the_store_does_not_stand_for_election(
    broker: Callable[..., Any],
) -> None:
    """It could not take the lease: another one is to be elected."""
    _, waiting = elected(broker, "a", "b")
    waiting.passage.fates.append(AWAY)
    waiting.until(lambda: waiting.driver.trouble)
    assert not waiting.driver.elections.is_willing
    waiting.until(lambda: not waiting.driver.trouble)
    assert waiting.driver.elections.is_willing


def test_who_gives_the_lease_back_leaves_the_line(broker: Callable[..., Any]) -> None:
    """Else it would be elected again before anybody else is."""
    holder, elect = elected(broker, "a", "b")
    holder.state.is_giving_up = True
    assert holder.driver.elections.is_willing
    holder.until(lambda: not holder.driver.is_leader)
    assert not holder.driver.elections.is_willing
    elect.hear(B)
    elect.until(lambda: elect.driver.is_leader)
    holder.passage.now = holder.state.rests_until
    holder.turn()
    assert holder.driver.elections.is_willing


def test_what_the_log_does_not_need_may_be_refused(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights to delete that are missing cost room, and not the service; they are told, and asked
    for again now and then."""
    holder = broker("a", journal_settings=SMALL).serve()
    asked: dict[str, list[float]] = {"drop_before": [], "tell": []}
    for name, times in asked.items():

        def refuse(*_: object, times: list[float] = times) -> bool:
            times.append(holder.passage.now)
            raise StoreError("may not delete")

        monkeypatch.setattr(holder.log, name, refuse)
    holder.store(*[b"%d" % number * 4000 for number in range(12)])
    holder.take()
    holder.turn()
    holder.journal.drop_before(9)
    holder.until(lambda: all(len(times) == 2 for times in asked.values()))
    for before, after in asked.values():
        assert LATER_SECONDS <= after - before < LATER_SECONDS + 1
    holder.store(b"more")
    warnings = holder.driver.facts().warnings
    assert ("left for later: may not delete",) * 2 == warnings

    monkeypatch.undo()
    first = holder.journal.first_index
    holder.until(lambda: min(holder.medium.rows) == first - 1)
    holder.until(lambda: not holder.driver.facts().warnings)


CHANGES = Changes(gone=(7,))


def test_what_is_to_be_shown_is_written_in_a_pause(broker: Callable[..., Any]) -> None:
    """Behind what is to be stored; while it waits nothing more is taken."""
    holder = broker("a", log_type=ShowingLog).serve()
    assert holder.driver.can_project
    index = holder.propose(b"one")
    holder.driver.project(CHANGES)
    assert not holder.driver.can_project
    holder.until(lambda: holder.driver.can_project)

    assert index == holder.driver.commit_index
    assert [(1, CHANGES)] == holder.medium.shown
    assert 1 == holder.driver.projections_lost, "with the lease, when it was taken"


def test_a_medium_that_shows_nothing_is_asked_for_nothing(broker: Callable[..., Any]) -> None:
    """And so is one that is not ours, or is full."""
    assert not broker("a").serve().driver.can_project
    standby = broker("b", log_type=ShowingLog)
    standby.until(lambda: standby.driver.leader == "a")
    assert not standby.driver.can_project


@pytest.mark.parametrize("fate", [Fate(before=LOST), Fate(after=LOST)])
def test_what_may_not_be_shown_is_told_anew(broker: Callable[..., Any], fate: Fate) -> None:
    """Lost on its way there or back: it is given up, whoever tells it knows, the lease stays."""
    holder = broker("a", log_type=ShowingLog).serve()
    lost = holder.driver.projections_lost
    holder.driver.project(CHANGES)
    holder.turn()
    assert isinstance(holder.orders[0], Project)
    holder.passage.fates.append(fate)
    holder.perform()
    assert lost + 1 == holder.driver.projections_lost
    holder.until(lambda: holder.driver.can_project)
    holder.store(b"one")

    assert (1, "") == (holder.driver.term, holder.driver.trouble)


def test_a_table_that_cannot_be_written_ends_nothing(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped by somebody, or without room: the log goes on, and the reason can be seen."""
    holder = broker("a", log_type=ShowingLog).serve()

    def fail(*_: object) -> None:
        raise StoreError("no such table")

    monkeypatch.setattr(holder.medium, "project", fail)
    holder.driver.project(CHANGES)
    holder.until(lambda: holder.driver.can_project)
    assert "no such table" == holder.driver.projection_trouble
    holder.store(b"one")
    monkeypatch.undo()
    holder.driver.project(CHANGES)
    holder.until(lambda: holder.medium.shown)

    assert (1, "") == (holder.driver.term, holder.driver.projection_trouble)


def test_a_zombie_shows_nothing(broker: Callable[..., Any]) -> None:
    """What it had ordered finds another's epoch; all that was to be shown is given up."""
    holder = broker("a", log_type=ShowingLog).serve()
    standby = broker("b", log_type=ShowingLog)
    standby.until(lambda: standby.driver.leader == "a")
    holder.driver.project(CHANGES)
    holder.turn()
    standby.until(lambda: standby.driver.is_serving)
    lost = holder.driver.projections_lost
    holder.perform()

    assert [] == holder.medium.shown
    assert lost < holder.driver.projections_lost
    assert not holder.driver.can_project


def test_whoever_waits_takes_its_time_to_read_a_large_entry(broker: Callable[..., Any]) -> None:
    """Twice as long each time that it was too short, and the usual time again afterwards."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    bounds: list[float] = []
    entries = standby.log.entries

    def slow(after: int, through: int, bytes_max: int, seconds_max: float) -> Any:
        bounds.append(seconds_max)
        standby.passage.wait(min(seconds_max, 17.0))
        if seconds_max < 17.0:
            raise UnreachableError("timed out")
        return entries(after, through, bytes_max, seconds_max)

    standby.log.entries = slow
    holder.store(b"large")
    standby.until(lambda: standby.journal.last_index == 1)
    assert [5.0, 10.0, 20.0] == bounds
    standby.log.entries = entries
    standby.until(lambda: standby.state.look_seconds_max == 0.0 or standby.driver.is_leader)
