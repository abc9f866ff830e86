"""What is ordered next, and when there is something to order."""

from __future__ import annotations

import pytest

from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.leases import ordering
from holdfast.leases.contract import Claimant
from holdfast.leases.orders import (
    Drop,
    Fetch,
    Join,
    Look,
    Order,
    Project,
    Release,
    Renew,
    Store,
    Tell,
)
from holdfast.leases.projection import Changes
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import LeasedState, Phase

CHAIN = b"c" * 16
NOW = 100.0


def entry(index: int, size: int = 10) -> Entry:
    return seal_entry(
        index=index,
        term=1,
        kind=KIND_RECORDS,
        timestamp=index,
        first_record=index,
        record_count=1,
        parts=[b"x" * size],
        previous_chain=CHAIN,
    )


def next_of(state: LeasedState, *, is_room: bool = True) -> Order | None:
    return ordering.next_order(state, 7, CHAIN, known_level=3, is_room=is_room)


@pytest.fixture
def waiting() -> LeasedState:
    """One that waits, told of itself and looked just now."""
    state = LeasedState(
        claimant=Claimant(holder="a" * 32, name="a", admin="", stomp=""),
        settings=LeaseSettings(append_bytes_max=1000),
        lease_seconds=5.0,
        is_fence=True,
        phase=Phase.WAITING,
    )
    state.now, state.tell_at, state.look_at = NOW, NOW + 1.0, NOW + 0.2
    return state


@pytest.fixture
def holding(waiting: LeasedState) -> LeasedState:
    """One that holds the lease, renewed just now."""
    waiting.phase = Phase.HOLDING
    waiting.renewed_at, waiting.valid_until = NOW, NOW + 4.5
    return waiting


def test_whoever_has_not_joined_joins(waiting: LeasedState) -> None:
    """And nothing else, again and again until it is there."""
    waiting.phase = Phase.JOINING
    assert Join(7, CHAIN, 5.0) == next_of(waiting)
    waiting.retry_at = NOW + 0.3
    assert next_of(waiting) is None
    assert NOW + 0.3 == ordering.due(waiting)


def test_whoever_waits_looks_and_tells(waiting: LeasedState) -> None:
    """Each in its time; nothing is read while there is no room for it."""
    assert next_of(waiting) is None
    assert NOW + 0.2 == ordering.due(waiting)
    waiting.now = NOW + 1.0
    assert Look(7, CHAIN, 5.0) == next_of(waiting)
    told = next_of(waiting, is_room=False)
    assert isinstance(told, Tell)
    assert (1, 3) == (told.waiter.beat, told.waiter.known_level)
    assert NOW + 1.0 + waiting.settings.tell_seconds == waiting.tell_at


def test_a_holder_gives_a_sign_of_life_in_time(holding: LeasedState) -> None:
    """Five in a lease, and the turn is woken for it."""
    assert next_of(holding) is None
    assert NOW + 1.0 == ordering.due(holding)
    holding.now = NOW + 1.0
    assert isinstance(next_of(holding), Renew)


def test_an_append_is_a_sign_of_life_where_the_medium_judges_it(holding: LeasedState) -> None:
    """Where it does not, the lease is renewed by itself, first."""
    holding.now = NOW + 1.0
    holding.pending.append(entry(8))
    holding.is_fence = False
    assert isinstance(next_of(holding), Renew)
    holding.is_fence = True
    assert isinstance(next_of(holding), Store)


def test_what_waits_is_stored_together_up_to_a_size(holding: LeasedState) -> None:
    """In order; one that is longer goes alone."""
    holding.pending.extend([entry(8, 300), entry(9, 300), entry(10, 300), entry(11, 5000)])
    sizes = []
    while isinstance(order := next_of(holding), Store):
        sizes.append([it.index for it in order.entries])
        holding.in_flight = []

    assert [[8, 9], [10], [11]] == sizes


def test_what_is_not_known_is_sent_again_as_it_was(holding: LeasedState) -> None:
    """Before anything else, be a beat due or more waiting; never what came later."""
    holding.pending.append(entry(8))
    first = next_of(holding)
    holding.pending.append(entry(9))
    holding.retry_at, holding.now = NOW + 1.5, NOW + 1.4
    assert next_of(holding) is None
    assert NOW + 1.5 == ordering.due(holding)
    holding.now = NOW + 1.5
    again = next_of(holding)

    assert isinstance(first, Store)
    assert isinstance(again, Store)
    assert first.entries == again.entries


def test_where_there_is_no_fence_what_is_stored_is_final_within_the_lease(
    holding: LeasedState,
) -> None:
    """The order says until when; with a fence, always."""
    holding.pending.append(entry(8))
    with_fence = next_of(holding)
    holding.is_fence = False
    without = next_of(holding)

    assert isinstance(with_fence, Store)
    assert isinstance(without, Store)
    assert (float("inf"), NOW + 4.5) == (with_fence.final_until, without.final_until)


def test_a_holder_that_is_refused_keeps_its_lease(holding: LeasedState) -> None:
    """A full medium: signs of life go on between the attempts (L39)."""
    holding.in_flight, holding.refusal = [entry(8)], "full"
    holding.retry_at = NOW + 2.0
    assert NOW + 1.0 == ordering.due(holding)
    holding.now = NOW + 1.0
    assert isinstance(next_of(holding), Renew)
    holding.trouble = "away"
    assert next_of(holding) is None
    assert NOW + 2.0 == ordering.due(holding)


def test_nothing_is_asked_twice_in_a_moment(holding: LeasedState) -> None:
    """A beat or a release that was not heard of waits for its time, and so does who wakes us."""
    holding.now = NOW + 1.2
    holding.trouble, holding.retry_at = "away", NOW + 1.6
    assert next_of(holding) is None
    assert NOW + 1.6 == ordering.due(holding)
    holding.renewed_at, holding.is_giving_up = NOW + 1.2, True
    assert next_of(holding) is None
    assert NOW + 1.6 == ordering.due(holding)
    holding.now = NOW + 1.6
    assert isinstance(next_of(holding), Release)


def test_a_holder_in_trouble_asks_for_nothing_that_can_wait(holding: LeasedState) -> None:
    """A line to tell could take the time in which the append would have been answered."""
    holding.in_flight, holding.retry_at = [entry(8)], NOW + 3.0
    holding.damaged, holding.drop_to = {3}, 5
    holding.now = NOW + 2.0
    assert holding.tell_at < holding.now

    assert next_of(holding) is None


def test_a_holder_that_never_rests_tells_and_drops_all_the_same(holding: LeasedState) -> None:
    """After so many appends without a pause, once; else the medium would only grow."""
    holding.drop_to, holding.tell_at = 5, NOW
    kinds = []
    for index in range(8, 8 + 2 * (ordering.STORES_IN_ROW_MAX + 1)):
        holding.pending.append(entry(index))
        order = next_of(holding)
        kinds.append(type(order))
        holding.in_flight = []
        if isinstance(order, Drop):
            holding.first_there = 5

    appends = [Store] * ordering.STORES_IN_ROW_MAX
    assert [*appends, Drop, *appends, Tell] == kinds


def test_beats_among_appends_keep_nobody_from_telling(holding: LeasedState) -> None:
    """Without a fence a holder beats however much waits: those that wait hear of it yet."""
    holding.is_fence, holding.tell_at = False, NOW
    kinds = []
    for index in range(8, 8 + 2 * ordering.STORES_IN_ROW_MAX):
        holding.pending.append(entry(index))
        holding.renewed_at = NOW if index % 4 else NOW - holding.beat_seconds
        kinds.append(type(next_of(holding)))
        holding.in_flight = []

    assert {Store, Renew, Tell} == set(kinds)
    assert ordering.STORES_IN_ROW_MAX == kinds[: kinds.index(Tell)].count(Store)


def test_each_that_is_always_due_has_its_turn(holding: LeasedState) -> None:
    """Beside appends that never end: to drop, what cannot be mended, and to tell."""
    holding.damaged = {3}
    kinds = []
    for index in range(8, 8 + 6 * (ordering.STORES_IN_ROW_MAX + 1)):
        holding.drop_to, holding.tell_at = index, NOW
        holding.pending.append(entry(index))
        order = next_of(holding)
        if not isinstance(order, Store):
            kinds.append(type(order))
        holding.in_flight = []

    assert [Drop, Fetch, Tell, Drop, Fetch, Tell] == kinds


def test_where_nothing_else_is_due_appends_go_on(holding: LeasedState) -> None:
    """The pause is for others: without any there is none."""
    holding.stores_in_row = ordering.STORES_IN_ROW_MAX
    holding.pending.append(entry(8))

    assert isinstance(next_of(holding), Store)


def test_a_pause_for_others_does_not_overtake_what_is_not_known(holding: LeasedState) -> None:
    """What was sent before is sent again first, however many went before it."""
    holding.stores_in_row, holding.retry_at = ordering.STORES_IN_ROW_MAX, NOW + 1.0
    holding.in_flight = [entry(8)]
    holding.pending.append(entry(9))

    assert next_of(holding) is None
    assert [8] == [it.index for it in holding.in_flight]


def test_what_is_left_comes_when_nothing_waits(holding: LeasedState) -> None:
    """Dropping, then mending, then telling."""
    holding.drop_to, holding.damaged, holding.tell_at = 5, {4, 3}, NOW
    first = next_of(holding)
    holding.first_there = 5
    second = next_of(holding)
    holding.is_mending = True
    third = next_of(holding)

    assert isinstance(first, Drop)
    assert 5 == first.before
    assert isinstance(second, Fetch)
    assert 3 == second.index
    assert isinstance(third, Tell)


def test_what_is_being_mended_wakes_nobody(waiting: LeasedState) -> None:
    """It is written in its own time; what could not be mended is tried later."""
    waiting.damaged = {3}
    assert ordering.due(waiting) <= NOW
    waiting.is_mending = True
    assert NOW + 0.2 == ordering.due(waiting)
    waiting.is_mending, waiting.mend_at, waiting.look_at = False, NOW + 0.7, NOW + 0.9
    assert NOW + 0.7 == ordering.due(waiting)
    assert next_of(waiting) is None


def test_while_an_order_is_under_way_only_the_leases_end_wakes(holding: LeasedState) -> None:
    """What the report brings comes by itself."""
    holding.is_busy = True
    assert NOW + 4.5 == ordering.due(holding)
    holding.phase = Phase.WAITING
    assert float("inf") == ordering.due(holding)


def test_what_is_shown_to_people_comes_last_and_takes_no_time(holding: LeasedState) -> None:
    """Nothing that waits, not even a telling, waits for it; an append waits for two seconds."""
    changes = Changes(gone=(1,))
    holding.projecting.append(changes)
    holding.pending.append(entry(8))
    holding.tell_at = NOW
    assert isinstance(next_of(holding), Store)
    holding.in_flight = []
    assert isinstance(next_of(holding), Tell)
    assert Project(changes, 2.0) == next_of(holding)
    assert [changes] == list(holding.projecting), "until it is known to be written"
    holding.retry_at = NOW + 0.5
    assert next_of(holding) is None
    assert NOW + 0.5 == ordering.due(holding)


def test_only_a_holder_that_knows_all_shows_anything(holding: LeasedState) -> None:
    """One that waits, or is still reading, has nothing that is true now."""
    holding.projecting.append(Changes())
    for phase in (Phase.WAITING, Phase.CATCHING_UP):
        holding.phase = phase
        assert not isinstance(next_of(holding), Project)
