"""
What of all that clients cause has a line in the file of who did what.

Who logs in, and who is refused something, decides how often that is, and with names as long as he
likes. So what may be written of it is bounded by bytes, and whoever logs in again within a minute
from the same place has one line. What is left out is counted, and the count is a line.

Invariants:
    What operators change is never left out, and nobody else's lines make room for it.
    Who is nobody in particular counts among those who are refused, and not among users.
    However long somebody goes on, it takes him ten hours and more to fill all files that are kept.

Pure: times are arguments. Owned by the loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from holdfast.model.limits import KiB, MiB
from holdfast.model.networks import networks_of

LINE_BYTES_PER_SECOND: Final = 4 * KiB
"""Of logins, and of refusals, each: 8 KiB in a second fill five files of 64 MiB in 11 hours."""
LOGIN_BYTES_MAX: Final = 4 * MiB
"""At once: 28,000 clients of as many users that come back."""
REFUSAL_BYTES_MAX: Final = 256 * KiB

AGAIN_SECONDS: Final = 60.0
AGAIN_COUNT_MAX: Final = 10_000
LEFT_OUT_SECONDS: Final = 1.0
_ENDED_AT_ONCE_MAX: Final = 8
"""With each line: they never become more, and nothing takes long."""


class Kind(Enum):
    """What a line is of."""

    CHANGE = "changes"
    LOGIN = "logins"
    REFUSAL = "refusals"


class Moment(NamedTuple):
    """A time of both kinds."""

    seconds: float
    """By the monotonic clock."""
    microseconds: int
    """Since the epoch."""


class Line(NamedTuple):
    """A line to be written."""

    text: bytes
    is_change: bool = False
    """Of what operators change."""


class _Place(NamedTuple):
    who: str
    source: str
    site: str


class _Again:
    """Somebody who has come in a moment ago."""

    __slots__ = ("count", "fields", "until")

    def __init__(self, fields: Mapping[str, str], until: float) -> None:
        self.fields = fields
        self.until = until
        self.count = 0
        """How often again since."""


class _Allowance:
    """Bytes that may be written: as many as it holds at once, then so many in a second."""

    __slots__ = ("_at", "_bytes_max", "_left", "left_out_count")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = float(bytes_max)
        self._at = float("-inf")
        self.left_out_count = 0

    def take(self, size: int, now: float) -> bool:
        gained = (now - self._at) * LINE_BYTES_PER_SECOND
        self._left = min(self._bytes_max, self._left + gained)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


class AuditBounds:
    """Chooses the lines of one node."""

    __slots__ = ("_again", "_allowances", "_told_at")

    def __init__(self) -> None:
        self._allowances = {
            Kind.LOGIN: _Allowance(LOGIN_BYTES_MAX),
            Kind.REFUSAL: _Allowance(REFUSAL_BYTES_MAX),
        }
        self._again: dict[Kind, dict[_Place, _Again]] = {Kind.LOGIN: {}, Kind.REFUSAL: {}}
        """Who came in within a minute, the oldest first; apart from users who is nobody."""
        self._told_at = float("-inf")

    def lines(self, fields: Mapping[str, str], kind: Kind, now: Moment) -> Iterator[Line]:
        """Give the line of this, if it has one, behind those that are due."""
        yield from self._left_out(now)
        yield from self._ended(now)
        if kind is Kind.LOGIN:
            yield from self._login(fields, now)
        else:
            yield from self._allowed(fields, kind, now)

    def rest(self, now: Moment) -> Iterator[Line]:
        """Give all that was counted and not told yet, at an end."""
        for kind, places in self._again.items():
            for again in places.values():
                yield from self._told_again(again, kind, now)
            places.clear()
        self._told_at = float("-inf")
        yield from self._left_out(now)

    def _login(self, fields: Mapping[str, str], now: Moment) -> Iterator[Line]:
        kind = Kind.LOGIN if fields["who"] else Kind.REFUSAL
        site, _ = networks_of(fields["address"])
        place, places = _Place(fields["who"], fields["source"], site), self._again[kind]
        again = places.get(place)
        if again is not None and now.seconds < again.until:
            again.count += 1
            return
        if again is not None:
            yield from self._told_again(places.pop(place), kind, now)
        if len(places) < AGAIN_COUNT_MAX:
            places[place] = _Again(fields, now.seconds + AGAIN_SECONDS)
        yield from self._allowed(fields, kind, now)

    def _allowed(self, fields: Mapping[str, str], kind: Kind, now: Moment) -> Iterator[Line]:
        line = line_of(now.microseconds, fields)
        allowance = self._allowances.get(kind)
        if allowance is None or allowance.take(len(line), now.seconds):
            yield Line(line, is_change=kind is Kind.CHANGE)
        else:
            allowance.left_out_count += 1

    def _ended(self, now: Moment) -> Iterator[Line]:
        for kind, places in self._again.items():
            for _ in range(_ENDED_AT_ONCE_MAX):
                place = next(iter(places), None)
                if place is None or places[place].until > now.seconds:
                    break
                yield from self._told_again(places.pop(place), kind, now)

    def _told_again(self, again: _Again, kind: Kind, now: Moment) -> Iterator[Line]:
        if again.count:
            fields = {**again.fields, "action": "more logins", "outcome": str(again.count)}
            yield from self._allowed(fields, kind, now)

    def _left_out(self, now: Moment) -> Iterator[Line]:
        if now.seconds - self._told_at < LEFT_OUT_SECONDS:
            return
        for kind, allowance in self._allowances.items():
            if allowance.left_out_count:
                self._told_at = now.seconds
                fields = {
                    "action": f"{kind.value} left out",
                    "outcome": str(allowance.left_out_count),
                }
                allowance.left_out_count = 0
                yield Line(line_of(now.microseconds, fields))


def line_of(at_microseconds: int, fields: Mapping[str, Any]) -> bytes:
    """Give a line of JSON with its time."""
    at = datetime.fromtimestamp(at_microseconds / 1_000_000, UTC)
    time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    # A name may have whatever its stranger likes: a terminal obeys more than ASCII's controls.
    return f"{json.dumps({'time': time, **fields})}\n".encode("ascii")
