"""
What the headers of a SEND come to: worked out once for all messages that have the same.

A program sends a hundred thousand messages that differ in their bodies only. So what their headers
mean is kept with them, unless it may change: a lifetime may be over between two messages.

Called by its session.
"""

from __future__ import annotations

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_destination, parse_destinations
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.format_level import GROUPS_LEVEL
from holdfast.model.groups import group_hash
from holdfast.model.virtual_topics import is_virtual
from holdfast.protocols.stomp.codec import escape
from holdfast.protocols.stomp.frames import SendFrame
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.refusals import IGNORED_GROUP
from holdfast.sessions.requirements import read_producer_id
from holdfast.sessions.stomp_headers import read_group, require_obeyable
from holdfast.sessions.stomp_lifetimes import NOTHING, Lifetime, lifetime_of, read_lifetime
from holdfast.sessions.target import Action, Target


def resolve(session: ClientSession, frame: SendFrame, *, is_copy: bool) -> Target:
    """
    Work out what a SEND with these headers means, and keep it with the headers.

    Args:
        is_copy: What its headers wish was an affair of another broker.

    Raises:
        RefusedError: It asks for what is not served, or cannot be sent there.
    """
    block, holdings = frame.block, session.holdings
    headers = block.headers
    may_be_late = holdings.sending.has_taken(headers.get("producer-id"), frame.producer_sequence)
    written = parse_destinations(headers["destination"])
    if written[0].options:
        session.context.refusals.note_ignored(session, written[0].read_options())
    said = NOTHING
    if not (may_be_late or is_copy):
        require_obeyable(headers)
        said = read_lifetime(session, headers)
    group = group_hash(headers.get("JMSXGroupID", "")) if is_copy else read_group(headers)
    destinations = _targets(session, written, is_repeated=may_be_late)
    lifetime = Lifetime(0, block.lines, is_constant=not may_be_late)
    if not (may_be_late or is_copy):
        lifetime = lifetime_of(session, said, destinations, block.lines)
    lines = lifetime.lines
    reply_to = headers.get("reply-to", "").strip()
    if reply_to.startswith(("/temp-queue/", "/temp-topic/")):
        lines = _with_remote_reply(session, lines, parse_destination(reply_to))
    persistent = headers.get("persistent")
    wanted = session.context.default_persistent if persistent is None else persistent == "true"
    lasting = any(isinstance(each, Queue) and not each.is_temporary for each in destinations)
    target = Target(destinations[0], lines, persistent=wanted and lasting)
    is_for_consumers = any(each.kind is Kind.TOPIC and is_virtual(each.name) for each in written)
    if len(destinations) > 1 or is_for_consumers:
        target.destinations = destinations
    target.transaction = headers.get("transaction")
    producer_id = headers.get("producer-id")
    is_counted = wanted and (lasting or is_for_consumers)
    if producer_id is not None and is_counted and target.transaction is None:
        target.producer_id = read_producer_id(producer_id)
    is_settled = lifetime.is_constant
    known_group = 0
    if group and any(isinstance(each, Queue) for each in destinations):
        if session.holdings.broker.format_level_ahead >= GROUPS_LEVEL:
            known_group = group
        else:
            text = "not all nodes know message groups yet; header 'JMSXGroupID' does nothing"
            session.context.refusals.note(session, IGNORED_GROUP, text)
            is_settled = False  # They will.
    if known_group or lifetime.expires_ms:
        attributes = Attributes(expires_ms=lifetime.expires_ms, group_hash=known_group)
        target.facts = MessageFacts(attributes=attributes)
    if is_settled and target.destinations is None:
        # Else it is looked at anew with each message: one of many may be deleted, or one more queue
        # consume its topic.
        block.memo = target
    return target


def _targets(
    session: ClientSession, written: tuple[Destination, ...], *, is_repeated: bool
) -> tuple[Queue | Topic, ...]:
    """
    Give where a message goes; of one that is stored already what there is still of that.

    Raises:
        RefusedError: It cannot go there.
    """
    session.effort = len(written) - 1
    try:
        return session.holdings.targets(session, written, Action.SEND)
    except DestinationError:
        has_queue = session.holdings.broker.destinations.has_queue
        left = [each for each in written if each.kind is Kind.QUEUE and has_queue(each.name)]
        if not (is_repeated and left):
            raise
        return session.holdings.targets(session, left, Action.SEND)


def _with_remote_reply(session: ClientSession, lines: bytes, reply_to: Destination) -> bytes:
    """Show the client's temporary queue to others under its full name."""
    session.holdings.target(session, reply_to, Action.SEND)
    name = f"/remote-{reply_to.kind.value}/{session.id}.{reply_to.name}"
    full = escape(name, "1.2").encode()
    return b"".join(
        b"reply-to:%b\n" % full if line.startswith(b"reply-to:") else line
        for line in lines.splitlines(keepends=True)
    )
