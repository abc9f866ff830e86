"""
When scheduled messages are sent, by what was said: delays, rhythms, calendars, clocks that jump.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from holdfast.errors import ScheduleError
from holdfast.model.schedules import (
    CRON_BYTES_MAX,
    FOREVER,
    TIME_MS_MAX,
    Due,
    Schedule,
    require_cron,
    zone_of,
)

NOW = 1_700_000_000_000


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    """Give a time of a zone's clocks in milliseconds; `fold` 1 is the second of two."""
    moment = datetime.fromisoformat(text).replace(tzinfo=zone_of(zone), fold=fold)
    return int(moment.timestamp() * 1000)


def times(schedule: Schedule, since_ms: int, count: int) -> list[int]:
    """Give so many times, each looked at as it comes."""
    due: Due | None = schedule.first(since_ms)
    found = []
    while due is not None and len(found) < count:
        found.append(due.due_ms)
        due = schedule.following(due, due.due_ms)
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(delay_ms=5), [5]),
        (Schedule(at_ms=NOW + 7), [7]),
        (Schedule(at_ms=NOW - 7), [-7]),
        (Schedule(delay_ms=5, period_ms=10, repeats=2), [5, 15, 25]),
        (Schedule(period_ms=10, repeats=2), [10, 20, 30]),
        (Schedule(period_ms=10), [10]),
        (Schedule(at_ms=NOW + 1, period_ms=10, repeats=1), [1, 11]),
        (Schedule(delay_ms=1, period_ms=10, repeats=FOREVER), [1, 11, 21, 31]),
    ],
)
def test_without_a_calendar_it_is_a_rhythm(schedule, expected) -> None:
    """
    As in ActiveMQ: REPEAT n is n + 1 times, and a period alone is a delay.
    """
    assert times(schedule, NOW, 4) == [NOW + it for it in expected]


def test_what_was_missed_counts_once() -> None:
    """
    The rhythm is kept, and of the repetitions one is used.
    """
    schedule = Schedule(delay_ms=1, period_ms=10, repeats=5)
    due = schedule.first(NOW)
    assert schedule.following(due, NOW + 55) == Due(NOW + 61, 4)
    assert schedule.following(Due(NOW + 1, 0), NOW + 55) is None
    assert schedule.following(Due(NOW + 1, FOREVER), NOW + 1) == Due(NOW + 11, FOREVER)


def test_a_cron_expression_matches_in_its_zone() -> None:
    """
    Sunday is 0 and 7, and a name; five fields, to the minute.
    """
    schedule = Schedule(cron="30 6 * * 1-5", zone="America/New_York")
    found = times(schedule, at("2026-11-27T12:00:00"), 2)
    assert found == [at("2026-11-30T06:30", "America/New_York"), at("2026-12-01T11:30:00")]
    for sunday in ("0", "7", "SUN", "sun"):
        schedule = Schedule(cron=f"0 0 * * {sunday}")
        assert times(schedule, at("2026-11-27T00:00:00"), 1) == [at("2026-11-29T00:00:00")]


def test_a_time_that_a_clock_leaves_out_is_made_up_for_at_once() -> None:
    """
    Berlin, 29 March 2026: after 01:59 comes 03:00.
    """
    zone = "Europe/Berlin"
    schedule = Schedule(cron="30 2 * * *", zone=zone)
    assert times(schedule, at("2026-03-27T12:00", zone), 4) == [
        at("2026-03-28T02:30", zone),
        at("2026-03-29T03:00", zone),
        at("2026-03-30T02:30", zone),
        at("2026-03-31T02:30", zone),
    ]


def test_a_time_that_a_clock_shows_twice_is_one() -> None:
    """
    Berlin, 25 October 2026: after 02:59 comes 02:00. What is every quarter of an hour is so twice.
    """
    zone = "Europe/Berlin"
    schedule = Schedule(cron="30 2 * * *", zone=zone)
    first, second, third = times(schedule, at("2026-10-24T12:00", zone), 3)
    assert first == at("2026-10-25T02:30", zone)
    assert second == at("2026-10-26T02:30", zone)
    assert third == at("2026-10-27T02:30", zone)
    for since_ms in (first, at("2026-10-25T02:10", zone, fold=1)):
        assert schedule.following(Due(first, 0), since_ms) == Due(second, 0)
    quarters = times(Schedule(cron="*/15 * * * *", zone=zone), at("2026-10-25T01:59", zone), 9)
    assert {after - before for before, after in pairwise(quarters)} == {900_000}
    assert quarters[0] == at("2026-10-25T02:00", zone)


def test_a_match_begins_a_burst_and_ends_the_one_before() -> None:
    """
    CRON with REPEAT: three after each full hour; a burst that is longer ends with the hour.
    """
    burst = Schedule(cron="0 * * * *", delay_ms=1_000, period_ms=2_000, repeats=2)
    start = at("2026-11-27T12:30:00")
    one, two = at("2026-11-27T13:00:00"), at("2026-11-27T14:00:00")
    expected = [one + 1_000, one + 3_000, one + 5_000, two + 1_000, two + 3_000, two + 5_000]
    assert times(burst, start, 6) == expected
    endless = Schedule(cron="0 * * * *", period_ms=1_500_000, repeats=FOREVER)
    minutes = [0, 25, 50, 60, 85, 110]
    assert times(endless, start, 6) == [one + 60_000 * it for it in minutes]


@pytest.mark.parametrize(
    "text",
    [
        *("* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
        *("* * * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *", "0 0 30 2 *", "1/2/3 * * * *"),
        *("* * * * MON#6", "* * * * 5L/2", "² * * * *", "* * L/x * *", "* * * * ,"),
        "0," * CRON_BYTES_MAX + "0 * * * *",
    ],
)
def test_what_is_no_cron_expression_is_refused(text) -> None:
    """
    With what it was, shortened, and why.
    """
    with pytest.raises(ScheduleError) as told:
        require_cron(text)
    assert text[:20] in str(told.value) and len(str(told.value)) < 400


@pytest.mark.parametrize("text", ["0 0 * 2 MON#5", "59 */23 */29 2 SUN#5", "* 23 */29 2 SUN#5"])
def test_what_hardly_ever_matches_is_refused_before_long(text) -> None:
    """
    To look through fifty years would hold up everybody.
    """
    require_cron(text)
    with pytest.raises(ScheduleError, match="does not match within 8 years"):
        Schedule(cron=text).first(NOW)


def test_a_leap_day_is_found_over_a_century_without_one() -> None:
    """
    From 2096 to 2104 it is eight years.
    """
    (found,) = times(Schedule(cron="0 0 29 2 *"), at("2096-03-01T00:00:00"), 1)
    assert datetime.fromtimestamp(found / 1000, UTC) == datetime(2104, 2, 29, tzinfo=UTC)


def test_what_is_due_after_the_end_of_time_is_refused() -> None:
    """
    Or does not come again.
    """
    with pytest.raises(ScheduleError, match="9999"):
        Schedule(delay_ms=TIME_MS_MAX).first(NOW)
    last = Due(TIME_MS_MAX - 5, FOREVER)
    assert Schedule(period_ms=10, repeats=FOREVER).following(last, NOW) is None
    assert Schedule(cron="* * * * *").following(Due(TIME_MS_MAX, 0), TIME_MS_MAX) is None


@pytest.mark.parametrize("name", ["", "Mars", "../../etc/passwd", "Europe", "x" * 70, "Eur\0ope"])
def test_what_is_no_time_zone_is_refused(name) -> None:
    """
    Whatever stands in the files of the machine.
    """
    with pytest.raises(ScheduleError, match="no time zone"):
        zone_of(name)
