"""
Late acknowledgements: by message id, of a delivery whose connection is gone.

A consumer that has done its work says so again after a failover, by the only name that outlived its
connection. The name can be guessed, so the word counts for little: only for a message that may have
been delivered before and that nobody else has now. Where this leader knows by which client it was
given back, and that one can be known again, only that one's word counts; what was delivered under
former leaders may have been anybody's. Everything else is refused, as any acknowledgement is of
what was not delivered; what is settled already is fine.

Invariants:
    What was never delivered is never settled, and what somebody has is settled by nobody else.
    What a client that can be known again has given back is settled by no other client late.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.bundle import Strand
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import UnknownDeliveryError

_LOOKED_AT_MAX: Final = 1_000
"""So many subscriptions are asked whether they have a message."""


def find_late(
    state: BrokerState, leadership: Leadership, queue_number: int, key: int, client: str = ""
) -> Queue | None:
    """
    Give the queue from which a late acknowledgement takes `key`, None if it is settled already.

    Args:
        client: By what its client can be known again; empty: by nothing.

    Raises:
        UnknownDeliveryError: It was never delivered, or somebody else has it now or had it last.
    """
    queue = served(state, leadership, queue_number)
    if queue is None:
        if 0 < queue_number < state.next_queue_number:
            return None  # Deleted, with everything on it.
        raise _never_delivered(key)
    if key > 0 and _is_gone(queue, key):
        return None
    custody = queue.custody
    if key in custody.reserved:
        raise _in_a_transaction(key)
    for each in custody.returning:
        if key in each.unacknowledged:  # Whoever had it is gone, and it is just being given back.
            _require_same(key, each.client, client)
            return queue
    coming = None if custody.comebacks is None else custody.comebacks.under_way.find(key)
    if coming is not None:
        _require_same(key, coming.client, client)
        return queue
    if _is_at_hand(queue, key):
        if not queue.is_flagged(key):
            raise _never_delivered(key)
        _require_same(key, custody.had_by.find(key) or "", client)
        return queue
    if len(queue.subscriptions) > _LOOKED_AT_MAX:
        # To ask 200,000 takes 15 ms: `queue_of_late` finds out whether it is on its way instead.
        raise _with_somebody_else(key)
    if any(key in each.unacknowledged for each in queue.subscriptions):
        raise _with_somebody_else(key)
    if key <= 0:
        raise _never_delivered(key)  # It waits for its first consumer, or is gone.
    return None  # Below the cursor, and nobody has it: its acknowledgement is on its way.


def last_holder(state: BrokerState, leadership: Leadership, queue_number: int, key: int) -> str:
    """Give which client gave a message back last, if that can be known again; empty: unknown."""
    queue = served(state, leadership, queue_number)
    if queue is None:
        return ""
    custody = queue.custody
    for each in custody.returning:
        if key in each.unacknowledged:
            return each.client
    coming = None if custody.comebacks is None else custody.comebacks.under_way.find(key)
    return coming.client if coming is not None else custody.had_by.find(key) or ""


def served(state: BrokerState, leadership: Leadership, queue_number: int) -> Queue | None:
    """Give the serving half of a queue that the log has, made if nobody asked for it yet."""
    lasting = state.queues.get(queue_number)
    if lasting is None:
        return None
    return leadership.half_of(lasting) or leadership.serve(lasting)


def _is_gone(queue: Queue, key: int) -> bool:
    if key >= queue.lasting.next_sequence:
        raise _never_delivered(key)
    return queue.has_ended(key)


def _is_at_hand(queue: Queue, key: int) -> bool:
    """Whether nobody has it and it is to be dispatched, or was withheld."""
    return key in queue.custody.withheld or queue.choice.is_at_hand(key)


def _require_same(key: int, had_by: str, client: str) -> None:
    if had_by and had_by != client:
        raise UnknownDeliveryError(
            f"message {key} was delivered to another client; only that one may acknowledge it late"
        )


def _never_delivered(key: int) -> UnknownDeliveryError:
    return UnknownDeliveryError(f"message {key} was not delivered, so it cannot be acknowledged")


def _with_somebody_else(key: int) -> UnknownDeliveryError:
    return UnknownDeliveryError(
        f"message {key} was delivered to somebody else meanwhile; this acknowledgement is too late"
    )


def _in_a_transaction(key: int) -> UnknownDeliveryError:
    return UnknownDeliveryError(
        f"message {key} is acknowledged in a transaction that is not finished;"
        f" this acknowledgement is too late"
    )


def not_in_delivery(key: int) -> UnknownDeliveryError:
    """Say that an acknowledgement names nothing that its own subscription has."""
    return UnknownDeliveryError(
        f"message {key} is not in delivery on this subscription;"
        f" it was acknowledged before, or delivered to somebody else"
    )


def settled_by(subscription: Consumer, key: int, *, exact: bool = False) -> list[int]:
    """
    Give the keys that an acknowledgement of `key` settles, be it late or not.

    Raises:
        UnknownDeliveryError: It is not in delivery on this subscription.
    """
    if key not in subscription.unacknowledged:
        raise not_in_delivery(key)
    if exact or subscription.mode is not AcknowledgeMode.CLIENT:
        return [key]
    return [*takewhile(key.__ne__, subscription.unacknowledged), key]


def settled_over(
    subscription: Subscription, key: int, *, exact: bool
) -> list[tuple[Subscription, list[int]]]:
    """
    Give what an acknowledgement of `key` settles, by the parts of its subscription.

    It answers, too, for what was delivered until then of queues that are gone.

    Raises:
        UnknownDeliveryError: It is not in delivery on this subscription.
    """
    cumulates = subscription.mode is AcknowledgeMode.CLIENT and not exact
    if not (cumulates and isinstance(subscription, Strand)):
        return [(subscription, settled_by(subscription, key, exact=exact))]
    if key not in subscription.unacknowledged and key not in subscription.lapsed:
        raise not_in_delivery(key)
    settled = subscription.whole.settled_by(subscription, key)
    subscription.answer_through(key)
    return settled
