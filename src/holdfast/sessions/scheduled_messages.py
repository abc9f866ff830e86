"""
What is kept with a scheduled message, and where it goes as its time comes.

Headers are stored in the encoding of the protocol that they came by, today STOMP's alone; whoever
sends what is due asks here and knows no protocol.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.broker.broker import Broker
from holdfast.broker.parts import spares_of
from holdfast.broker.serving.dead_letters import with_origin
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import RefusedError
from holdfast.model.destination import Destination, Kind, parse_destinations
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin
from holdfast.model.records import MessageRecord
from holdfast.model.schedule_headers import CRON, DELAY, PERIOD, REPEAT, TIME, ZONE
from holdfast.model.schedules import Schedule
from holdfast.protocols.stomp.mapping import lookup
from holdfast.sessions.forwarding import SentContent
from holdfast.sessions.requirements import require_served_name
from holdfast.sessions.selection import Selections
from holdfast.sessions.stomp_schedules import (
    DESTINATION,
    LIFETIME,
    PERSISTENT,
    read_schedule,
)


class Kept(NamedTuple):
    """What is kept with a scheduled message."""

    schedule: Schedule
    written: str
    destinations: tuple[Destination, ...]
    persistent: bool
    lifetime_ms: int
    """How long it lives once it is sent; 0: as the policies say."""


def read_kept(lines: bytes) -> Kept:
    """
    Give what the header lines of a scheduled message say.

    Raises:
        RefusedError: They make no sense.
    """
    names = (DELAY, PERIOD, REPEAT, CRON, TIME, ZONE)
    headers = {name: text for name in names if (text := lookup(lines, name)) is not None}
    written = lookup(lines, DESTINATION)
    if written is None:
        raise RefusedError("a scheduled message does not say where it goes")
    return Kept(
        read_schedule(headers, "UTC") or Schedule(),
        written,
        parse_destinations(written),
        lookup(lines, PERSISTENT) is None,
        int(lookup(lines, LIFETIME) or 0),
    )


def _lines_now(broker: Broker, kept: Kept, message: MessageRecord) -> bytes:
    """Give the header lines of a message whose time has come, as its consumers will see them."""
    queue = broker.firing.queue
    assert message.headers is not None and queue is not None, "it is on it, with its content"
    identity = f"ID:{broker.moving.cluster}-{queue.number}-{message.sequence}"
    expires_ms = kept.lifetime_ms and broker.returning.now_ms + kept.lifetime_ms
    facts = MessageFacts(
        attributes=Attributes(expires_ms=expires_ms) if expires_ms else None,
        origin=Origin(Cause.FIRED, queue.name, identity),
    )
    return with_origin(message.headers, facts)


def targets_now(
    broker: Broker,
    kept: Kept,
    message: MessageRecord,
    selections: Selections,
    left_off_count: int = 0,
) -> tuple[Queue | Topic, ...] | None:
    """
    Give where a message goes now, each once; None: one has no room at this moment.

    Raises:
        RefusedError: One cannot be, or there would be too many.
        RouteUnknownError: That takes more than one turn, and was left off so often before.
    """
    assert message.body is not None, "it has its content"
    content = SentContent(
        selections,
        _lines_now(broker, kept, message),
        message.body,
        now_microseconds=broker.sending.now_microseconds,
        is_stored=kept.persistent,
        left_off_count=left_off_count,
    )
    written = broker.addressing.route(kept.destinations, content).destinations
    for each in written:
        require_served_name(each)
    destinations = broker.destinations
    names = [each.name for each in written if each.kind is Kind.QUEUE]
    destinations.require_queues(sum(not destinations.has_queue(name) for name in names))
    found: dict[Queue | Topic, None] = {}
    for each in written:
        find = destinations.topic if each.kind is Kind.TOPIC else destinations.queue
        found[find(each.name)] = None
    spares = spares_of(kept.destinations, is_stored=kept.persistent)
    stored = broker.parts.among(written, spares, left_off_count)
    found |= dict.fromkeys(stored)
    for target in found:
        is_kept = kept.persistent and isinstance(target, Queue)
        if not (is_kept or broker.sending.has_room(target)):
            return None
    if kept.persistent:
        broker.publishing.backlogs.evicted_total += broker.parts.left_out(written)
    return tuple(found)
