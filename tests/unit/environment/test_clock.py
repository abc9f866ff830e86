"""The machine's clocks keep the contract."""

from __future__ import annotations

from holdfast.environment.clock import Clock, SystemClock


def test_the_monotonic_clock_never_goes_back() -> None:
    """Two readings of the monotonic clock are in order."""
    clock: Clock = SystemClock()
    first = clock.monotonic()
    assert first <= clock.monotonic()


def test_the_wall_clock_counts_microseconds_since_1970() -> None:
    """The wall clock gives whole microseconds, some time after this was written."""
    now = SystemClock().wall_microseconds()
    assert isinstance(now, int)
    assert now > 1_700_000_000_000_000
