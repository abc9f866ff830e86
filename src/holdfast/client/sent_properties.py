"""
What a message is sent with beside its body: `send(..., group="ann", ttl=60)`, in one place.

Every `send` of both faces takes these by name, and a received message has those of the same name
as properties. Each becomes a header, by JMS's name as STOMP carries it. To add one is a line in
`Properties` and a line in `WRITTEN`.

Invariants:
    A property that cannot be what it should be sends nothing: the call itself refuses it.
    No header is said twice, by a property and among the application's headers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Final, NoReturn, TypedDict

from holdfast.client.wire import Headers
from holdfast.errors import LocalProtocolError
from holdfast.model.facts import PRIORITY_MAX
from holdfast.model.limits import GROUP_SEQUENCE_MAX, GROUP_SEQUENCE_MIN, REPEATS_MAX

_TTL_SECONDS_MAX: Final = 1e11
"""Three thousand years: in milliseconds it is a number that every broker reads."""


class Properties(TypedDict, total=False):
    """What may be said of a message by name; None is as if it were not said."""

    correlation_id: str | None
    """Which request or conversation it belongs to (JMSCorrelationID)."""
    reply_to: str | None
    """Where an answer is awaited (JMSReplyTo)."""
    type: str | None
    """The application's own kind of message (JMSType)."""
    content_type: str | None
    """The media type of the body; of a `str` it is plain text if nothing is said."""
    group: str | None
    """The message group (JMSXGroupID): one consumer gets all of it, in order."""
    group_sequence: int | None
    """Its number in the message group (JMSXGroupSeq); below zero: the group ends with it."""
    priority: int | None
    """0 to 9, 4 if nothing is said: on queues with prioritizedMessages a higher one goes first."""
    ttl: float | timedelta | None
    """So many seconds it may wait to be delivered; then it has expired."""
    expires_at: datetime | None
    """The moment at which it has expired."""
    delay: float | timedelta | None
    """So many seconds the broker keeps it before it is sent."""
    send_at: datetime | None
    """The moment at which it is sent."""
    period: float | timedelta | None
    """The seconds between two of its repetitions; without a delay also before the first."""
    repeats: int | None
    """How often it is sent again after the first time; below zero: without end."""
    cron: str | None
    """It is sent whenever this cron expression of five fields matches."""
    cron_zone: str | None
    """The time zone by which that is meant; the broker's own if nothing is said."""


def headers_with(headers: Headers | None, properties: Properties) -> Headers | None:
    """
    The application's headers, with what it says by name.

    Raises:
        LocalProtocolError: A property is not what it should be, or said twice.
        TypeError: There is no property of that name.
    """
    said: dict[str, str | int | float | bool] = dict(headers or {})
    for name, value in properties.items():
        if name not in WRITTEN:
            known = ", ".join(WRITTEN)
            raise TypeError(f"a message has no property {name!r}; it may have {known}")
        if value is None:
            continue
        header, write = WRITTEN[name]
        if header in said:
            _refuse(name, f"header {header!r} is among the headers, too; say it once")
        said[header] = write(name, value)
    if properties.get("ttl") is not None and properties.get("expires_at") is not None:
        _refuse("ttl", "expires_at is given as well; say one of them")
    return said


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        _refuse(name, f"it is {value!r}; it must be str")
    return value


def _sequence(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(name, f"it is {value!r}; it must be int")
    if not GROUP_SEQUENCE_MIN <= value <= GROUP_SEQUENCE_MAX:
        _refuse(
            name, f"it is {value}; it must be from {GROUP_SEQUENCE_MIN} to {GROUP_SEQUENCE_MAX}"
        )
    return str(value)


def _priority(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(name, f"it is {value!r}; it must be int")
    if not 0 <= value <= PRIORITY_MAX:
        _refuse(name, f"it is {value}; it must be from 0 to {PRIORITY_MAX}")
    return str(value)


def milliseconds(name: str, value: object, *, least: int) -> str:
    """
    A span of time as milliseconds, from seconds or a timedelta.

    Raises:
        LocalProtocolError: It is none, shorter than so many milliseconds, or endless.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        _refuse(name, f"it is {value!r}; it must be seconds or a timedelta")
    if not isfinite(seconds) or not 0 <= seconds <= _TTL_SECONDS_MAX:
        _refuse(name, f"it is {value!r}; it must be from 0 to {_TTL_SECONDS_MAX:,.0f} seconds")
    return str(max(least, round(seconds * 1000)))


def _span(name: str, value: object) -> str:
    return milliseconds(name, value, least=0)


def _repeats(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(name, f"it is {value!r}; it must be int")
    if value > REPEATS_MAX:
        _refuse(name, f"it is {value}; it must be at most {REPEATS_MAX:,}")
    return str(max(value, -1))


def _ttl(name: str, value: object) -> str:
    # At least one: 0 would be for ever.
    return milliseconds(name, value, least=1)


def _moment(name: str, value: object) -> str:
    if not isinstance(value, datetime):
        _refuse(name, f"it is {value!r}; it must be a datetime")
    if value.tzinfo is None:
        _refuse(name, f"{value.isoformat()} has no time zone; datetime.now(UTC) has one")
    return str(max(1, round(value.timestamp() * 1000)))


def _refuse(name: str, why: str) -> NoReturn:
    raise LocalProtocolError(f"property {name!r}: {why}", code="bad-property")


WRITTEN: Final[dict[str, tuple[str, Callable[[str, Any], str]]]] = {
    "correlation_id": ("correlation-id", _text),
    "reply_to": ("reply-to", _text),
    "type": ("type", _text),
    "content_type": ("content-type", _text),
    "group": ("JMSXGroupID", _text),
    "group_sequence": ("JMSXGroupSeq", _sequence),
    "priority": ("priority", _priority),
    "ttl": ("expiration", _ttl),
    "expires_at": ("expires", _moment),
    "delay": ("AMQ_SCHEDULED_DELAY", _span),
    "send_at": ("AMQ_SCHEDULED_TIME", _moment),
    "period": ("AMQ_SCHEDULED_PERIOD", _span),
    "repeats": ("AMQ_SCHEDULED_REPEAT", _repeats),
    "cron": ("AMQ_SCHEDULED_CRON", _text),
    "cron_zone": ("AMQ_SCHEDULED_TIME_ZONE", _text),
}
"""By which header each is said, and how."""
