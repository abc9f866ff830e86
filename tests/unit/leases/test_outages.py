"""What comes of a medium that does not answer, and of a lease that cannot be taken."""

from __future__ import annotations

import logging

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases import outages, tenure
from holdfast.leases.contract import Claimant, Holding, Place, TakeGoesOnError, Waiter
from holdfast.leases.orders import (
    Drop,
    Join,
    Look,
    Order,
    Project,
    Release,
    Renew,
    Report,
    Take,
    Tell,
)
from holdfast.leases.projection import Changes
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import LeasedState, Phase
from trials.leased.passage import EvenChance

CLAIMANT = Claimant(holder="a" * 32, name="a", admin="", stomp="")
PLACE = Place(0, bytes(16))
HOLDING = Holding(
    epoch=3,
    beat=7,
    claimant=CLAIMANT,
    is_released=True,
    first_index=1,
    end=PLACE,
    sure=PLACE,
)
TAKE = Take(HOLDING, CLAIMANT, 1.0)
LOOK = Look(0, bytes(16), 1.0)


def waiting() -> LeasedState:
    return LeasedState(
        claimant=CLAIMANT,
        settings=LeaseSettings(),
        lease_seconds=5.0,
        is_fence=True,
        now=100.0,
        phase=Phase.WAITING,
        epoch=3,
        holding=HOLDING,
    )


def fail(state: LeasedState, order: Order, error: StoreError) -> None:
    assert isinstance(error, UnreachableError)
    report = Report(order=order, began=state.now, seconds=0.1, error=error)
    outages.put_off(state, report, error, EvenChance())  # type: ignore[arg-type]


def seen(state: LeasedState, holding: Holding) -> None:
    report = Report(order=LOOK, began=state.now, seconds=0.1, holding=holding)
    outages.is_over(state, LOOK)
    tenure.seen(state, report)


def test_what_is_not_answered_is_asked_later_and_ever_later() -> None:
    """Up to a second; once it answers all is as it was."""
    state = waiting()
    pauses = []
    for _ in range(8):
        fail(state, LOOK, UnreachableError("away"))
        pauses.append(state.retry_at - state.now)
    assert pauses[0] < 0.05
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.75
    assert state.trouble == "away"

    outages.is_over(state, LOOK)
    assert (state.trouble, state.retry_at) == ("", state.now)


def test_a_take_that_fails_is_tried_ever_later_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E2: that the lease can be read in between says nothing of why it cannot be taken."""
    state, pauses = waiting(), []
    with caplog.at_level(logging.INFO):
        for _ in range(10):
            fail(state, TAKE, UnreachableError("no room"))
            pauses.append(state.take_at - state.now)
            seen(state, HOLDING)
            assert tenure.claim(state) is None
            state.now = state.take_at
            seen(state, HOLDING)
            assert tenure.claim(state) is not None
    assert pauses[0] < 0.05
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.75 * state.lease_seconds
    assert [it.message for it in caplog.records if "no room" in it.message] == [
        "the lease cannot be taken: no room"
    ]
    assert "answers again" not in caplog.text
    assert state.take_trouble == "no room"

    fail(state, TAKE, UnreachableError("another reason"))
    assert state.take_trouble == "another reason"


def test_once_somebody_has_taken_it_the_next_take_is_not_put_off() -> None:
    """What failed before was another lease."""
    state = waiting()
    for _ in range(5):
        fail(state, TAKE, UnreachableError("no room"))
    other = Holding(
        epoch=4, beat=1, claimant=CLAIMANT, is_released=True, first_index=1, end=PLACE, sure=PLACE
    )
    seen(state, other)

    assert (state.take_trouble, state.failed_takes) == ("", 0)
    assert tenure.claim(state) is not None


def test_a_take_that_goes_on_is_ordered_again_at_once() -> None:
    """By the very reading that it was begun with; nothing is wrong with the store."""
    state = waiting()
    fail(state, TAKE, TakeGoesOnError("made alike"))

    assert tenure.claim(state) == Take(HOLDING, CLAIMANT, state.call_seconds())
    assert (state.trouble, state.take_trouble, state.taking) == ("", "", "made alike")
    fail(state, TAKE, UnreachableError("one went away"))
    assert (state.take_trouble, state.taking) == ("one went away", "")


def test_the_lease_is_watched_while_a_line_of_our_name_is() -> None:
    """A killed broker that comes back with another directory waits once, and not twice."""
    state = waiting()
    state.phase = Phase.JOINING
    order = Join(0, bytes(16), 1.0)
    for now in (100.0, 103.0):
        state.now = now
        error = UnreachableError("somebody of our name was here")
        report = Report(order=order, began=now, seconds=0.1, error=error, holding=HOLDING)
        outages.put_off(state, report, error, EvenChance())  # type: ignore[arg-type]
    state.now = 106.0
    seen(state, HOLDING)
    assert state.silent_seconds == pytest.approx(5.9)


TELL = Tell(Waiter(claimant=CLAIMANT, known_level=1, beat=1, applied_index=0), 1.0)


@pytest.mark.parametrize("failed", [LOOK, Renew(1.0), Join(0, bytes(16), 1.0)])
@pytest.mark.parametrize("done", [TELL, Drop(1, 1.0), Release(1.0), Project(Changes(), 1.0)])
def test_what_is_done_wherever_it_can_be_ends_no_outage(
    failed: Order, done: Order, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Of three databases one is enough to be told of a broker, and no use to read who holds the lease.
    """
    state = waiting()
    fail(state, failed, UnreachableError("two are away"))
    retry = (state.retry_seconds, state.retry_at)
    outages.is_over(state, done)
    assert (state.trouble, (state.retry_seconds, state.retry_at)) == ("two are away", retry)
    assert "answers again" not in caplog.text
    outages.is_over(state, LOOK)
    assert (state.trouble, state.retry_at) == ("", state.now)
    assert "answers again" in caplog.text

    fail(state, done, UnreachableError("that one is away as well"))
    outages.is_over(state, done)
    assert state.trouble == ""


def test_only_what_was_too_long_to_read_is_given_more_time() -> None:
    """Where not even the lease could be read the store is away, and may be back at any moment."""
    state = waiting()

    def look(seconds: float, holding: Holding | None) -> None:
        order = Look(0, bytes(16), 5.0, state.look_seconds_max)
        error = UnreachableError("no answer")
        report = Report(order=order, began=1.0, seconds=seconds, error=error, holding=holding)
        outages.put_off(state, report, error, EvenChance())  # type: ignore[arg-type]

    for _ in range(6):
        look(5.0, None)
    look(0.1, HOLDING)
    assert state.look_seconds_max == 0.0
    look(5.0, HOLDING)
    assert state.look_seconds_max == 10.0
    look(5.0, None)
    look(4.0, HOLDING)
    assert state.look_seconds_max == 10.0
    for _ in range(6):
        look(state.look_seconds_max, HOLDING)
    assert state.look_seconds_max == outages.LOOK_SECONDS_MAX
