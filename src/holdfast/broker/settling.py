"""
Deliveries that end: acknowledged, in their connection or late, rejected, given back, withheld.

What is rejected goes to its dead-letter queue by one record, without its bytes. Where that cannot
be (the log has not reached the level; the cleaner is just there; only memory has the message) it is
stored there once more and settled here in one batch, so in one log entry. In both ways a message is
on one of the two queues, whatever happens.

Invariants:
    A key leaves its subscription's window before anybody else may have it.
    What is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.broker.committing import Committing
from holdfast.broker.destinations import Destinations
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moved import facts_elsewhere
from holdfast.broker.moving import Moving
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.broker.routing import Routing
from holdfast.broker.sending import Sending
from holdfast.broker.serving import late
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.bundle import Strand
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.dead_letters import once_volatile, with_origin
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.suspects import is_awaited
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import UnknownDeliveryError
from holdfast.model.facts import Cause, MessageFacts, Origin, Place
from holdfast.model.format_level import FACTS_LEVEL
from holdfast.model.records import DeadLetterRecord, MessageRecord


class _Nobody:
    """Waits for nothing."""

    def reply(self, receipt: bytes) -> None:
        """Do nothing with it."""


class Settling:
    """Ends deliveries."""

    __slots__ = (
        "_committing",
        "_destinations",
        "_moving",
        "_policies",
        "_receipts",
        "_routing",
        "_sending",
        "_settings",
        "_state",
        "advising",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        routing: Routing,
        sending: Sending,
        committing: Committing,
        policies: PolicyBook,
        moving: Moving,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._routing = routing
        self._sending = sending
        self._committing = committing
        self._policies = policies
        self._moving = moving
        self.advising: Advises = SILENCE

    def acknowledge(
        self,
        subscription: Subscription,
        key: int,
        replier: Replier,
        receipt: bytes | None,
        *,
        exact: bool = False,
    ) -> int:
        """
        Settle a delivery, and with mode `client`, unless `exact`, all before it; give how many.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
        """
        count = 0
        queue = subscription.queue
        if subscription.mode is AcknowledgeMode.INDIVIDUAL:
            try:
                del subscription.unacknowledged[key]
            except KeyError:
                raise late.not_in_delivery(key) from None
            if queue is not None:
                self.settle(queue, key)
        elif isinstance(subscription, Strand) and not exact:
            return self._acknowledge_through(subscription, key, replier, receipt)
        else:
            keys = late.settled_by(subscription, key, exact=exact)
            count = len(keys)
            for each in keys:
                del subscription.unacknowledged[each]
            if queue is None:
                pass  # A topic keeps nothing of it.
            elif count <= self._settings.step_count_max:
                for each in keys:
                    self.settle(queue, each)
            else:
                self._committing.settle_all(queue, keys)
        if receipt is not None:
            self._receipts.reply_after_pending(replier, receipt)
        # Who owns groups may have had no room while it stood in its ring.
        # Who stands there may be one for whom something waits that is to be sent alone.
        if (
            not subscription.is_ready
            or subscription.groups is not None
            or (queue is not None and queue.suspect_after and is_awaited(queue, subscription))
        ):
            self._routing.refill(subscription)
        return count

    def _acknowledge_through(
        self, strand: Strand, key: int, replier: Replier, receipt: bytes | None
    ) -> int:
        """Settle all that a subscription to several queues was delivered until this one."""
        count = 0
        for each, keys in late.settled_over(strand, key, exact=False):
            count += len(keys) + 1
            for held in keys:
                del each.unacknowledged[held]
            if each.queue is not None:
                self._committing.settle_all(each.queue, keys)
            self._routing.refill(each)
        if receipt is not None:
            self._receipts.reply_after_pending(replier, receipt)
        return count

    def settle(self, queue: Queue, key: int) -> None:
        """Note that a message is done with."""
        if key > 0:
            receipts = self._receipts
            if not queue.acknowledged:
                receipts.acknowledged_queues.append(queue)
            queue.acknowledged.append(key)
            receipts.batch.settled_count += 1
        else:
            self._destinations.settle_transient(queue, key)
            if self.advising.is_heard:
                self.advising.consumed(queue, (key,))

    def acknowledge_identity(
        self,
        queue_number: int,
        key: int,
        replier: Replier,
        receipt: bytes | None,
        client: str = "",
    ) -> None:
        """
        Settle exactly one message by its identity: an acknowledgement that outlived its connection.

        Succeeds also if the message is settled already.

        Raises:
            UnknownDeliveryError: It was never delivered, somebody else has it or had it last.
        """
        queue = self._queue_of_late(queue_number, key, client)
        if queue is not None:
            if key > 0:
                # Also if it is withheld already: as damaged, it would come back once repaired.
                queue.custody.settle_late(key)
            self.settle(queue, key)
        if receipt is not None:
            self._receipts.reply_after_pending(replier, receipt)

    def hold_identity(
        self, transaction: Transaction, queue_number: int, key: int, client: str = ""
    ) -> None:
        """
        Hold an acknowledgement by identity until its transaction commits; nobody gets it meanwhile.

        Raises:
            UnknownDeliveryError: It was never delivered, somebody else has it or had it last.
            TransactionError: The transaction grew over its limits.
        """
        queue = self._queue_of_late(queue_number, key, client)
        if queue is not None:
            transaction.add_late(queue, key)

    def _queue_of_late(self, queue_number: int, key: int, client: str) -> Queue | None:
        """
        Do what `find_late` does; what is on its way to the log is settled, whoever may have it.

        A COMMIT keeps what it has settled reserved for a while. What is settled late, or moved, is
        withheld: a transaction that is rolled back must not give it to anybody.

        Raises:
            UnknownDeliveryError: As `find_late`.
        """
        leadership = self._destinations.leadership
        try:
            queue = late.find_late(self._state, leadership, queue_number, key, client)
        except UnknownDeliveryError:
            if self._is_leaving(queue_number, key):
                return None
            raise
        is_over = queue is not None and queue.is_withheld(key)
        return None if is_over and self._is_leaving(queue_number, key) else queue

    def _is_leaving(self, queue_number: int, key: int) -> bool:
        """Whether what settles a message, or moves it, is on its way to the log."""
        return bool(self._receipts.settling({queue_number: {key}}).get(queue_number))

    def reject(
        self,
        subscription: Subscription,
        key: int,
        record: MessageRecord | TransientMessage | None,
        replier: Replier,
        receipt: bytes | None,
        message_id: str = "",
        cause: Cause = Cause.REJECTED,
    ) -> None:
        """
        Move a delivery to its dead-letter queue, or let it be nowhere where that is the policy.

        Args:
            record: Brings its content where `needs_content` asks for it; if it does and there is
                none, there is nothing to keep.
            message_id: Its id, where there is a record.
            cause: Why it is dead.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
            DestinationError: There are too many queues to declare the dead-letter queue; the
                message stays in delivery.
        """
        if key not in subscription.unacknowledged:
            raise late.not_in_delivery(key)
        queue = subscription.queue
        if queue is not None:
            self._move(queue, key, record, replier, Origin(cause, queue.name, message_id))
        del subscription.unacknowledged[key]
        if receipt is not None:
            self._receipts.reply_after_pending(replier, receipt)
        self._routing.refill(subscription)

    def needs_content(self, queue: Queue, key: int) -> bool:
        """Whether a message must be stored once more to be a dead letter: it cannot be moved."""
        policy = self._policies.of(queue)
        if not policy.dead_letter_places or (key > 0 and queue.has_ended(key)):
            return False
        return policy.keeps_volatile if key < 0 else not self._is_movable(queue, key)

    def _is_movable(self, queue: Queue, key: int) -> bool:
        if key < 0 or queue.has_ended(key) or not self._moving.is_possible:
            return False
        return not self._moving.is_closed(queue, key)

    def _move(
        self,
        queue: Queue,
        key: int,
        record: MessageRecord | TransientMessage | None,
        replier: Replier,
        origin: Origin,
    ) -> None:
        """Let a message stand on the dead-letter queue, and on its own no more, by one entry."""
        policy = self._policies.of(queue)
        keeps = policy.keeps_dead_letters
        assert not keeps or (key < 0 and record is None), "it goes back instead"
        places = self._policies.burial_places(queue)
        if self._is_movable(queue, key):
            self.bury(queue, places, [key], origin.cause, self._sending.now_microseconds // 1000)
            return
        self._store_elsewhere(queue, key, record if places else None, replier, origin)

    def bury(
        self,
        queue: Queue,
        places: Sequence[str],
        sequences: Sequence[int],
        cause: Cause,
        moved_at: int,
    ) -> None:
        """
        Let stored messages of a queue, in order, be dead letters on those of some names, or gone.

        Args:
            places: As policies give them for the queue; none: they are nowhere any more.
            moved_at: Now, in milliseconds.

        Raises:
            DestinationError: There are too many queues to declare them.
        """
        targets = self._burial_queues(places)
        lifetime_ms = self._policies.of(queue).lifetimes.dead_ms
        self._moving.take(
            queue, targets, sequences, cause, moved_at=moved_at, lifetime_ms=lifetime_ms
        )
        self._receipts.batch.dead_letter_count += len(sequences) * bool(targets)
        if self.advising.listeners:
            self.advising.died(queue, sequences, cause, is_buried=bool(targets))

    def _burial_queues(self, places: Sequence[str]) -> list[Queue]:
        """
        Give the queues of these names, where dead letters go: all of them, or none is declared.

        Raises:
            DestinationError: They cannot all be declared.
        """
        if len(places) > 1:
            self._destinations.require_place(places)
        return [self._destinations.queue(each) for each in places]

    def _store_elsewhere(
        self,
        queue: Queue,
        key: int,
        record: MessageRecord | TransientMessage | None,
        replier: Replier,
        origin: Origin,
    ) -> None:
        """Store a message on the dead-letter queue, if there is a record, and settle it here."""
        receipts = self._receipts
        if key < 0 and record is not None and not receipts.is_storable(record.size):
            record = None  # It lives in memory only: better without it than without the lease.
        size = record.size if record is not None else 0
        if not receipts.batch.has_room(size, self._settings.batch_bytes_max):
            receipts.close_batch()  # Many small frames can move many large messages.
        with self._sending.all_or_nothing():
            if record is not None:
                self._send_dead_letter(queue, record, replier, origin)
            if key > 0:
                settled = DeadLetterRecord(queue.number, [key])
                receipts.record(queue.acknowledgement([key]) if queue.topic_number else settled)
        receipts.batch.dead_letter_count += record is not None
        if key < 0:
            self._destinations.settle_transient(queue, key)
        if self.advising.listeners:
            self.advising.died(queue, (key,), origin.cause, is_buried=record is not None)

    def store_dead(self, queue: Queue, message: TransientMessage, origin: Origin) -> None:
        """
        Store a non-persistent message as a dead letter, if the store takes as much now.

        Raises:
            DestinationError: There are too many queues to declare the dead-letter queue.
        """
        receipts = self._receipts
        is_buried = receipts.is_storable(message.size)
        if is_buried:
            if not receipts.batch.has_room(message.size, self._settings.batch_bytes_max):
                receipts.close_batch()
            with self._sending.all_or_nothing():
                self._send_dead_letter(queue, message, _Nobody(), origin)
            receipts.batch.dead_letter_count += 1
        if self.advising.listeners:
            self.advising.died(queue, (message.key,), origin.cause, is_buried=is_buried)

    def _send_dead_letter(
        self,
        queue: Queue,
        record: MessageRecord | TransientMessage,
        replier: Replier,
        origin: Origin,
    ) -> None:
        assert record.headers is not None and record.body is not None
        headers = record.headers
        if isinstance(record, TransientMessage):
            headers = once_volatile(headers)
        first, *others = self._burial_queues(self._policies.burial_places(queue))
        if self._state.format_level < FACTS_LEVEL:
            assert not others, "policies are of a later level"
            headers = with_origin(headers, MessageFacts(origin=origin))
            self._sending.send(first, headers, record.body, replier, None)
            return
        receipts = self._receipts
        place = len(receipts.batch.records)
        self._sending.send(first, headers, record.body, replier, None)
        sent = receipts.batch.records[place]
        assert type(sent) is MessageRecord
        lifetime_ms = self._policies.of(queue).lifetimes.dead_ms
        expires_ms = self._sending.now_microseconds // 1000 + lifetime_ms if lifetime_ms else 0
        facts = facts_elsewhere(record.facts, origin, expires_ms=expires_ms)
        # Stored once, however many queues it stands on.
        places = tuple([Place(each.number, self._moving.assign(each, 1)) for each in others])
        sent.facts = facts = replace(facts, places=places)
        first.leadership.filling[first] = None
        receipts.batch.size_bytes += facts.size
        receipts.uncommitted_bytes += facts.size

    def put_back(self, subscription: Subscription, key: int) -> None:
        """Give back a delivery to a queue whose consumer rejects it, and which cannot go on."""
        queue = subscription.queue
        assert queue is not None, "only queues keep messages"
        del subscription.unacknowledged[key]
        queue.give_back([key], redelivered=True, client=subscription.client)
        queue.touch()
        self._routing.refill(subscription)

    def withhold(self, subscription: Subscription, key: int) -> None:
        """Take back a delivery that could not be read, just dispatched and not sent."""
        queue = subscription.queue
        assert queue is not None, "only queues keep messages"
        subscription.unacknowledged.pop(key, None)
        if key in queue.acknowledged:
            queue.acknowledged.remove(key)  # Settled as it was dispatched, to one that never does.
        queue.custody.spoil(key)
        if queue.grouping is not None:
            queue.grouping.forget([key])  # Its group need not wait until it can be read.
        self._routing.refill(subscription)
