"""
The broker: what clients and operators may ask, and what comes of it.

It has two halves. The lasting half is `state`, changed only by `apply_*`, the same on
every node. The other half exists on the leader only: it checks requests against the present state,
turns what must last into records of the gathering batch, and keeps subscriptions and deliveries.

Every method returns at once and touches nothing outside. Time is an argument where it matters.

Order: a batch is taken, made durable, committed and applied to the state; `applied` is told, and
only then does the caller release the batch's replies. Deliveries name applied messages only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from holdfast.broker.errands import Errands, IsSpent
from holdfast.broker.lasting.producers import Verdict
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.operating import delete, purge
from holdfast.broker.outputs import Batch, Publisher, Replier, size_of
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.committing import commit, publish_after_commit, settle_all
from holdfast.broker.serving.dispatch import dispatch, make_ready, next_mark
from holdfast.broker.serving.finished_producers import FinishedProducers
from holdfast.broker.serving.late import not_in_delivery, queue_of_late, settled_by
from holdfast.broker.serving.leadership import forget_leadership
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.queue import Queue, TransientMessage
from holdfast.broker.serving.rejecting import put_back, reject, withhold
from holdfast.broker.serving.subscription import AcknowledgeMode, Receiver, Subscription
from holdfast.broker.serving.temporaries import Temporaries, require_room
from holdfast.broker.serving.topic import Delivery, IdleTopics, Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import TransactionError
from holdfast.model.numbering import FIRST_TERM, Numbering
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    DispatchMarkRecord,
    HoldRecord,
    MessageRecord,
    QueueRecord,
    Record,
)


class Broker:
    """One broker of a cluster, leader or not."""

    def __init__(self, settings: BrokerSettings, state: BrokerState | None = None) -> None:
        self.settings = settings
        self.state = state or BrokerState(settings)
        self.topics: dict[str, Topic] = {}
        self.idle_topics = IdleTopics()
        self.temporaries = Temporaries(settings.temporary_count_max)
        self.receipts = Receipts()
        self.held_bytes = 0
        """What open transactions hold, with what a message costs beside its content."""
        self.subscription_count = self.subscription_bytes = 0
        """Of all connections."""
        self.publishing = Publishing(settings)
        self._is_queues_turn = False
        """The last dispatch was left off among topics' deliveries."""
        self.errands = Errands()
        """Long work for clients; it ends with the leadership."""
        self.finished = FinishedProducers(self)
        self.broken: list[tuple[Queue | Topic, Exception]] = []
        """Destinations whose work failed by a mistake of ours; whoever conducts renews them."""
        self.duplicates_total = 0
        """Sends that were taken before and only confirmed again, of all leaderships of this
        process."""
        self.next_queue_number = 0
        self.numbering = Numbering()
        """Where each queue's numbers begin under this leader."""
        self.serial = 0
        self.now_microseconds = 0
        """Wall-clock time; set once per turn by whoever conducts."""
        self.is_leading = False
        self.is_prepared = False
        """Whether the errand that `lead` waits for is begun, or done."""

    def prepare(self, numbering: Numbering = Numbering()) -> None:  # noqa: B008 - a value
        """Begin to get ready to lead: with very many queues that is an errand of many steps."""
        self.numbering = numbering
        self.follow()
        self.is_prepared = True

    def lead(self, numbering: Numbering = Numbering()) -> None:  # noqa: B008 - a value
        """Begin to serve, from lasting state; each leader has queues' numbers of its own."""
        if not self.is_prepared or self.numbering != numbering:
            self.prepare(numbering)
        self.errands.finish()
        self.is_leading = True
        self.is_prepared = False
        self.next_queue_number = self.state.next_queue_number

    def follow(self) -> None:
        """Stop serving: everything that is not lasting is dropped, nothing has to be undone."""
        self.is_leading = self.is_prepared = False
        discards = self.state.discards
        discards.forget_leadership()
        discards.add(*self.receipts.clear())
        discards.add(*self.publishing.clear(), self.topics)
        self.state.volatile_bytes = 0
        self.held_bytes = 0
        self.subscription_count = self.subscription_bytes = 0
        self.broken.clear()
        self.errands.clear()
        self.finished.clear()
        self.topics = {}
        self.idle_topics.clear()
        temporary = list(self.temporaries.queues.values())
        self.temporaries = Temporaries(self.settings.temporary_count_max)
        self.errands.begin(forget_leadership(self.state, temporary, self.numbering))

    def begin_anew(self) -> None:
        """Drop all state: the log it came from was replaced by a leader's."""
        old, self.state = self.state, BrokerState(self.settings)
        self.state.producers.forgotten_count = old.producers.forgotten_count
        self.state.discards.add_later(old.piles())
        self.temporaries = Temporaries(self.settings.temporary_count_max)
        self.follow()

    def queue(self, name: str) -> Queue:
        """
        Give the queue of this name, declaring it if it is new.

        Raises:
            DestinationError: There are too many queues already.
        """
        found = self.state.by_name.get(name)
        if found is not None and not found.is_deleted:
            return found
        require_room(len(self.state.by_name), self.settings.queue_count_max, "queues")
        queue = Queue(self.next_queue_number, name)
        queue.forget_leadership(self.settings.dispatch_mark_step_min, self.numbering)
        self.next_queue_number += 1
        queue.asked_mark = queue.newest_before + queue.mark_step
        # First: a queue that is known and not declared would lose its messages at a restart.
        self.receipts.record(
            QueueRecord(queue.number, name, queue.assigned_sequence, queue.asked_mark)
        )
        self.state.by_name[name] = self.state.plans[queue.number] = queue
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
                self.idle_topics.forget_one(self.topics)
            require_room(len(self.topics), self.settings.topic_count_max, "topics")
            topic = self.topics[name] = Topic(name)
            self.idle_topics.add(topic)
        return topic

    def drop_temporary(self, owner: object) -> Iterator[None]:
        """Remove the temporary destinations of a connection that is gone, in short steps."""
        for count, queue in enumerate(self.temporaries.drop(owner), 1):
            if queue is not None:
                self.empty(queue)
            if not count % self.settings.step_count_max:
                yield

    def empty(self, queue: Queue) -> None:
        """Take away what the leader alone has of a queue's messages; it is let go of in steps."""
        messages, known = queue.empty()
        queue.acknowledged_total += len(messages)
        self.state.acknowledged_total += len(messages)
        self.state.discards.add_volatile(messages)
        self.state.discards.add(*known)

    def let_go(self, is_spent: IsSpent) -> None:
        """Free some of the memory of what is gone; at least one step."""
        self.state.let_go(is_spent)

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
        if producer_id is not None:
            verdict = self.state.producers.check(producer_id, producer_sequence)
            if verdict is not Verdict.NEW:
                self.duplicates_total += 1
                if receipt is None:
                    pass
                elif verdict is Verdict.STORED:
                    self.receipts.reply_stored(replier, receipt)
                else:
                    self.receipts.reply_after_pending(replier, receipt)
                return
        sequence = queue.assigned_sequence
        queue.assigned_sequence = sequence + 1
        size = len(headers) + len(body)
        receipts = self.receipts
        batch = receipts.batch
        record = MessageRecord(
            queue.number, sequence, headers, body, size, producer_id, producer_sequence
        )
        record.stored_at = self.now_microseconds
        batch.records.append(record)
        batch.size_bytes += size + MESSAGE_OVERHEAD_BYTES
        receipts.uncommitted_bytes += size + MESSAGE_OVERHEAD_BYTES
        batch.is_urgent = True
        if receipt is not None:
            batch.replies.append((replier, receipt))
        if sequence + (queue.mark_step >> 1) > queue.asked_mark and queue.subscriptions:
            self.advance_mark(queue)

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
        key = -self.serial
        # As `newest_under_way` says it, without a call for each message.
        order = queue.assigned_sequence - 1
        if order <= queue.newest_before:
            order = queue.next_sequence - 1
        message = TransientMessage(key, headers, body, order, self.now_microseconds)
        queue.transients[key] = message
        queue.waiting.append(key)
        queue.enqueued_total += 1
        queue.transient_bytes += message.size
        state = self.state
        state.enqueued_total += 1
        state.volatile_bytes += message.size + state.overhead
        if not queue.is_touched:
            state.touch(queue)

    def has_room(self, destination: Queue | Topic) -> bool:
        """Whether one more non-persistent message may go to a destination now."""
        if type(destination) is Topic:
            return not destination.blocked_by and self.publishing.has_room
        return self.state.volatile_bytes <= self.settings.memory_bytes

    def publish(self, topic: Topic, headers: bytes, body: bytes) -> None:
        """Hand a message to every live subscription of a topic."""
        self.publishing.publish(topic, self.topic_message(headers, body))

    def topic_message(self, headers: bytes, body: bytes) -> TransientMessage:
        """Give a message as topics hand it out, with a key of its own."""
        self.serial += 1
        return TransientMessage(-self.serial, headers, body, 0, self.now_microseconds)

    def subscribe(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Add a consumer; dispatch to it begins with the next `dispatch`."""
        self.subscription_count += 1
        self.subscription_bytes += subscription.cost_bytes
        if isinstance(destination, Topic):
            destination.add_subscription(subscription)
            self.idle_topics.remove(destination)
            return
        subscription.queue = destination
        destination.subscriptions[subscription] = None
        make_ready(subscription)
        self.state.touch(destination)

    def unsubscribe(self, subscription: Subscription) -> None:
        """
        Remove a consumer; what it holds goes back to the head of the queue.

        What an open transaction has acknowledged stays with the transaction until its end. Where
        it holds much the queue waits until all of it is given back, in the old order.
        """
        self.subscription_count -= 1
        self.subscription_bytes -= subscription.cost_bytes
        if subscription.topic is not None:
            topic = subscription.topic
            self.publishing.close(topic, subscription)
            if not (topic.subscriptions or topic.is_temporary):
                self.idle_topics.add(topic)
        elif subscription.queue is not None:
            subscription.queue.close_subscription(subscription)
            self.errands.begin(self._give_back(subscription.queue, subscription))

    def _give_back(self, queue: Queue, subscription: Subscription) -> Iterator[None]:
        try:
            yield from queue.take_back(subscription, self.settings.step_count_max)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            self.broken.append((queue, error))
        self.state.touch(queue)

    def renew(self, queue: Queue, leaving: set[int]) -> list[Receiver]:
        """
        Build the leader's half of a queue anew from its lasting half; give who consumed from it.

        Their subscriptions are closed, and what they may have seen is flagged. Non-persistent
        messages of the queue are gone, as they are when the leader changes. `leaving` are the keys
        whose acknowledgement is on its way to the log.
        """
        receivers = list(dict.fromkeys(each.receiver for each in queue.subscriptions))
        self.empty(queue)
        contents, queue.cache = queue.cache, {}
        self.state.discards.add_contents(contents)
        queue.renew(leaving)
        return receivers

    def resume(self, receiver: Receiver) -> None:
        """Note that a connection has room again."""
        for subscription in receiver.subscriptions.values():
            topic = subscription.topic
            if topic is not None:
                self.publishing.drain(topic, subscription)
            elif make_ready(subscription) and subscription.queue is not None:
                self.state.touch(subscription.queue)

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
        if subscription.mode is AcknowledgeMode.INDIVIDUAL:
            try:
                del subscription.unacknowledged[key]
            except KeyError:
                raise not_in_delivery(key) from None
            self._settle(subscription.queue, key)
        else:
            keys = settled_by(subscription, key, exact=exact)
            count = len(keys)
            for each in keys:
                del subscription.unacknowledged[each]
            if count <= self.settings.step_count_max:
                for each in keys:
                    self._settle(subscription.queue, each)
            elif subscription.queue is not None:
                settle_all(self, subscription.queue, keys)
        if receipt is not None:
            self.receipts.reply_after_pending(replier, receipt)
        if not subscription.is_ready:
            self.refill(subscription)
        return count

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
        queue = queue_of_late(self, queue_number, key, client)
        if queue is not None:
            if key > 0:
                # Also if it is withheld already: as damaged, it would come back once repaired.
                queue.withheld.add(key)
            self._settle(queue, key)
        if receipt is not None:
            self.receipts.reply_after_pending(replier, receipt)

    def hold_identity(
        self, transaction: Transaction, queue_number: int, key: int, client: str = ""
    ) -> None:
        """
        Hold an acknowledgement by identity until its transaction commits; nobody gets it meanwhile.

        Raises:
            UnknownDeliveryError: It was never delivered, somebody else has it or had it last.
            TransactionError: The transaction grew over its limits.
        """
        queue = queue_of_late(self, queue_number, key, client)
        if queue is not None:
            transaction.add_late(queue, key)

    def reject(
        self,
        subscription: Subscription,
        key: int,
        record: MessageRecord | TransientMessage | None,
        replier: Replier,
        receipt: bytes | None,
        message_id: str = "",
    ) -> None:
        """
        Move a delivery to the dead-letter queue; `record` brings its content, `message_id` its id.

        Without a record it is only settled: there is nothing to keep.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
            DestinationError: There are too many queues to declare the dead-letter queue; the
                message stays in delivery.
        """
        reject(self, subscription, key, record, (replier, receipt), message_id)

    def put_back(self, subscription: Subscription, key: int) -> None:
        """Give back a delivery to a queue whose consumer rejects it, and which cannot go on."""
        put_back(self, subscription, key)

    def withhold(self, subscription: Subscription, key: int) -> None:
        """Take back a delivery that could not be read, just dispatched and not sent."""
        withhold(self, subscription, key)

    def refill(self, subscription: Subscription) -> None:
        """Let a subscription have more, now that its window opened."""
        if subscription.topic is not None:
            self.publishing.drain(subscription.topic, subscription)
        elif make_ready(subscription) and subscription.queue is not None:
            self.state.touch(subscription.queue)

    def _settle(self, queue: Queue | None, key: int) -> None:
        """Note that a message is done with; a topic (None) keeps nothing of it."""
        if queue is None:
            return
        if key > 0:
            receipts = self.receipts
            if not queue.acknowledged:
                receipts.acknowledged_queues.append(queue)
            queue.acknowledged.append(key)
            receipts.batch.settled_count += 1
        else:
            self.settle_transient(queue, key)

    def settle_transient(self, queue: Queue, key: int) -> None:
        """Note that a non-persistent message is done with, if it is still there."""
        message = queue.transients.pop(key, None)
        if message is not None:
            queue.acknowledged_total += 1
            queue.transient_bytes -= message.size
            if queue.redelivered:
                queue.redelivered.discard(message.key)
            if queue.had_by:
                queue.had_by.pop(message.key, None)
            if queue.withheld:
                queue.withheld.discard(message.key)
            self.state.acknowledged_total += 1
            self.state.volatile_bytes -= message.size + self.state.overhead

    def begin(self, name: str) -> Transaction:
        """
        Open a transaction.

        Raises:
            TransactionError: All transactions together hold too much; many empty ones do.
        """
        cost = 2 * self.settings.message_memory_overhead_bytes + 4 * len(name)
        self._require_held_room(cost)
        transaction = Transaction(name, self.settings)
        transaction.own_bytes = cost
        self.held_bytes += cost
        return transaction

    def hold(
        self,
        transaction: Transaction,
        destination: Queue | Topic,
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
    ) -> int:
        """
        Hold a send until its transaction commits; gives what it takes of the memory for these.

        Raises:
            TransactionError: This transaction, or all of them together, grew over the limits.
        """
        cost = len(headers) + len(body) + self.settings.message_memory_overhead_bytes
        self._require_held_room(cost)
        transaction.add_send(destination, headers, body, persistent=persistent)
        self.held_bytes += cost
        return cost

    def _require_held_room(self, cost: int) -> None:
        if self.held_bytes + cost > self.settings.transactions_bytes_max:
            raise TransactionError(
                f"open transactions hold {self.held_bytes:,} bytes;"
                f" at most {self.settings.transactions_bytes_max:,}; commit some first"
            )

    def abort(self, transaction: Transaction) -> Iterator[None]:
        """
        Undo a transaction in steps: what it acknowledged is in delivery again, or on its queue.

        Whoever asked must do nothing else before the last step; everybody else may.
        """
        self.held_bytes -= transaction.held_bytes
        for whole in transaction.undo(self.settings.step_count_max):
            if isinstance(whole, Subscription):
                self.refill(whole)
            elif whole is not None:
                self.state.touch(whole)
            yield

    def commit(
        self,
        transaction: Transaction,
        replier: Publisher,
        receipt: bytes | None,
        producer_id: str | None = None,
        producer_sequence: int = 0,
    ) -> None:
        """
        Put all of a transaction into the gathering batch: one log entry, all or nothing.

        With a producer id the whole transaction counts as one sequence number.

        What can be refused is refused before anything is taken, so a refused commit may be repeated
        under the same number.

        Raises:
            SequenceGapError: The producer skipped a number; nothing was done.
            DestinationError: A queue was deleted meanwhile and there are too many to declare it
                again; nothing was done.
        """
        commit(self, transaction, replier, receipt, producer_id, producer_sequence)

    @contextmanager
    def all_or_nothing(self, producer_id: str | None = None) -> Iterator[None]:
        """Take back what a request has put into the batch if it fails in the middle."""
        batch = self.receipts.batch
        mark = batch.mark()
        try:
            yield
        except Exception:
            for record in reversed(batch.take_back(mark)):
                self.receipts.uncommitted_bytes -= size_of(record)
                if isinstance(record, MessageRecord) and record.sequence:
                    number = record.queue_number
                    queue = self.state.queues.get(number) or self.state.plans[number]
                    queue.assigned_sequence = record.sequence
                    record.sequence = 0
            if producer_id is not None:
                self.state.producers.untake(producer_id)
            raise

    def keep_log(self, hold: HoldRecord, replier: Replier, receipt: bytes) -> None:
        """Keep the log for a named reader from an index on; index 0 ends that."""
        self.receipts.record(hold)
        self.receipts.reply_with_batch(replier, receipt)

    def purge(self, name: str, replier: Replier, receipt: bytes) -> int:
        """Remove every message now on a queue; see `operating.purge`."""
        return purge(self, name, replier, receipt)

    def delete(self, name: str, replier: Replier, receipt: bytes) -> int:
        """Remove a queue with its messages; see `operating.delete`."""
        return delete(self, name, replier, receipt)

    def apply_batch(
        self, batch: Batch, first_record: int, timestamp: int, term: int = FIRST_TERM
    ) -> None:
        """Apply the oldest batch in flight at once: its entry is committed."""
        self.state.apply(first_record, batch.records, timestamp, term)
        self.receipts.applied(batch)
        for _ in self.publish_after_commit(batch):
            pass
        self.receipts.released(batch)

    def publish_after_commit(self, batch: Batch) -> Iterator[None]:
        """Let the non-persistent messages of a batch's transactions be seen, in short steps."""
        return publish_after_commit(self, batch)

    def apply_entry(
        self, first_record: int, records: Iterable[Record], timestamp: int, term: int = FIRST_TERM
    ) -> None:
        """Apply records of a committed entry, all or, in order, some at a time."""
        self.state.apply(first_record, records, timestamp, term)

    @property
    def has_to_dispatch(self) -> bool:
        """Whether there may be deliveries to be made."""
        publishing = self.publishing  # Asked in every turn: its parts, which costs no call.
        return bool(self.state.touched or publishing.deliveries or publishing.spreads)

    def dispatch(self) -> Generator[list[Delivery], None, None]:
        """
        Give the deliveries to be made in short steps, assigning messages as each is asked for.

        Also what finds nothing to deliver is a step. It may be closed after any; the next one goes
        on, with that queue behind others. Where topics took all the time, queues come first then.
        """
        if self._is_queues_turn:
            self._is_queues_turn = False
            yield from self._dispatch_queues()
        self._is_queues_turn = True
        yield from self.publishing.take(self.broken)
        self._is_queues_turn = False
        yield from self._dispatch_queues()

    def _dispatch_queues(self) -> Iterator[list[Delivery]]:
        touched = self.state.touched
        step_count = self.settings.step_count_max
        looked_at = 0
        while touched:
            queue = touched.popleft()
            queue.is_touched = False
            if not queue.subscriptions or queue.is_deleted or not queue.ready or queue.is_held:
                looked_at += 1
                if not looked_at % step_count:
                    yield []
                continue
            try:
                yield from dispatch(queue, self._settle, step_count, self.broken)
            except GeneratorExit:
                self.state.touch(queue)
                raise
            finally:
                if queue.cursor + (queue.mark_step >> 1) > queue.asked_mark and queue.number:
                    self.advance_mark(queue)

    def advance_mark(self, queue: Queue) -> None:
        """Ask for a dispatch mark further ahead."""
        mark = next_mark(queue, self.settings.dispatch_mark_step_max)
        if mark > queue.asked_mark:
            self.receipts.record(DispatchMarkRecord(queue.number, mark))
            queue.asked_mark = mark  # Now only: else nothing beyond the old mark would go out.
