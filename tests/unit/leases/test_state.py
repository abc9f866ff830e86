"""What one broker knows between two turns, and what is worked out from it."""

from __future__ import annotations

import pytest

from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import LeasedState, Phase


@pytest.fixture
def state() -> LeasedState:
    """Nothing is known."""
    return LeasedState(
        claimant=Claimant(holder="a" * 32, name="a", admin="", stomp=""),
        settings=LeaseSettings(),
        lease_seconds=5.0,
        is_fence=True,
    )


def test_whoever_waits_waits_longer_than_the_holder_holds(state: LeasedState) -> None:
    """Half the margin is added here, and all of it taken off there."""
    assert 5.25 == state.needed_silence


def test_a_holder_is_waited_for_as_long_as_it_says(state: LeasedState) -> None:
    """Settings may differ between brokers while they are changed; who says nothing is as we are."""
    for says, waited in ((0.0, 5.25), (1.0, 1.05), (30.0, 31.5)):
        other = Claimant(holder="b" * 32, name="b", admin="", stomp="", lease_seconds=says)
        state.holding = Holding(
            epoch=1,
            beat=1,
            claimant=other,
            is_released=False,
            first_index=1,
            end=Place(0, bytes(16)),
            sure=Place(0, bytes(16)),
        )
        assert pytest.approx(waited) == state.needed_silence


def test_only_who_has_taken_it_is_a_holder(state: LeasedState) -> None:
    """Whether the log is read to its end or not."""
    held = []
    for phase in Phase:
        state.phase = phase
        if state.is_holder:
            held.append(phase)

    assert [Phase.CATCHING_UP, Phase.HOLDING] == held


def test_a_holders_call_leaves_time_for_another(state: LeasedState) -> None:
    """A lost reply does not cost the lease; one that waits may wait as long as is set."""
    assert 5.0 == state.call_seconds()
    state.phase, state.now, state.valid_until = Phase.HOLDING, 10.0, 13.0
    assert 1.5 == state.call_seconds()
    state.valid_until = 9.0
    assert 0.05 == state.call_seconds()
