"""
The broker: what clients and operators may ask, and what comes of it.

It has two halves (design.md 2). The lasting half is `state`, changed only by `apply_*`, the same on
every node. The other half exists on the leader only: it checks requests against the present state,
turns what must last into records of the gathering batch, and keeps subscriptions and deliveries.

Every method returns at once and touches nothing outside. Time is an argument where it matters.

Order: a batch is taken, made durable, committed and given back to `apply_batch`; only then does the
caller release the batch's replies. Deliveries name applied messages only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.broker.dispatch import dispatch, make_ready
from holdfast.broker.outputs import Batch, Replier
from holdfast.broker.producers import Verdict
from holdfast.broker.queue import Queue, TransientMessage
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.state import BrokerState
from holdfast.broker.subscription import AcknowledgeMode, Receiver, Subscription
from holdfast.broker.topic import Delivery, Topic
from holdfast.broker.transactions import Transaction
from holdfast.errors import DestinationError, TransactionError, UnknownDeliveryError
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""Stored header lines are escaped as in STOMP 1.2."""


class Broker:
    """One broker of a cluster, leader or not."""

    def __init__(self, settings: BrokerSettings, state: BrokerState | None = None) -> None:
        self.settings = settings
        self.state = state or BrokerState(settings)
        self.topics: dict[str, Topic] = {}
        self.temporary_queues: dict[str, Queue] = {}
        self.temporary_topics: dict[str, Topic] = {}
        self.batch = Batch()
        self.in_flight: deque[Batch] = deque()
        """Batches taken and not yet applied, oldest first."""
        self.uncommitted_bytes = 0
        self.held_bytes = 0
        """Content held by open transactions."""
        self.acknowledged_queues: list[Queue] = []
        self.deliveries: list[Delivery] = []
        self.unblocked_topics: list[Topic] = []
        self.next_queue_number = 0
        self.serial = 0
        self.now_microseconds = 0
        """Wall-clock time; set once per turn by whoever conducts."""
        self.is_leading = False

    # ---- the two roles

    def lead(self) -> None:
        """Begin to serve: forget what a former leadership left, start from the lasting state."""
        self.follow()
        self.is_leading = True
        self.next_queue_number = self.state.next_queue_number

    def follow(self) -> None:
        """Stop serving: everything that is not lasting is dropped, nothing has to be undone."""
        self.is_leading = False
        self.batch = Batch()
        self.in_flight.clear()
        self.uncommitted_bytes = 0
        self.held_bytes = 0
        self.acknowledged_queues.clear()
        self.deliveries.clear()
        self.topics.clear()
        self.temporary_queues.clear()
        self.temporary_topics.clear()
        state = self.state
        state.touched.clear()
        state.plans.clear()
        state.memory_bytes = 0
        state.producers.forget_leadership()
        state.by_name = {queue.name: queue for queue in state.queues.values() if queue.is_declared}
        for queue in state.queues.values():
            queue.forget_leadership(self.settings.dispatch_mark_step_min)

    def begin_anew(self) -> None:
        """Drop all state: the log it came from was replaced by a leader's."""
        self.state = BrokerState(self.settings)
        self.follow()

    # ---- destinations

    def queue(self, name: str) -> Queue:
        """
        Give the queue of this name, declaring it if it is new.

        Raises:
            DestinationError: There are too many queues already.
        """
        found = self.state.by_name.get(name)
        if found is not None and not found.is_deleted:
            return found
        _require_room(len(self.state.by_name), self.settings.queue_count_max, "queues")
        queue = Queue(self.next_queue_number, name)
        queue.mark_step = self.settings.dispatch_mark_step_min
        self.next_queue_number += 1
        self.state.by_name[name] = self.state.plans[queue.number] = queue
        queue.asked_mark = queue.mark_step
        self._record(QueueRecord(queue.number, name, 1, queue.asked_mark))
        return queue

    def topic(self, name: str) -> Topic:
        """
        Give the topic of this name; a topic exists while somebody asks for it.

        Raises:
            DestinationError: There are too many topics with subscribers already.
        """
        topic = self.topics.get(name)
        if topic is None:
            if len(self.topics) >= self.settings.topic_count_max:
                self._forget_idle_topics()
            _require_room(len(self.topics), self.settings.topic_count_max, "topics")
            topic = self.topics[name] = Topic(name)
        return topic

    def _forget_idle_topics(self) -> None:
        for name, topic in list(self.topics.items()):
            if not topic.subscriptions:
                topic.is_deleted = True
                del self.topics[name]

    def temporary_queue(self, name: str, owner: object | None = None) -> Queue:
        """
        Give a temporary queue by its full name; `owner` makes it if it is not there.

        Raises:
            DestinationError: It does not exist, or its connection is gone.
        """
        queue = self.temporary_queues.get(name)
        if queue is None:
            if owner is None:
                raise DestinationError(f"temporary queue {name!r} does not exist any more")
            count_max = self.settings.temporary_count_max
            _require_room(len(self.temporary_queues), count_max, "temporary queues")
            queue = self.temporary_queues[name] = Queue(0, name)
            queue.is_temporary = True
            queue.owner = owner
        return queue

    def temporary_topic(self, name: str, owner: object | None = None) -> Topic:
        """
        Give a temporary topic by its full name; `owner` makes it if it is not there.

        Raises:
            DestinationError: It does not exist, or its connection is gone.
        """
        topic = self.temporary_topics.get(name)
        if topic is None:
            if owner is None:
                raise DestinationError(f"temporary topic {name!r} does not exist any more")
            count_max = self.settings.temporary_count_max
            _require_room(len(self.temporary_topics), count_max, "temporary topics")
            topic = self.temporary_topics[name] = Topic(name)
            topic.is_temporary = True
            topic.owner = owner
        return topic

    def drop_temporary(self, owner: object) -> None:
        """Remove the temporary destinations of a connection that is gone."""
        for name, queue in list(self.temporary_queues.items()):
            if queue.owner is owner:
                del self.temporary_queues[name]
                self._drop_transients(queue)
                queue.is_deleted = True
        for name, topic in list(self.temporary_topics.items()):
            if topic.owner is owner:
                del self.temporary_topics[name]
                topic.is_deleted = True

    def _drop_transients(self, queue: Queue) -> None:
        for key in list(queue.transients):
            self._settle_transient(queue, key)
        queue.waiting.clear()

    # ---- sending

    def send(
        self,
        queue: Queue,
        headers: bytes,
        body: bytes,
        replier: Replier,
        receipt: bytes | None,
        producer_id: str | None = None,
        producer_sequence: int = 0,
    ) -> None:
        """
        Put a persistent message on a queue; the reply waits until it is stored.

        Raises:
            SequenceGapError: The producer skipped a number.
        """
        if producer_id is not None and not self._is_new(
            producer_id, producer_sequence, replier, receipt
        ):
            return
        sequence = queue.assigned_sequence
        queue.assigned_sequence = sequence + 1
        size = len(headers) + len(body)
        batch = self.batch
        record = MessageRecord(
            queue.number, sequence, headers, body, size, producer_id, producer_sequence
        )
        record.stored_at = self.now_microseconds
        batch.records.append(record)
        batch.size_bytes += size + MESSAGE_OVERHEAD_BYTES
        self.uncommitted_bytes += size + MESSAGE_OVERHEAD_BYTES
        batch.is_urgent = True
        if receipt is not None:
            batch.replies.append((replier, receipt))
        if sequence + (queue.mark_step >> 1) > queue.asked_mark and queue.subscriptions:
            self._advance_mark(queue)

    def has_taken(self, producer_id: str | None, sequence: int) -> bool:
        """
        Tell whether a producer's number is stored or under way already; False without an id.

        A repetition of such a number stores nothing, so it must be confirmed even when the store
        takes nothing new: refused, its producer would take the message for one that is not stored.
        """
        return producer_id is not None and self.state.producers.has_taken(producer_id, sequence)

    def send_transient(self, queue: Queue, headers: bytes, body: bytes) -> None:
        """Put a non-persistent message on a queue: kept in memory only."""
        self.serial += 1
        message = TransientMessage(
            -self.serial, headers, body, queue.assigned_sequence - 1, self.now_microseconds
        )
        queue.transients[message.key] = message
        queue.waiting.append(message.key)
        queue.enqueued_total += 1
        self.state.memory_bytes += message.size + self.state.overhead
        self.state.touch(queue)

    def publish(self, topic: Topic, headers: bytes, body: bytes) -> None:
        """Hand a message to every live subscription of a topic."""
        self.serial += 1
        message = TransientMessage(-self.serial, headers, body, 0, self.now_microseconds)
        topic.publish(message, self.deliveries, self.settings.topic_pending_bytes_max)

    def _is_new(
        self, producer_id: str, sequence: int, replier: Replier, receipt: bytes | None
    ) -> bool:
        verdict = self.state.producers.check(producer_id, sequence)
        if verdict is Verdict.NEW:
            return True
        if receipt is not None:
            if verdict is Verdict.STORED:
                replier.reply(receipt)
            elif self.batch.records:
                self.batch.replies.append((replier, receipt))
            else:
                self.in_flight[-1].replies.append((replier, receipt))
        return False

    # ---- subscriptions

    def subscribe(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Add a consumer; dispatch to it begins with the next `dispatch`."""
        if isinstance(destination, Topic):
            subscription.topic = destination
            destination.subscriptions.append(subscription)
            return
        subscription.queue = destination
        destination.subscriptions.append(subscription)
        make_ready(subscription)
        self.state.touch(destination)

    def unsubscribe(self, subscription: Subscription) -> None:
        """
        Remove a consumer; what it holds goes back to the head of the queue.

        What an open transaction has acknowledged stays with the transaction until its end.
        """
        if subscription.topic is not None:
            if subscription.topic.close_subscription(subscription):
                self.unblocked_topics.append(subscription.topic)
        elif subscription.queue is not None:
            subscription.queue.close_subscription(subscription)
            self.state.touch(subscription.queue)

    def resume(self, receiver: Receiver) -> None:
        """Note that a connection has room again."""
        for subscription in receiver.subscriptions.values():
            topic = subscription.topic
            if topic is not None:
                if subscription.pending and topic.drain(subscription, self.deliveries):
                    self.unblocked_topics.append(topic)
            elif make_ready(subscription) and subscription.queue is not None:
                self.state.touch(subscription.queue)

    # ---- acknowledging

    def acknowledge(
        self,
        subscription: Subscription,
        key: int,
        replier: Replier,
        receipt: bytes | None,
        *,
        exact: bool = False,
    ) -> None:
        """
        Settle a delivery, and with mode `client`, unless `exact`, all before it.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
        """
        if subscription.mode is AcknowledgeMode.INDIVIDUAL:
            try:
                del subscription.unacknowledged[key]
            except KeyError:
                raise _unknown(key) from None
            self._settle(subscription.queue, key)
        else:
            for each in self.settled_by(subscription, key, exact=exact):
                del subscription.unacknowledged[each]
                self._settle(subscription.queue, each)
        if receipt is not None:
            self.reply_after_pending(replier, receipt)
        if not subscription.is_ready:
            self.refill(subscription)

    def settled_by(self, subscription: Subscription, key: int, *, exact: bool = False) -> list[int]:
        """
        Give the keys that an acknowledgement of `key` settles.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
        """
        if key not in subscription.unacknowledged:
            raise _unknown(key)
        if exact or subscription.mode is not AcknowledgeMode.CLIENT:
            return [key]
        keys = []
        for each in subscription.unacknowledged:
            keys.append(each)
            if each == key:
                break
        return keys

    def acknowledge_identity(
        self, queue_number: int, key: int, replier: Replier, receipt: bytes | None
    ) -> None:
        """
        Settle exactly one message by its identity: an acknowledgement that outlived its connection.

        Succeeds also if the message is gone already.
        """
        self._settle_identity(queue_number, key)
        if receipt is not None:
            self.reply_after_pending(replier, receipt)

    def has_transient(self, queue_number: int, key: int) -> bool:
        """Whether a non-persistent message is still on its queue."""
        queue = self.state.queues.get(queue_number)
        return queue is not None and key in queue.transients

    def _settle_identity(self, queue_number: int, key: int) -> None:
        queue = self.state.queues.get(queue_number)
        if queue is None:
            return
        for subscription in queue.subscriptions:
            if key in subscription.unacknowledged:  # Also if it was purged: it opens the window.
                del subscription.unacknowledged[key]
                self.refill(subscription)
        if not (key in queue.transients or queue.index.is_live(key)):
            return
        if key > 0:
            # Also if it is withheld already: as damaged, it would come back once repaired.
            queue.withheld.add(key)
        self._settle(queue, key)

    def reject(
        self,
        subscription: Subscription,
        key: int,
        record: MessageRecord | TransientMessage | None,
        replier: Replier,
        receipt: bytes | None,
    ) -> None:
        """
        Move a delivery to the dead-letter queue; `record` brings its content.

        Without a record it is only settled: the message is gone already, by a purge.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
        """
        if key not in subscription.unacknowledged:
            raise _unknown(key)
        del subscription.unacknowledged[key]
        queue = subscription.queue
        if queue is not None:
            if record is not None and queue.name != self.settings.dead_letter_queue:
                assert record.headers is not None and record.body is not None
                headers = b"%boriginal-destination:/queue/%b\n%b" % (
                    record.headers,
                    queue.name.translate(_ESCAPES).encode(),
                    b"dlqDeliveryFailureCause:rejected\n",
                )
                dead_letters = self.queue(self.settings.dead_letter_queue)
                self.send(dead_letters, headers, record.body, replier, None)
            if key > 0:
                self._record(DeadLetterRecord(queue.number, [key]))
            else:
                self._settle_transient(queue, key)
        if receipt is not None:
            self.reply_after_pending(replier, receipt)
        self.refill(subscription)

    def settled_automatically(self, queue: Queue, keys: list[int]) -> None:
        """Settle what went to consumers that never acknowledge."""
        for key in keys:
            self._settle(queue, key)

    def withhold(self, subscription: Subscription, key: int) -> None:
        """Take back a delivery that could not be read, just dispatched and not sent."""
        queue = subscription.queue
        assert queue is not None, "only queues keep messages"
        subscription.unacknowledged.pop(key, None)
        if subscription.mode is AcknowledgeMode.AUTO and key in queue.acknowledged:
            queue.acknowledged.remove(key)
        queue.withheld.add(key)
        self.refill(subscription)

    def refill(self, subscription: Subscription) -> None:
        """Let a subscription have more, now that its window opened."""
        if subscription.topic is not None:
            if subscription.pending and subscription.topic.drain(subscription, self.deliveries):
                self.unblocked_topics.append(subscription.topic)
        elif make_ready(subscription) and subscription.queue is not None:
            self.state.touch(subscription.queue)

    def _settle(self, queue: Queue | None, key: int) -> None:
        """Note that a message is done with; a topic (None) keeps nothing of it."""
        if queue is None:
            return
        if key > 0:
            if not queue.acknowledged:
                self.acknowledged_queues.append(queue)
            queue.acknowledged.append(key)
        else:
            self._settle_transient(queue, key)

    def _settle_transient(self, queue: Queue, key: int) -> None:
        message = queue.transients.pop(key, None)
        if message is not None:
            queue.acknowledged_total += 1
            queue.redelivered.discard(key)
            self.state.memory_bytes -= message.size + self.state.overhead

    def reply_after_pending(self, replier: Replier, receipt: bytes) -> None:
        """Reply once everything asked so far is stored; at once if nothing is under way."""
        if self.has_batch():
            self._reply_with_batch(replier, receipt)
        elif self.in_flight:
            self.in_flight[-1].replies.append((replier, receipt))
        else:
            replier.reply(receipt)

    def _reply_with_batch(self, replier: Replier, receipt: bytes) -> None:
        self.batch.replies.append((replier, receipt))
        self.batch.is_urgent = True

    # ---- transactions

    def hold(
        self,
        transaction: Transaction,
        destination: Queue | Topic,
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
    ) -> None:
        """
        Hold a send until its transaction commits.

        Raises:
            TransactionError: This transaction, or all of them together, grew over the limits.
        """
        size = len(headers) + len(body)
        if self.held_bytes + size > self.settings.transactions_bytes_max:
            raise TransactionError(
                f"open transactions hold {self.held_bytes:,} bytes;"
                f" at most {self.settings.transactions_bytes_max:,}; commit some first"
            )
        transaction.add_send(destination, headers, body, persistent=persistent)
        self.held_bytes += size

    def abort(self, transaction: Transaction) -> None:
        """
        Undo a transaction: what it acknowledged is in delivery again.

        What was delivered to a consumer that is gone meanwhile goes back to its queue.
        """
        self.held_bytes -= transaction.size_bytes
        for subscription, keys in transaction.undo():
            if subscription.queue is not None:
                subscription.queue.give_back(keys, redelivered=True)
                self.state.touch(subscription.queue)

    def commit(
        self,
        transaction: Transaction,
        replier: Replier,
        receipt: bytes | None,
        producer_id: str | None = None,
        producer_sequence: int = 0,
    ) -> None:
        """
        Put all of a transaction into the gathering batch: one log entry, all or nothing.

        With a producer id the whole transaction counts as one sequence number.

        Raises:
            SequenceGapError: The producer skipped a number; nothing was done.
        """
        if producer_id is not None and not self._is_new(
            producer_id, producer_sequence, replier, receipt
        ):
            self._settle_transaction(transaction)
            return
        for destination, headers, body, persistent in transaction.sends:
            if isinstance(destination, Queue) and not destination.is_temporary:
                # It may have been deleted since; a record for it would be lost.
                queue = self.queue(destination.name) if destination.is_deleted else destination
                if persistent:
                    self.send(queue, headers, body, replier, None)
                else:
                    self.batch.publications.append((queue, headers, body))
            else:
                self.batch.publications.append((destination, headers, body))
        if self.batch.publications:
            self.batch.is_urgent = True
        self._settle_transaction(transaction)
        if producer_id is not None:
            self._record(ProducerRecord(producer_id, producer_sequence))
        if receipt is not None:
            self.reply_after_pending(replier, receipt)

    def _settle_transaction(self, transaction: Transaction) -> None:
        self.held_bytes -= transaction.size_bytes
        for subscription, keys in transaction.settlements:
            for key in keys:
                self._settle(subscription.queue, key)
            self.refill(subscription)
        for queue_number, key in transaction.late:
            self._settle_identity(queue_number, key)

    # ---- what operators ask

    def keep_log(self, hold: HoldRecord, replier: Replier, receipt: bytes) -> None:
        """Keep the log for a named reader from an index on; index 0 ends that."""
        self._record(hold)
        self._reply_with_batch(replier, receipt)

    def purge(self, name: str, replier: Replier, receipt: bytes) -> int:
        """
        Remove every message now on a queue, also those in delivery; give their number.

        Raises:
            DestinationError: There is no such queue.
        """
        queue = self._existing(name)
        through = queue.assigned_sequence - 1
        removed = queue.index.live_count + len(queue.transients)
        self._drop_transients(queue)
        queue.returned.clear()
        queue.purging_through = through
        queue.cursor = max(queue.cursor, through + 1)
        self._record(PurgeRecord(queue.number, through))
        self._reply_with_batch(replier, receipt)
        return removed

    def delete(self, name: str, replier: Replier, receipt: bytes) -> int:
        """
        Remove a queue with its messages; give their number.

        Raises:
            DestinationError: There is no such queue, or somebody consumes from it.
        """
        queue = self._existing(name)
        if queue.subscriptions:
            raise DestinationError(
                f"queue {name!r} has {len(queue.subscriptions)} consumers; disconnect them first"
            )
        removed = queue.index.live_count + len(queue.transients)
        queue.is_deleted = True
        del self.state.by_name[name]
        self._drop_transients(queue)
        self._record(DeleteQueueRecord(queue.number))
        self._reply_with_batch(replier, receipt)
        return removed

    def _existing(self, name: str) -> Queue:
        queue = self.state.by_name.get(name)
        if queue is None or queue.is_deleted:
            raise DestinationError(f"there is no queue {name!r}")
        return queue

    # ---- batches

    def has_batch(self) -> bool:
        """Whether there is anything that must last."""
        batch = self.batch
        return bool(
            batch.records or self.acknowledged_queues or batch.replies or batch.publications
        )

    def take_batch(self) -> Batch:
        """Give what must last, to be made one log entry; it is in flight from now on."""
        batch = self.batch
        for queue in self.acknowledged_queues:
            if queue.acknowledged:
                batch.records.append(AcknowledgeRecord(queue.number, queue.acknowledged))
                queue.acknowledged = []
        self.acknowledged_queues.clear()
        self.batch = Batch()
        self.in_flight.append(batch)
        return batch

    def apply_batch(self, batch: Batch, first_record: int, timestamp: int) -> None:
        """Apply the oldest batch in flight: its entry is committed."""
        taken = self.in_flight.popleft()
        assert taken is batch, "batches are applied in the order they were taken"
        self.uncommitted_bytes -= batch.size_bytes
        self.state.apply(first_record, batch.records, timestamp)
        self.publish_after_commit(batch)

    def publish_after_commit(self, batch: Batch) -> None:
        """Let the non-persistent messages of a batch's transactions be seen."""
        for destination, headers, body in batch.publications:
            if isinstance(destination, Topic):
                self.publish(destination, headers, body)
            elif isinstance(destination, Queue) and not destination.is_deleted:
                self.send_transient(destination, headers, body)

    def apply_entry(self, first_record: int, records: Iterable[Record], timestamp: int) -> None:
        """Apply a committed entry that was not taken from this broker in this leadership."""
        self.state.apply(first_record, records, timestamp)

    def add_records(self, records: list[Record]) -> None:
        """Put records of the cleaner into the gathering batch."""
        for record in records:
            self._record(record)

    def _record(self, record: Record) -> None:
        size = getattr(record, "size", 0) + MESSAGE_OVERHEAD_BYTES
        self.batch.records.append(record)
        self.batch.size_bytes += size
        self.uncommitted_bytes += size
        self.batch.is_urgent = True

    # ---- dispatch

    def dispatch(self) -> list[Delivery]:
        """Assign what can be assigned now and give the deliveries to be made."""
        state = self.state
        while state.touched:
            queue = state.touched.pop()
            queue.is_touched = False
            if not queue.ready or queue.is_deleted:
                continue
            automatic: list[int] = []
            dispatch(queue, self.deliveries, automatic)
            if automatic:
                self.settled_automatically(queue, automatic)
            if queue.cursor + (queue.mark_step >> 1) > queue.asked_mark and queue.number:
                self._advance_mark(queue)
        deliveries = self.deliveries
        self.deliveries = []
        return deliveries

    def _advance_mark(self, queue: Queue) -> None:
        """Ask for a mark further ahead, in steps that double while a backlog is drained."""
        backlog = queue.assigned_sequence - queue.cursor > queue.mark_step
        if backlog:
            queue.mark_step = min(queue.mark_step * 2, self.settings.dispatch_mark_step_max)
        base = queue.cursor if backlog else queue.assigned_sequence
        mark = max(base, queue.dispatch_mark) + queue.mark_step
        if mark <= queue.asked_mark:
            return
        queue.asked_mark = mark
        self._record(DispatchMarkRecord(queue.number, mark))


def _require_room(count: int, count_max: int, what: str) -> None:
    if count >= count_max:
        raise DestinationError(f"there are {count:,} {what} already; at most {count_max:,}")


def _unknown(key: int) -> UnknownDeliveryError:
    return UnknownDeliveryError(
        f"message {key} is not in delivery on this subscription;"
        f" it was acknowledged before, or delivered to somebody else"
    )
