"""Taking the lease, keeping it, giving it back, losing it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import AppendRefusedError
from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.leases import tenure
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.leases.elections import Elections
from holdfast.leases.elector import Line, Reading
from holdfast.leases.orders import Look, Release, Renew, Report, Take
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import NEVER, LeasedState, Phase
from trials.leased.passage import EvenChance

OWN = Claimant(holder="a" * 32, name="a", admin="", stomp="")
OTHER = Claimant(holder="b" * 32, name="b", admin="", stomp="")
END = Place(7, b"c" * 16)
HELD = Holding(epoch=3, beat=9, claimant=OTHER, is_released=False, first_index=1, end=END, sure=END)
LOOK = Look(7, b"c" * 16, 1.0)
ENTRY = seal_entry(
    index=8,
    term=3,
    kind=KIND_RECORDS,
    timestamp=1,
    first_record=1,
    record_count=1,
    parts=[b"x"],
    previous_chain=b"c" * 16,
)


def read(holding: Holding, began: float, seconds: float = 0.0) -> Report:
    return Report(order=LOOK, began=began, seconds=seconds, holding=holding)


@pytest.fixture
def state() -> LeasedState:
    """One that waits, of a lease of 5 s and a margin of half a second."""
    return LeasedState(
        claimant=OWN,
        settings=LeaseSettings(),
        lease_seconds=5.0,
        is_fence=True,
        phase=Phase.WAITING,
        now=100.0,
    )


@pytest.fixture
def holder(state: LeasedState) -> LeasedState:
    """One that took the lease at 100."""
    order = Take(HELD, OWN, 1.0)
    took = replace(HELD, epoch=4, beat=10, claimant=OWN)
    tenure.taken(state, Report(order=order, began=100.0, seconds=1.0, holding=took))
    state.phase = Phase.HOLDING
    return state


def test_a_silent_lease_is_taken_as_it_was_just_read(state: LeasedState) -> None:
    """After the lease and half the margin; once for each reading."""
    tenure.seen(state, read(HELD, 100.0))
    assert tenure.claim(state) is None
    tenure.seen(state, read(HELD, 105.2))
    assert tenure.claim(state) is None
    tenure.seen(state, read(HELD, 105.25))

    assert tenure.claim(state) == Take(HELD, OWN, 5.0)
    assert tenure.claim(state) is None


def test_it_is_looked_at_as_soon_as_its_time_is_over(state: LeasedState) -> None:
    """Not a pause later; where that was not enough, as often as ever."""
    tenure.seen(state, read(HELD, 100.0))
    assert 100.25 == tenure.next_look(state, 0.25)
    state.now = 105.2
    tenure.seen(state, read(HELD, 105.2))
    assert 105.25 == tenure.next_look(state, 0.25)
    state.now = 105.25
    assert 105.5 == tenure.next_look(state, 0.25)
    tenure.seen(state, read(HELD, 105.25))
    assert tenure.claim(state) is not None


def test_silence_that_was_not_looked_at_does_not_count(state: LeasedState) -> None:
    """Only a reading tells: time alone takes nothing (L10, L11)."""
    tenure.seen(state, read(HELD, 100.0))
    state.is_fresh = False
    state.now = 10_000.0
    assert tenure.claim(state) is None
    tenure.seen(state, read(replace(HELD, beat=10), 10_000.0))
    assert tenure.claim(state) is None


def test_a_lease_is_not_taken_while_the_medium_is_left_alone(state: LeasedState) -> None:
    """After an error, and after it was given back to others."""
    free = replace(HELD, is_released=True)
    for name in ("retry_at", "rests_until"):
        setattr(state, name, 101.0)
        tenure.seen(state, read(free, 100.0))
        assert tenure.claim(state) is None
        setattr(state, name, NEVER)
    tenure.seen(state, read(free, 100.0))
    assert tenure.claim(state) is not None


def test_a_lease_is_valid_from_before_it_was_asked_for(holder: LeasedState) -> None:
    """The reply took a second: it counts from when it was sent, less the margin (L9)."""
    assert 104.5 == holder.valid_until
    tenure.renewed(
        holder,
        Report(order=Renew(1.0), began=101.0, seconds=2.0, outcome=Outcome.STORED),
    )
    assert (101.0, 105.5) == (holder.renewed_at, holder.valid_until)


def test_who_was_first_has_it(state: LeasedState) -> None:
    """Nothing taken changes nothing, but it is looked at once more (L5)."""
    tenure.taken(state, Report(order=Take(HELD, OWN, 1.0), began=100.0, holding=None))

    assert state.phase is Phase.WAITING
    assert NEVER == state.valid_until
    assert 100.0 == state.look_at


def test_a_holder_that_sees_another_epoch_steps_down(holder: LeasedState) -> None:
    """What it has not stored is forgotten, and it waits for that epoch's end."""
    holder.pending.append(ENTRY)
    holder.in_flight, holder.uncommitted_bytes = [ENTRY], 200
    other = replace(HELD, epoch=5, beat=11)
    tenure.seen(holder, read(other, 101.0))

    assert (holder.phase, holder.epoch, holder.holding) == (Phase.WAITING, 5, other)
    assert NEVER == holder.valid_until
    assert (0, [], 0) == (len(holder.pending), holder.in_flight, holder.uncommitted_bytes)


def test_a_deposed_renewal_ends_it(holder: LeasedState) -> None:
    """The medium has judged."""
    tenure.renewed(holder, Report(order=Renew(1.0), began=101.0, outcome=Outcome.DEPOSED))

    assert holder.phase is Phase.WAITING
    assert NEVER == holder.valid_until


def test_a_late_renewal_of_who_stepped_down_gives_nothing_back(holder: LeasedState) -> None:
    """Its lease had run out before the reply came."""
    tenure.step_down(holder, "it ran out")
    tenure.renewed(holder, Report(order=Renew(1.0), began=104.0, outcome=Outcome.STORED))

    assert NEVER == holder.valid_until


def test_what_is_refused_is_tried_again_and_forgotten_with_the_lease(holder: LeasedState) -> None:
    """The reason stays for people to read until then (L39)."""
    tenure.refused(holder, AppendRefusedError("the table is full"))
    assert "the table is full" == holder.refusal
    assert 100.0 + tenure.REFUSED_PAUSE_SECONDS == holder.retry_at
    tenure.step_down(holder, "")
    assert "" == holder.refusal


def test_a_renewal_that_is_taken_ends_a_refusal_of_which_nothing_is_left(
    holder: LeasedState,
) -> None:
    """Nobody publishes while publishing is refused: no append would tell that there is room."""
    given = Report(order=Renew(1.0), began=100.0, outcome=Outcome.STORED)
    tenure.refused(holder, AppendRefusedError("the table is full"))
    holder.in_flight = [object()]  # type: ignore[list-item]
    tenure.renewed(holder, given)
    assert "the table is full" == holder.refusal
    holder.in_flight = []
    tenure.renewed(holder, given)
    assert "" == holder.refusal


def test_what_was_given_back_is_left_to_others_for_a_while(holder: LeasedState) -> None:
    """Then it may be taken again, if nobody has (L6)."""
    holder.is_giving_up = True
    assert Release(1.0).seconds_max
    tenure.released(holder, EvenChance())

    assert holder.phase is Phase.WAITING
    assert not holder.is_giving_up
    assert 100.0 + 0.75 * 5.25 == holder.rests_until


def test_without_a_fence_a_renewal_that_ended_too_late_renews_nothing(holder: LeasedState) -> None:
    """It may have been written where nobody reads, and what was looked at may have been old."""
    late = Report(order=Renew(1.0), began=104.0, seconds=0.5, outcome=Outcome.STORED)
    holder.is_fence = False
    tenure.renewed(holder, late)
    assert 104.5 == holder.valid_until
    holder.is_fence = True
    tenure.renewed(holder, late)
    assert 108.5 == holder.valid_until


def test_a_holder_with_another_length_of_the_lease_is_told(
    state: LeasedState, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for each holder: its own length counts, and somebody should set them alike."""
    other = replace(OTHER, lease_seconds=30.0)
    for holding in (replace(HELD, claimant=other), replace(HELD, claimant=other, beat=10)):
        tenure.seen(state, read(holding, 101.0))

    told = [it for it in caplog.messages if "lease_seconds" in it]
    assert 1 == len(told)
    assert "b holds its lease for 30 s, and this broker would for 5 s" in told[0]
    tenure.seen(state, read(replace(HELD, claimant=other, beat=10), 101.0 + 31.4))
    assert tenure.claim(state) is None
    tenure.seen(state, read(replace(HELD, claimant=other, beat=10), 101.0 + 31.6))
    assert tenure.claim(state) is not None


def test_an_elector_that_does_not_answer_is_told_once(
    state: LeasedState, caplog: pytest.LogCaptureFixture
) -> None:
    """From its first answer on that is none, and again when it answers."""
    caplog.set_level("INFO", logger="holdfast.leases")
    state.elections = Elections(OWN.holder)
    away = Reading(began=100.0, ended=101.0, is_willing=False, trouble="it is away")
    there = Reading(began=102.0, ended=102.0, is_willing=False, line=Line(holders=()))
    for reading in (away, away, there, there, away):
        tenure.heard(state, reading)

    away_told = "the elector does not answer: it is away"
    assert [away_told, "the elector answers", away_told] == caplog.messages
