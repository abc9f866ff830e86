"""
The door: whether a client may do what it asks, judged in one place for every protocol.

Judged is what the client wrote: each part of a composite by itself, a wildcard as a whole. Where
policies send a message on, that is the operator's affair. What would create a queue needs the right
to administer it as well. While there are no users nobody is asked anything.

A verdict is worked out with what headers come to (`stomp_sending`), so that a message costs none;
whatever it rests on tells when that has changed.

Invariants:
    What is refused has changed nothing.
    Whoever is refused is told who he is, what he may not, and with which destination, and nothing
    of what there is.

Called by the holdings of a session, and by its protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription
from holdfast.broker.serving.late import last_holder
from holdfast.errors import DestinationError, ForbiddenError
from holdfast.model.destination import Destination, Kind
from holdfast.model.shares import STRANGERS
from holdfast.security.grants import Right
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.roles import Duty, duty_of
from holdfast.security.verdicts import hint, judge, require
from holdfast.sessions.ownership import named, owner_of, require_own
from holdfast.sessions.session import Session
from holdfast.sessions.target import Action

_RIGHTS: Final = {
    Action.SEND: Right.WRITE,
    Action.CONSUME: Right.READ,
    Action.ASK: Right.WRITE,
    Action.MANAGE: Right.ADMIN,
}
_REMOTE: Final = frozenset({Kind.REMOTE_TEMPORARY_QUEUE, Kind.REMOTE_TEMPORARY_TOPIC})


def require_allowed(
    session: Session, broker: Broker, written: Sequence[Destination], action: Action
) -> None:
    """
    Refuse what a client may not do with one of these, making those that are not there.

    Raises:
        ForbiddenError: It was granted to none of its user's roles.
        DestinationError: One is the temporary one of another connection.
    """
    require_granted(session, broker, written, action)
    require_may_create(session, broker, written)


def require_granted(
    session: Session, broker: Broker, written: Sequence[Destination], action: Action
) -> None:
    """
    Refuse what a client may not do with one of these.

    Raises:
        ForbiddenError: It was granted to none of its user's roles.
        DestinationError: One is the temporary one of another connection.
    """
    book = broker.access_book
    if action is Action.CONSUME:
        for each in written:
            if each.kind in _REMOTE:
                raise DestinationError(
                    f"'{each}' belongs to another connection; only that one may subscribe to it"
                )
    if book.is_guarded:
        who = who_is(session)
        require(who, book.access(who), _RIGHTS[action], written)


def require_may_create(session: Session, broker: Broker, written: Iterable[Destination]) -> None:
    """
    Refuse to make queues that are not there for whom they were not granted for administration.

    Raises:
        ForbiddenError: One of these is not there, and may not be made.
    """
    book = broker.access_book
    if not book.is_guarded:
        return
    who = who_is(session)
    has_queue = broker.destinations.has_queue
    for each in written:
        if each.kind is not Kind.QUEUE or each.is_wildcard or has_queue(each.name):
            continue
        access = book.access(who)
        if not judge(access, Right.ADMIN, each).is_allowed:
            raise ForbiddenError(
                f"there is no {str(each)[:200]}, and {named(who)} may not create it: no role of"
                f" theirs was granted admin of it{hint(who, access)}"
            )


def require_writer(session: Session, broker: Broker, what: str) -> None:
    """
    Refuse something to who may send nowhere: it is of no use to him, and has a record in the log.

    Raises:
        ForbiddenError: He may not.
    """
    if not is_writer(session, broker):
        who = who_is(session)
        raise ForbiddenError(
            f"{named(who)} may not say {what}: no role of theirs may write anywhere"
            f"{hint(who, broker.access_book.access(who))}"
        )


def is_writer(session: Session, broker: Broker) -> bool:
    """Whether a client may send to anything but what is temporary."""
    book = broker.access_book
    return not book.is_guarded or book.access(who_is(session)).has(Right.WRITE)


def sharer(session: Session, broker: Broker) -> str | None:
    """
    Give of whose share it is what a client has; None: nobody is somebody here.

    All to whom nothing is granted have one together.
    """
    book = broker.access_book
    if not book.is_guarded:
        return None
    who = who_is(session)
    return who.name if book.may_anything(who) else STRANGERS


def may_pass_policies(session: Session, broker: Broker) -> bool:
    """Whether what a client calls a copy stays where it is sent, whatever policies say of others:
    that is an operator's act, as a move is; whoever may only write is no operator.
    """
    if not broker.access_book.is_guarded:
        return True
    return duty_of(who_is(session).roles) >= Duty.OPERATE


def require_may_pass_policies(session: Session, broker: Broker) -> None:
    """
    Refuse what was sent as an operator's copies, and whose client is no operator by now.

    Raises:
        ForbiddenError: So it is. Where policies would have led them is not known any more.
    """
    if not may_pass_policies(session, broker):
        raise ForbiddenError(
            f"{named(who_is(session))} may not say that these are copies (holdfast-carry), which"
            " pass policies by: that takes the role operator or admin; roll back, and send anew"
        )


def require_late(session: Session, broker: Broker, queue_number: int, key: int) -> None:
    """
    Refuse a late acknowledgement of what its client may not read.

    It is taken all the same where this leader knows that the message was this client's last: then
    it was delivered while that was allowed, and is done.

    Raises:
        ForbiddenError: It may be anybody's.
    """
    book = broker.access_book
    if not book.is_guarded:
        return
    lasting = broker.state.queues.get(queue_number)
    if lasting is None:
        return  # There is nothing to be taken.
    had_by = last_holder(broker.state, broker.destinations.leadership, queue_number, key)
    if had_by and had_by == session.client:
        return
    _require_reader(session, broker, lasting)


def require_settled(session: Session, broker: Broker, queue_number: int) -> None:
    """
    Refuse what a client has acknowledged and not committed of what it may not read any more.

    Raises:
        ForbiddenError: It may not.
    """
    lasting = broker.state.queues.get(queue_number)
    if lasting is not None and broker.access_book.is_guarded:
        _require_reader(session, broker, lasting)


def _require_reader(session: Session, broker: Broker, lasting: LastingQueue) -> None:
    who, book = who_is(session), broker.access_book
    if isinstance(lasting, LastingSubscription):
        owner = owner_of(lasting, broker.state.queues)
        require_own(owner, lasting.client_id, lasting.name, who, book)
        written = Destination(Kind.TOPIC, lasting.topic.name)
    else:
        written = Destination(Kind.QUEUE, lasting.name)
    require(who, book.access(who), Right.READ, (written,))


def who_is(session: Session) -> Principal:
    """Give who a client is; nobody in particular before it has said so."""
    return session.principal or ANONYMOUS
