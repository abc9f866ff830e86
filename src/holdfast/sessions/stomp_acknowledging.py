"""
ACK and NACK that are not the plain word about a delivery of this connection.

By message id, in a transaction, to the dead-letter queue: whatever takes more than looking a
delivery up. The plain ACK, of which there are a hundred thousand per second, stands in `stomp`.
"""

from __future__ import annotations

from holdfast.broker.serving.bundle import Strand
from holdfast.broker.serving.late import not_in_delivery
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import DestinationError, TransactionError, UnknownDeliveryError
from holdfast.protocols.stomp.frames import AcknowledgeFrame
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.stomp_delivery import read_identity
from holdfast.sessions.stomp_headers import read_rejection, unknown_name


def settle(
    session: ClientSession,
    frame: AcknowledgeFrame,
    subscription: Subscription,
    key: int,
    *,
    exact: bool = False,
) -> None:
    """
    Settle a delivery in or out of a transaction; `exact` leaves those before it alone.

    Raises:
        RefusedError: It is not in delivery, or cannot be settled in this way.
    """
    headers = frame.block.headers if frame.block is not None else {}
    _require_named(headers, subscription)
    if frame.negative and subscription.browser is not None:
        raise DestinationError("who looks through a queue (browser:true) cannot reject a message")
    holdings = session.holdings
    transaction = None
    if "transaction" in headers:
        transaction = holdings.transactions.get(headers["transaction"])
    if frame.negative:
        if transaction is not None:
            raise TransactionError("NACK cannot be part of a transaction; use it outside")
        holdings.reject(session, subscription, key, frame.receipt, read_rejection(headers))
    elif transaction is None:
        holdings.acknowledge(subscription, key, session, frame.receipt, exact=exact)
    else:
        holdings.acknowledge_within(
            session, transaction, subscription, key, frame.receipt, exact=exact
        )


def settle_overdue(
    session: ClientSession, frame: AcknowledgeFrame, subscription: Subscription, key: int
) -> None:
    """
    Settle a delivery of a consumer from which others were taken that it had for too long.

    What was taken is acknowledged late, as far as nobody else has it meanwhile.

    Raises:
        RefusedError: It is not in delivery and cannot be settled late, or not in this way.
    """
    assert subscription.overdue is not None, "something was taken"
    if key not in subscription.overdue or (not frame.negative and _cumulates(subscription, key)):
        settle(session, frame, subscription, key)
        return
    session.holdings.has_lost(subscription, key)
    headers = frame.block.headers if frame.block is not None else {}
    _require_named(headers, subscription)
    if frame.negative:
        raise not_in_delivery(key)
    transaction = None
    if "transaction" in headers:
        transaction = session.holdings.transactions.get(headers["transaction"])
    number = subscription.queue_number
    session.holdings.acknowledge_late(session, number, key, frame.receipt, transaction)


def acknowledge_identity(
    session: ClientSession, frame: AcknowledgeFrame, *, is_late_only: bool
) -> None:
    """
    Settle a message by its message id, as STOMP before 1.2 does and late acknowledgements do.

    In STOMP 1.2 only late ones have this form (`is_late_only`), so that they mean exactly this
    message: what stands before it may be new to the client.

    Raises:
        RefusedError: It was not delivered to this client as far as can be known, or cannot be
            settled in this way.
    """
    context, holdings = session.context, session.holdings
    identity = read_identity(frame.id, context.cluster)
    if identity is None:
        raise unknown_name(frame.id)
    number, key, term = identity
    headers = frame.block.headers if frame.block is not None else {}
    wanted = _named_subscription(session, headers, number, key)
    if term > context.term:
        raise unknown_name(frame.id)
    is_gone = key < 0 and term < context.term
    if not is_gone:
        parts = (it.part_of(number, key) for it in session.subscriptions.values())
        of_queue = [it for it in parts if it is not None]
        # What a consumer has is its own, though somebody may have been shown it as well.
        of_queue.sort(key=lambda it: it.browser is not None)
        was_taken = False
        for subscription in of_queue:
            is_meant = wanted in (None, subscription, subscription.bundle)
            is_held = not (frame.negative or is_late_only) and _cumulates(subscription, key)
            was_taken |= not is_held and holdings.has_lost(subscription, key)
            if is_meant and (is_held or key in subscription.unacknowledged):
                settle(session, frame, subscription, key, exact=is_late_only)
                return
        # Who only looks takes nothing, however often it says that it has seen something. Without
        # the name of a consumer it may be what was shown here, to one that has gone perhaps.
        may_be_shown = holdings.has_browsed if wanted is None else wanted.browser is not None
        if frame.negative or (may_be_shown and not was_taken and not is_late_only):
            raise unknown_name(frame.id)
    transaction = None
    if "transaction" in headers:
        transaction = holdings.transactions.get(headers["transaction"])
    if not is_gone:
        holdings.acknowledge_late(session, number, key, frame.receipt, transaction)
    elif frame.receipt is not None:
        session.reply(frame.receipt)


def _cumulates(subscription: Subscription, key: int) -> bool:
    """Whether a delivery whose queue is gone stands before and behind others that are there."""
    return isinstance(subscription, Strand) and key in subscription.lapsed


def _require_named(headers: dict[str, str], subscription: Subscription) -> None:
    """Refuse a word about a delivery that names another subscription than it was made on."""
    named = headers.get("subscription")
    if named and named != subscription.id:
        raise UnknownDeliveryError(f"this delivery was not made on subscription {named[:80]!r}")


def _named_subscription(
    session: ClientSession, headers: dict[str, str], queue_number: int, key: int
) -> Subscription | None:
    """
    Give the subscription that an acknowledgement by message id names, None if it names none.

    Raises:
        UnknownDeliveryError: There is no such subscription here, or it is of another queue.
    """
    named = headers.get("subscription")
    if not named:
        return None
    found = session.subscriptions.get(named)
    if found is None or found.part_of(queue_number, key) is None:
        raise UnknownDeliveryError(
            f"subscription {named[:80]!r} of this connection has no such message"
        )
    return found
