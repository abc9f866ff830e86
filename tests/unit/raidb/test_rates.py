"""How fast each database stores what is large."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.model.limits import KiB, MiB
from holdfast.raidb.member import Member
from holdfast.raidb.rates import Rates

NOBODY = cast("Member", None)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def stores(self, seconds: float) -> Any:
        def act(_member: Member, _seconds: float) -> Outcome:
            self.now += seconds
            return Outcome.STORED

        return act

    def fails(self, seconds: float, error: StoreError) -> Any:
        def act(_member: Member, _seconds: float) -> Outcome:
            self.now += seconds
            raise error

        return act


def test_the_slowest_one_counts() -> None:
    """Of those that are asked for: a third of the lease at its rate."""
    clock = Clock()
    rates = Rates(clock)
    assert rates.bytes_max(["a", "b"], 6.0) == 0
    assert rates.measured("a", clock.stores(1.0), 30 * MiB)(NOBODY, 5.0) is Outcome.STORED
    rates.measured("b", clock.stores(3.0), 30 * MiB)(NOBODY, 5.0)

    assert rates.bytes_max(["a", "b", "c"], 6.0) == 20 * MiB
    assert rates.bytes_max(["a"], 6.0) == 60 * MiB
    clock.now += 130.0
    assert rates.bytes_max(["a", "b"], 6.0) == 40 * MiB, "it is tried again after a while"


def test_what_is_small_is_not_measured() -> None:
    """It waits for other things than bytes."""
    clock = Clock()
    rates, act = Rates(clock), clock.stores(1.0)

    assert rates.measured("a", act, 64 * KiB - 1) is act


def test_what_one_stores_in_a_time_is_told() -> None:
    """Also of less than a message that may be refused for it."""
    clock = Clock()
    rates = Rates(clock)
    assert rates.stored_in("a", 2.0) == 0
    rates.measured("a", clock.stores(0.5), 500_000)(NOBODY, 5.0)

    assert rates.stored_in("a", 2.0) == 2_000_000
    assert rates.bytes_max(["a"], 6.0) == 0


@pytest.mark.parametrize(("seconds", "bytes_max"), [(4.5, 9_786_709), (0.1, 0)])
def test_what_took_all_its_time_in_vain_was_too_slow(seconds: float, bytes_max: int) -> None:
    """One that could not be reached at all says nothing of how fast it is."""
    clock = Clock()
    rates = Rates(clock)
    with pytest.raises(UnreachableError):
        rates.measured("a", clock.fails(seconds, UnreachableError("away")), 30 * MiB)(NOBODY, 5.0)

    assert rates.bytes_max(["a"], 6.0) == bytes_max


def test_what_was_refused_says_nothing() -> None:
    """Nor does any other error."""
    clock = Clock()
    rates = Rates(clock)
    with pytest.raises(StoreError):
        rates.measured("a", clock.fails(5.0, StoreError("gone")), 30 * MiB)(NOBODY, 5.0)

    assert rates.bytes_max(["a"], 6.0) == 0
