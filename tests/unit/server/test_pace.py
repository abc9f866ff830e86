"""How long the loop waits between two looks at the clock."""

from __future__ import annotations

import pytest

from holdfast.server.counters import Counters
from holdfast.server.pace import QUIET_SECONDS, REST_SECONDS_MAX, Pace

TICK, QUIET = 0.01, 0.025
NEVER = float("inf")


def pause_after(pace: Pace, now: float, *, seconds: float = 0.0, due: float = NEVER) -> float:
    return pace.pause(now, seconds, due)


def test_where_nothing_happens_the_clock_is_looked_at_less_often() -> None:
    """A quiet node takes less of a core."""
    pace = Pace(Counters(), TICK, QUIET)
    assert pause_after(pace, 5.0) == TICK
    assert pause_after(pace, 5.0 + QUIET_SECONDS) == TICK
    assert pause_after(pace, 5.1 + QUIET_SECONDS) == REST_SECONDS_MAX


def test_a_batch_makes_it_busy_again() -> None:
    """For a second, in which acknowledgements wait for company no longer than before."""
    counters = Counters()
    pace = Pace(counters, TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) == REST_SECONDS_MAX
    counters.batches += 1
    assert pause_after(pace, 10.1) == TICK
    assert pause_after(pace, 10.1 + QUIET_SECONDS) == TICK
    assert pause_after(pace, 10.2 + QUIET_SECONDS) == REST_SECONDS_MAX


def test_work_without_a_batch_goes_on_as_fast() -> None:
    """Cleaning and reading ahead do a bounded piece at each look, until there is no more."""
    pace = Pace(Counters(), TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, seconds=0.002) == TICK
    assert pause_after(pace, 10.1, seconds=0.0002) == REST_SECONDS_MAX


def test_it_looks_again_when_something_is_due() -> None:
    """Not later: a heart-beat, an election, what was scheduled."""
    pace = Pace(Counters(), TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, due=10.0625) == 0.0625
    assert pause_after(pace, 10.0, due=10.0078125) == 0.0078125
    assert pause_after(pace, 10.0, due=11.0) == REST_SECONDS_MAX


@pytest.mark.parametrize("due", [10.0, 5.0, -NEVER])
def test_what_is_due_already_is_looked_at_often(due: float) -> None:
    """This look could do nothing about it: a disk that hangs, a hand-over under way."""
    pace = Pace(Counters(), TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, due=due) == QUIET


def test_it_never_spins_for_what_is_due_at_once() -> None:
    """Timers are as exact as a millisecond."""
    pace = Pace(Counters(), TICK, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, due=10.00001) == 0.001


@pytest.mark.parametrize("quiet", [0.001, 0.05])
def test_it_never_looks_more_often_than_while_it_is_busy(quiet: float) -> None:
    """Whatever the settings say, unless something is due."""
    pace = Pace(Counters(), 0.05, quiet)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0, due=5.0) == 0.05


def test_where_the_loop_turns_seldom_it_does_not_rest_for_less() -> None:
    """A tick of a second stays one."""
    pace = Pace(Counters(), 1.0, QUIET)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) == 1.0


def test_what_is_due_is_never_later_than_a_tenth_of_a_second() -> None:
    """Whatever the heartbeat is: delays and gates are promised as exactly as that."""
    pace = Pace(Counters(), TICK, 2.5)
    pause_after(pace, 5.0)
    assert pause_after(pace, 10.0) < 0.1
    assert pause_after(pace, 10.0, due=5.0) < 0.1
