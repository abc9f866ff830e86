"""
What the headers of a SEND come to: worked out once for all messages that have the same.

A program sends a hundred thousand messages that differ in their bodies only. So what their headers
mean is kept with them, unless it may change: a lifetime counts from when a message comes, so it is
the same for those of one moment only. Of those with headers of their own what the others come to
is kept (`send_templates`).

Called by its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.broker.addressing import Route, RouteUnknownError
from holdfast.broker.parts import Spares, mirrors_among, spares_of
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError, RefusedError, ScheduleError
from holdfast.model.destination import Destination, Kind, parse_destination, parse_destinations
from holdfast.model.facts import PRIORITY_DEFAULT, Attributes, MessageFacts
from holdfast.model.format_level import GROUPS_LEVEL
from holdfast.model.groups import group_hash
from holdfast.model.schedules import Schedule
from holdfast.protocols.stomp.codec import escape
from holdfast.protocols.stomp.frames import SendFrame
from holdfast.protocols.stomp.mapping import with_authority, with_user
from holdfast.protocols.stomp.reader import FrameReader
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.forwarding import SentContent
from holdfast.sessions.permissions import may_pass_policies, require_granted, require_may_create
from holdfast.sessions.producer_rooms import known_producer
from holdfast.sessions.questions import STATISTICS, question_of
from holdfast.sessions.refusals import IGNORED_GROUP
from holdfast.sessions.requirements import read_producer_id
from holdfast.sessions.schedule_management import MANAGEMENT
from holdfast.sessions.send_templates import AskedHeaders, SendTemplate
from holdfast.sessions.stomp_headers import read_group
from holdfast.sessions.stomp_lifetimes import NOTHING, Lifetime, Said, lifetime_of, read_lifetime
from holdfast.sessions.stomp_priorities import priority_of, read_priority
from holdfast.sessions.stomp_schedules import read_schedule, scheduled, scheduled_before
from holdfast.sessions.target import Action, Basis, MomentaryBasis, StoredBasis, Target


def resolve(session: ClientSession, frame: SendFrame, *, is_copy: bool) -> Target:
    """
    Work out what a SEND with these headers means, and keep it with the headers; of a copy what its
    headers wish was an affair of another broker.

    Raises:
        RefusedError: It asks for what is not served, or cannot be sent there.
        RouteUnknownError: That takes more than one turn; nothing is done yet.
    """
    return question_of(session, frame.block.headers) or _resolve(session, frame, is_copy=is_copy)


def judge_unfinished(session: ClientSession, reader: FrameReader) -> None:
    """
    Refuse a SEND of which much is to come by its head, where its client may not send there or it
    names no destination: what comes of it then is not kept. All else is seen once it is whole, and
    so is a question to the broker.
    """
    frame, reader.unjudged = reader.unjudged, None
    assert frame is not None, "asked first"
    named = frame.block.headers["destination"]
    if STATISTICS in named or MANAGEMENT in named:
        return
    try:
        require_granted(session, session.holdings.broker, parse_destinations(named), Action.SEND)
    except RefusedError as error:
        reader.refuse(frame, error)


def _resolve(session: ClientSession, frame: SendFrame, *, is_copy: bool) -> Target:
    headers = frame.block.headers
    sending, templates = session.holdings.sending, session.templates
    is_taken = False
    if "transaction" not in headers and (said := headers.get("producer-id")) is not None:
        is_taken = sending.has_taken(known_producer(session, said), frame.producer_sequence)
    templates.follow(session.holdings.broker.destinations.leadership.patterns.change_count)
    template = templates.find(headers)
    if template is None:
        return _worked_out(session, frame, is_copy=is_copy, is_taken=is_taken)
    is_late = is_taken and template.is_wanted and template.is_numbered
    own = _read_own(session, headers, is_late=is_late, is_copy=is_copy)
    target = Target(template.destination, b"", persistent=template.is_kept)
    target.is_wanted = template.is_wanted
    target.producer_id, target.is_limited = template.producer_id, template.is_limited
    target.destinations, target.basis = template.destinations, template.basis
    target.mirrors, target.written = template.mirrors, template.written
    destinations = template.destinations or (template.destination,)
    return _completed(session, frame, target, destinations, own, template.priority, is_copy=is_copy)


def _stored_before(session: ClientSession, said: str) -> Target:
    """
    Give where a message goes whose number is taken: nowhere, it is confirmed.

    Where it would go now is not asked: that may be elsewhere by now, or too many. That its client
    may send there is: who may not is told so, and nothing else.
    """
    target = Target(session.holdings.broker.destinations.nowhere, b"", persistent=True)
    target.destinations = (session.holdings.broker.destinations.nowhere,)
    target.producer_id = known_producer(session, read_producer_id(said))
    return target


class _Own(NamedTuple):
    """What each message may say anew."""

    said: Said
    """How long it lives."""
    group: int
    is_late: bool
    """It may be stored already: nobody asks how long it lives."""


def _read_own(
    session: ClientSession, headers: dict[str, str], *, is_late: bool, is_copy: bool
) -> _Own:
    """
    Read what a template does not have.

    Raises:
        RefusedError: A value makes no sense.
    """
    if is_copy:
        return _Own(NOTHING, group_hash(headers.get("JMSXGroupID", "")), is_late)
    said = NOTHING if is_late else read_lifetime(session, headers)
    return _Own(said, read_group(headers), is_late)


def _worked_out(
    session: ClientSession, frame: SendFrame, *, is_copy: bool, is_taken: bool
) -> Target:
    block, holdings = frame.block, session.holdings
    headers = AskedHeaders(block.headers)
    wanted = _wants_keeping(session, headers)
    written = parse_destinations(headers["destination"])
    if written[0].options:
        session.context.refusals.note_ignored(session, written[0].read_options())
    schedule = None if is_copy else _read_schedule(session, headers, is_taken=is_taken)
    require_granted(session, holdings.broker, written, Action.SEND)
    if schedule is not None and is_taken:
        return scheduled_before(session, block.headers)
    if is_taken and wanted and any(each.kind is Kind.QUEUE for each in written):
        return _stored_before(session, headers["producer-id"])
    # Of a copy there are others, of what it went to.
    is_final = _is_placed(session, is_copy=is_copy) or schedule is not None
    route = _route(session, written, frame, is_final=is_final, is_stored=wanted, is_taken=is_taken)
    is_numbered = route.is_directed or any(each.kind is Kind.QUEUE for each in written)
    if is_taken and wanted and is_numbered:
        return _stored_before(session, headers["producer-id"])
    own = _read_own(session, block.headers, is_late=False, is_copy=is_copy)
    priority = read_priority(headers, is_copy=is_copy)
    if schedule is not None:
        lines = _with_sender(session, _with_replies(session, block.headers, block.lines))
        if session.principal is not None and session.principal.authority:
            lines = with_authority(lines, session.principal.authority)
        said_of_it = {"group": own.group, "priority": priority}
        return scheduled(session, block.headers, lines, schedule, said=own.said, **said_of_it)
    # What goes on to others by policies makes no queue of the name that was written.
    require_may_create(session, holdings.broker, set(written).intersection(route.destinations))
    spares = spares_of(written, is_stored=wanted)
    destinations = _targets(session, route.destinations, spares)
    lasting = any(isinstance(each, Queue) and not each.is_temporary for each in destinations)
    target = Target(destinations[0], b"", persistent=wanted and lasting)
    target.is_wanted, target.mirrors = wanted, mirrors_among(written) if wanted else ()
    target.written = written
    if len(destinations) > 1 or route.is_directed:
        target.destinations = destinations
    if len(written) == 1 and not route.is_directed:
        target.basis = _basis(session, destinations)
    producer_id = headers.get("producer-id")
    is_counted = wanted and (route.is_directed or any(map(_is_queue, destinations)))
    if producer_id is not None and is_counted and "transaction" not in headers:
        target.producer_id = known_producer(session, read_producer_id(producer_id))
    target.is_limited = holdings.broker.limiting.are_limited(destinations)
    template = _template(target, priority, is_numbered=is_numbered) if _is_settled(target) else None
    completed = _completed(session, frame, target, destinations, own, priority, is_copy=is_copy)
    if template is not None:
        session.templates.keep(headers, template)
    return completed


def _template(target: Target, priority: int, *, is_numbered: bool) -> SendTemplate:
    """Give what other messages come to that say the same, before anything of one is added."""
    return SendTemplate(
        target.destination,
        is_wanted=target.is_wanted,
        is_kept=target.persistent,
        is_numbered=is_numbered,
        is_limited=target.is_limited,
        priority=priority,
        producer_id=target.producer_id,
        destinations=target.destinations,
        mirrors=target.mirrors,
        written=target.written,
        basis=target.basis,
    )


def _completed(
    session: ClientSession,
    frame: SendFrame,
    target: Target,
    destinations: tuple[Queue | Topic, ...],
    own: _Own,
    priority_said: int,
    *,
    is_copy: bool,
) -> Target:
    """Add to a target what a message may say anew, and keep it with the headers if it stays so."""
    block = frame.block
    lifetime = Lifetime(0, block.lines, is_constant=not own.is_late)
    target.is_placed = _is_placed(session, is_copy=is_copy)
    if not (own.is_late or target.is_placed):
        lifetime = lifetime_of(session, own.said, destinations, block.lines)
    priority = priority_of(session, priority_said, destinations, lifetime.lines)
    group, is_known = _known(session, own.group, destinations)
    target.lines = _with_sender(session, _with_replies(session, block.headers, priority.lines))
    target.transaction = block.headers.get("transaction")
    if lifetime.expires_ms or group or priority.known != PRIORITY_DEFAULT:
        known = Attributes(lifetime.expires_ms, group, priority.known)
        target.facts = MessageFacts(attributes=known)
    is_repeated = lifetime.is_constant or lifetime.is_momentary
    if is_repeated and priority.is_constant and is_known and _is_settled(target):
        broker = session.holdings.broker
        if not lifetime.is_constant:
            target.basis = MomentaryBasis(target.basis, broker.sending, broker.state)
        is_one = target.destinations is None
        target.is_plain = is_one and target.persistent and target.transaction is None
        # Else it is looked at anew with each message: one of many may be deleted, one more queue
        # consume its topic, or a selector of a policy not be true of the next.
        target.wild_count = session.templates.wild_count
        block.memo = target
    return target


def _basis(session: ClientSession, destinations: tuple[Queue | Topic, ...]) -> Basis:
    """Give what it rests on that one name means these: the one, or a topic and what stores it."""
    if len(destinations) == 2:
        topic, stored = destinations
        if isinstance(topic, Topic) and isinstance(stored, StoredTopic):
            patterns = session.holdings.broker.destinations.leadership.patterns
            return StoredBasis(topic, stored, patterns)
    return destinations[0]


def _is_settled(target: Target) -> bool:
    """Whether where it goes stays so as long as its basis is there."""
    return target.destinations is None or type(target.basis) is StoredBasis


def _is_placed(session: ClientSession, *, is_copy: bool) -> bool:
    """Whether a message stays where it is sent, as it is: a copy that an operator makes."""
    return is_copy and may_pass_policies(session, session.holdings.broker)


def _read_schedule(
    session: ClientSession, headers: Mapping[str, str], *, is_taken: bool
) -> Schedule | None:
    """
    Give when a message is sent that this is said of; None: at once.

    Raises:
        ScheduleError: That makes no sense, and its number is new.
    """
    try:
        return read_schedule(headers, session.holdings.broker.settings.schedule_time_zone)
    except ScheduleError:
        if is_taken:
            return Schedule()  # It did: the zone may have been another one, or is gone.
        raise


def _wants_keeping(session: ClientSession, headers: Mapping[str, str]) -> bool:
    """Whether a message is to be kept, where it can be."""
    persistent = headers.get("persistent")
    return session.context.default_persistent if persistent is None else persistent == "true"


def _is_queue(destination: Queue | Topic) -> bool:
    """
    Whether it stores messages as long as it is there.

    A topic may do so between two numbers of a producer, or not any more: none of its own count.
    """
    return type(destination) is Queue and not destination.is_temporary


def _known(
    session: ClientSession, group: int, destinations: tuple[Queue | Topic, ...]
) -> tuple[int, bool]:
    """Give what counts of a group, 0 for nothing, and whether that stays so."""
    if not (group and any(isinstance(each, Queue) for each in destinations)):
        return 0, True
    if session.holdings.broker.format_level_ahead >= GROUPS_LEVEL:
        return group, True
    text = "not all nodes know message groups yet; header 'JMSXGroupID' does nothing"
    session.context.refusals.note(session, IGNORED_GROUP, text)
    return 0, False  # They will.


def _route(
    session: ClientSession,
    written: tuple[Destination, ...],
    frame: SendFrame,
    *,
    is_final: bool,
    is_stored: bool,
    is_taken: bool,
) -> Route:
    """
    Give where a message goes that is sent to these; if that is final, there.

    Raises:
        DestinationError: It comes to too many, and did not when it was stored.
        RouteUnknownError: That takes more than one turn.
    """
    broker, context = session.holdings.broker, session.context
    if is_final or not broker.addressing.directs(written):
        return Route(written, is_directed=False)
    content = SentContent(
        context.selections,
        frame.block.lines,
        frame.body,
        now_microseconds=broker.sending.now_microseconds,
        is_stored=is_stored,
        session_id=session.address,
        left_off_count=session.left_off_count,
    )
    left_off_count, session.left_off_count = session.left_off_count, 0
    try:
        return broker.addressing.route(written, content)
    except RouteUnknownError:
        session.left_off_count = left_off_count + 1
        raise
    except DestinationError:
        if is_taken and is_stored:
            return Route(written, is_directed=True)
        raise
    finally:
        session.effort += content.effort


def _targets(
    session: ClientSession, written: tuple[Destination, ...], spares: Spares
) -> tuple[Queue | Topic, ...]:
    """
    Give where a message goes, and what stores it beside that.

    Raises:
        RefusedError: It cannot go there.
        RouteUnknownError: To let wildcards have it takes more than one turn.
    """
    if not written:
        return (session.holdings.broker.destinations.nowhere,)
    session.effort += len(written) - 1
    found = session.holdings.targets(session, written)
    parts = session.holdings.broker.parts
    before = parts.effort
    put_off_count, session.put_off_count = session.put_off_count, 0
    try:
        stored = parts.among(written, spares, put_off_count)
    except RouteUnknownError:
        session.put_off_count = put_off_count + 1
        raise
    session.effort += parts.effort - before
    return (*found, *dict.fromkeys(stored))


def _with_sender(session: ClientSession, lines: bytes) -> bytes:
    """Say who has sent it, as found by the login."""
    who = session.principal
    return with_user(lines, who.name) if who is not None and who.name else lines


def _with_replies(session: ClientSession, headers: dict[str, str], lines: bytes) -> bytes:
    """Show the client's temporary queue for answers to others under its full name."""
    written = headers.get("reply-to", "").strip()
    if not written.startswith(("/temp-queue/", "/temp-topic/")):
        return lines
    reply_to = parse_destination(written)
    session.holdings.target(session, reply_to, Action.SEND)
    name = f"/remote-{reply_to.kind.value}/{session.address}.{reply_to.name}"
    full = escape(name, "1.2").encode()
    return b"".join(
        b"reply-to:%b\n" % full if line.startswith(b"reply-to:") else line
        for line in lines.splitlines(keepends=True)
    )
