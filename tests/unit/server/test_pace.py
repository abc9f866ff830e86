"""How long the loop waits between two looks at the clock."""

from __future__ import annotations

import pytest

from holdfast.server.counters import Counters
from holdfast.server.pace import QUIET_SECONDS, Pace

TICK, QUIET = 0.01, 0.025


def pause_after(pace: Pace, now: float, *, seconds: float = 0.0) -> float:
    return pace.pause(now, seconds)


def test_where_nothing_happens_the_clock_is_looked_at_less_often() -> None:
    """A quiet node takes less of a core."""
    pace = Pace(Counters(), TICK, QUIET)
    assert pause_after(pace, 5.0) == TICK
    assert pause_after(pace, 5.0 + QUIET_SECONDS) == TICK
    assert pause_after(pace, 5.1 + QUIET_SECONDS) == QUIET


def test_a_batch_makes_it_busy_again() -> None:
    """For a second, in which acknowledgements wait for company no longer than before."""
    counters = Counters()
    pace = Pace(counters, TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) == QUIET
    counters.batches += 1
    assert pause_after(pace, 10.1) == TICK
    assert pause_after(pace, 10.1 + QUIET_SECONDS) == TICK
    assert pause_after(pace, 10.2 + QUIET_SECONDS) == QUIET


def test_work_without_a_batch_goes_on_as_fast() -> None:
    """Cleaning and reading ahead do a bounded piece at each look, until there is no more."""
    pace = Pace(Counters(), TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, seconds=0.002) == TICK
    assert pause_after(pace, 10.1, seconds=0.0002) == QUIET


@pytest.mark.parametrize("quiet", [0.001, 0.05])
def test_it_never_looks_more_often_than_while_it_is_busy(quiet: float) -> None:
    """Whatever the settings say."""
    pace = Pace(Counters(), 0.05, quiet)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) == 0.05


def test_what_is_due_is_never_later_than_a_tenth_of_a_second() -> None:
    """Whatever the heartbeat is: delays and gates are promised as exactly as that."""
    pace = Pace(Counters(), TICK, 2.5)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) == 0.1
