"""
What a SEND says of when its message is sent, and how that is kept with it.

The headers have ActiveMQ's names. They are kept with the message as they came, behind lines of our
own that say what no header of a MESSAGE does: where it goes, whether it is kept there, how long it
lives from then on, by which time zone. Nobody who gets the message sees any of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.errors import DestinationError, NotServedError, ScheduleError
from holdfast.model.destination import Destination, Kind, parse_destinations
from holdfast.model.digits import read_digits
from holdfast.model.facts import PRIORITY_DEFAULT, Attributes, MessageFacts
from holdfast.model.format_level import PRIORITY_LEVEL, SCHEDULES_LEVEL
from holdfast.model.limits import REPEATS_MAX
from holdfast.model.schedule_headers import CRON, DELAY, PERIOD, REPEAT, TIME, WHEN, ZONE
from holdfast.model.schedules import (
    FOREVER,
    SCHEDULE_QUEUE,
    TIME_MS_MAX,
    Due,
    Schedule,
    require_cron,
    zone_of,
)
from holdfast.protocols.stomp.codec import escape
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.permissions import require_allowed
from holdfast.sessions.producer_rooms import known_producer
from holdfast.sessions.requirements import read_producer_id, require_served_name
from holdfast.sessions.stomp_lifetimes import Said
from holdfast.sessions.target import Action, Target

DESTINATION: Final = "AMQ_SCHEDULED_DESTINATION"
PERSISTENT: Final = "AMQ_SCHEDULED_PERSISTENT"
LIFETIME: Final = "AMQ_SCHEDULED_LIFETIME"
_OURS: Final = tuple(f"{name}:".encode() for name in (DESTINATION, PERSISTENT, LIFETIME, ZONE))
_TEMPORARY: Final = frozenset(Kind) - {Kind.QUEUE, Kind.TOPIC}


def read_schedule(headers: Mapping[str, str], zone: str) -> Schedule | None:
    """
    Give what the headers of a SEND say of when its message is sent; None: at once.

    Args:
        zone: By which time zone a cron expression is meant that says none.

    Raises:
        ScheduleError: A header makes no sense; the sentence says which, and its value.
    """
    if not any(name in headers for name in WHEN):
        return None
    cron = " ".join(headers.get(CRON, "").split())
    zone = headers.get(ZONE, "").strip() or zone
    schedule = Schedule(
        delay_ms=_number(headers, DELAY),
        period_ms=_number(headers, PERIOD),
        repeats=_repeats(headers),
        cron=cron,
        zone=zone if cron else "UTC",
        at_ms=_number(headers, TIME),
    )
    if schedule == Schedule():
        return None
    if schedule.repeats and not schedule.period_ms:
        raise ScheduleError(f"header {REPEAT}: {_shown(headers, REPEAT)} needs a {PERIOD} above 0")
    if schedule.at_ms and (cron or schedule.delay_ms):
        other = CRON if cron else DELAY
        raise ScheduleError(
            f"header {TIME}: {_shown(headers, TIME)} and {other} exclude each other"
        )
    if cron:
        _require(CRON, cron)
        _require(ZONE, zone)
    return schedule


def _require(name: str, text: str) -> None:
    try:
        if name == CRON:
            require_cron(text)
        else:
            zone_of(text)
    except ScheduleError as error:
        raise ScheduleError(f"header {name}: {error}") from None


def _number(headers: Mapping[str, str], name: str) -> int:
    text = headers.get(name, "").strip()
    value = read_digits(text.encode()) if text else 0
    if value is None or value > TIME_MS_MAX:
        raise ScheduleError(
            f"header {name}: {_shown(headers, name)} is not a number of milliseconds"
            f" from 0 to {TIME_MS_MAX:,}"
        )
    return value


def _repeats(headers: Mapping[str, str]) -> int:
    text = headers.get(REPEAT, "").strip()
    is_endless = text.startswith("-") and bool(read_digits(text[1:].encode()))
    value = FOREVER if is_endless else read_digits(text.encode()) if text else 0
    if value is None or (not is_endless and value > REPEATS_MAX):
        raise ScheduleError(
            f"header {REPEAT}: {_shown(headers, REPEAT)} is not a number from 0 to {REPEATS_MAX:,},"
            " nor below 0, which is without end"
        )
    return value


def _shown(headers: Mapping[str, str], name: str) -> str:
    return repr(headers.get(name, "")[:40])


def scheduled(
    session: ClientSession,
    headers: dict[str, str],
    lines: bytes,
    schedule: Schedule,
    *,
    said: Said,
    group: int,
    priority: int,
) -> Target:
    """
    Give where a message goes that waits for its time: what it was sent to is found then.

    Raises:
        RefusedError: It cannot be sent there, or never is.
    """
    broker = session.holdings.broker
    if broker.format_level_ahead < SCHEDULES_LEVEL:
        name = next(it for it in WHEN if it in headers)
        raise NotServedError(
            f"not all nodes know scheduled messages yet (header {name!r}): send it again later"
        )
    written = parse_destinations(headers["destination"])
    for each in written:
        _require_lasting(session, each)
    persistent = headers.get("persistent")
    wanted = session.context.default_persistent if persistent is None else persistent == "true"
    wall_ms = broker.sending.now_microseconds // 1000
    lifetime_ms = said.lasts_ms
    if said.expires_ms:
        lifetime_ms = max(1, said.expires_ms - (said.sent_ms or wall_ms))
    ours = [f"{DESTINATION}:{escape(headers['destination'], '1.2')}\n"]
    if not wanted:
        ours.append(f"{PERSISTENT}:false\n")
    if lifetime_ms:
        ours.append(f"{LIFETIME}:{lifetime_ms}\n")
    if schedule.cron:
        ours.append(f"{ZONE}:{schedule.zone}\n")
    kept = (it for it in lines.splitlines(keepends=True) if not it.startswith(_OURS))
    target = Target(
        broker.destinations.queue(SCHEDULE_QUEUE),
        b"".join(("".join(ours).encode(), *kept)),
        persistent=True,
    )
    due = schedule.first(max(wall_ms, broker.returning.now_ms))
    is_known = broker.format_level_ahead >= PRIORITY_LEVEL
    target.written = written
    target.facts = facts_of(due, group, priority if is_known else PRIORITY_DEFAULT)
    target.transaction = headers.get("transaction")
    producer_id = headers.get("producer-id")
    if producer_id is not None and target.transaction is None:
        target.producer_id = known_producer(session, read_producer_id(producer_id))
    return target


def scheduled_before(session: ClientSession, headers: dict[str, str]) -> Target:
    """
    Give where a message goes whose number is taken: nowhere, it is confirmed.

    What was scheduled has its producer's number whether it is persistent or not, and whatever it
    goes to; so what repeats it must not be sent at once.

    Raises:
        DestinationError: The name of its producer is too long.
    """
    queue = session.holdings.broker.destinations.queue(SCHEDULE_QUEUE)
    target = Target(queue, b"", persistent=True)
    target.producer_id = known_producer(session, read_producer_id(headers["producer-id"]))
    return target


def facts_of(due: Due, group: int, priority: int) -> MessageFacts:
    """Give what the broker has to know of a scheduled message."""
    attributes = Attributes(group_hash=group, priority=priority, repeats=due.repeats)
    known = None if attributes == Attributes() else attributes
    return MessageFacts(attributes=known, due_ms=due.due_ms)


def _require_lasting(session: ClientSession, written: Destination) -> None:
    require_allowed(session, session.holdings.broker, (written,), Action.SEND)
    require_served_name(written)
    if written.kind in _TEMPORARY:
        raise DestinationError(
            f"'{written}' is temporary: it may be gone when a scheduled message is due"
        )
