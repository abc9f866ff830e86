"""
When a scheduled message is sent: once or again and again, at times that follow from what was said.

A schedule is a value: of the time for which it was due and what is left of its repetitions it tells
the next time, and needs neither a clock nor a memory. What was missed while nobody led is sent once
and counts once: the next time is the first of the same rhythm that is not over yet, so nothing
drifts.

With a cron expression each time that it matches begins a burst, if repetitions were asked for; a
match ends the burst of the one before it. Its times are those of a time zone, and what that does
twice or leaves out in a year is as in Debian's cron: what is left out is made up for at once, and
what comes twice is done once, unless the hour or the minute is a star.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.errors import ScheduleError

SCHEDULE_QUEUE: Final = "$schedule"
"""Where scheduled messages stand until their time comes."""

FOREVER: Final = 0xFFFF
"""So many repetitions are without end."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
CRON_BYTES_MAX: Final = 256
ZONE_BYTES_MAX: Final = 64
_CRON_FIELDS: Final = 5
_YEARS_MAX: Final = 8
"""A cron expression that matches less often is refused: 29 February is eight years away at most."""
_KNOWN_MAX: Final = 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Due(NamedTuple):
    """When a message is sent next, and how often after that."""

    due_ms: int
    """In milliseconds since the epoch."""
    repeats: int
    """With a cron expression: of the burst that is under way."""


class Schedule(NamedTuple):
    """What was said of when a message is sent."""

    delay_ms: int = 0
    period_ms: int = 0
    """Between two repetitions; without a delay also before the first."""
    repeats: int = 0
    """How often after the first time; `FOREVER`: without end."""
    cron: str = ""
    zone: str = "UTC"
    """By which the cron expression is meant."""
    at_ms: int = 0
    """A time, instead of a delay; 0: none is said."""

    def first(self, now_ms: int) -> Due:
        """
        Give when it is sent first, having come now.

        Raises:
            ScheduleError: That is never, or too late.
        """
        if self.cron:
            found = self._match(now_ms)
            if found is None:
                raise ScheduleError(f"cron {self.cron!r} does not match within {_YEARS_MAX} years")
            return self._begun(found)
        due_ms = self.at_ms or now_ms + (self.delay_ms or self.period_ms)
        if due_ms > TIME_MS_MAX:
            raise ScheduleError("the message is due after the year 9999")
        return Due(due_ms, self.repeats)

    def following(self, due: Due, now_ms: int) -> Due | None:
        """Give when it is sent after this time, the first that is not over; None: never again."""
        again = None
        if due.repeats and self.period_ms:
            missed = max(0, now_ms - due.due_ms) // self.period_ms
            left = due.repeats if due.repeats == FOREVER else due.repeats - 1
            again = Due(due.due_ms + (1 + missed) * self.period_ms, left)
        if self.cron:
            lead_ms = self._lead_ms
            match_ms = self._match(max(now_ms, due.due_ms) - lead_ms)
            if match_ms is not None and (again is None or match_ms + lead_ms <= again.due_ms):
                again = self._begun(match_ms)
        return None if again is None or again.due_ms > TIME_MS_MAX else again

    def _begun(self, match_ms: int) -> Due:
        return Due(match_ms + self._lead_ms, self.repeats)

    @property
    def _lead_ms(self) -> int:
        """How long after a match of the cron expression a burst begins."""
        return self.delay_ms if self.repeats else 0

    def _match(self, after_ms: int) -> int | None:
        """Give when the cron expression matches after a time, in whole minutes; None: never."""
        zone = zone_of(self.zone)
        try:
            after = (_EPOCH + timedelta(milliseconds=after_ms)).astimezone(zone)
            times = _cron_of(self.cron, after)
            # What the clock shows twice it gives in the order in which it is shown.
            found = next(times)
            while (milliseconds := _milliseconds(found)) <= after_ms:
                found = next(times)
        except (StopIteration, OverflowError, ValueError):
            return None
        return milliseconds


class _Soon(CronSim):
    """A cron expression whose next match is looked for in the coming years only."""

    last_year = 0

    def advance_month(self) -> None:
        super().advance_month()
        if self.dt.year > self.last_year:
            raise StopIteration


def _cron_of(text: str, after: datetime) -> CronSim:
    times = _Soon(text, after)
    times.last_year = after.year + _YEARS_MAX
    return times


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def require_cron(text: str) -> None:
    """
    Refuse what is no cron expression of five fields.

    Raises:
        ScheduleError: It is none; the sentence says which field.
    """
    shown = repr(text if len(text) <= CRON_BYTES_MAX else f"{text[:40]}…")
    if len(text.encode()) > CRON_BYTES_MAX:
        raise ScheduleError(f"cron {shown}: at most {CRON_BYTES_MAX} bytes")
    if len(text.split()) != _CRON_FIELDS:
        raise ScheduleError(
            f"cron {shown}: five fields are needed: minute, hour, day of month, month, day of week"
        )
    try:
        CronSim(text, _EPOCH)
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        raise ScheduleError(f"cron {shown}: {str(error).lower() or 'not readable'}") from None


@lru_cache(_KNOWN_MAX)
def zone_of(name: str) -> tzinfo:
    """
    Give a time zone by its name.

    Raises:
        ScheduleError: There is none of this name.
    """
    if name == "UTC":
        return UTC
    try:
        if len(name.encode()) > ZONE_BYTES_MAX:
            raise ValueError
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(
            f"{name[:ZONE_BYTES_MAX]!r} is no time zone; one is Europe/Paris"
        ) from None
