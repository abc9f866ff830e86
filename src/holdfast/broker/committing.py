"""
Transactions from BEGIN to their end: COMMIT makes all of one part of one batch, and log entry.

Each queue keeps as many numbers free as the transaction has messages for it: that takes no time for
the messages. Many get theirs in steps, before the batch is sealed; until then nobody looks at them.
Acknowledgements become part of the batch whole queues at a time. What is to be done for each of
them, and for each subscription, is an errand; until it is done, what they settle stays reserved.

Invariants:
    What can be refused is refused before anything is taken, so a refused commit may be repeated
    under the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.outputs import Batch, Publications, Publisher
from holdfast.broker.parts import stored_beside, topics_now
from holdfast.broker.receipts import Receipts
from holdfast.broker.routing import Routing
from holdfast.broker.sending import Sending
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.numbers_taken import Verdict
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import (
    NUMBERED_PER_STEP,
    Numbered,
    Run,
    Transaction,
    number_messages,
)
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import TransactionError
from holdfast.model.facts import MessageFacts
from holdfast.model.format_level import FACTS_LEVEL
from holdfast.model.records import PLACE_BYTES, ProducerRecord

Told = tuple[Publisher, bytes | None]
"""Who is told, if anybody, that it is committed, and by what receipt."""


class Committing:
    """Opens, fills and ends transactions."""

    __slots__ = (
        "advising",
        "_destinations",
        "_errands",
        "_flow",
        "_publishing",
        "_receipts",
        "_routing",
        "_sending",
        "_settings",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        receipts: Receipts,
        destinations: Destinations,
        flow: FlowControl,
        routing: Routing,
        sending: Sending,
        publishing: Publishing,
        errands: Errands,
    ) -> None:
        self._settings = settings
        self._receipts = receipts
        self._destinations = destinations
        self._flow = flow
        self._routing = routing
        self._sending = sending
        self._publishing = publishing
        self._errands = errands
        self.advising: Advises = SILENCE

    def begin(self, name: str, user: str | None = None) -> Transaction:
        """
        Open a transaction, of whose share what it holds is.

        Raises:
            TransactionError: All transactions, or this user's, hold too much; many empty ones do.
        """
        cost = 2 * self._settings.message_memory_overhead_bytes + 4 * len(name)
        self._flow.hold(cost, user)
        transaction = Transaction(name, self._settings)
        transaction.user = user
        transaction.own_bytes = cost
        return transaction

    def hold(
        self,
        transaction: Transaction,
        destination: Queue | Topic,
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
        facts: MessageFacts | None = None,
    ) -> int:
        """
        Hold a send until its transaction commits; gives what it takes of the memory for these.

        Raises:
            TransactionError: This transaction, or all of them together, grew over the limits.
        """
        cost = len(headers) + len(body) + self._settings.message_memory_overhead_bytes
        self._flow.hold(cost, transaction.user)
        try:
            transaction.add_send(destination, headers, body, persistent=persistent, facts=facts)
        except TransactionError:
            self._flow.release(cost, transaction.user)
            raise
        return cost

    def hold_for_all(
        self,
        transaction: Transaction,
        destinations: Sequence[Queue | Topic],
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
        facts: MessageFacts | None = None,
    ) -> int:
        """
        Hold one message for several destinations; gives what it takes of the memory for these.

        Raises:
            TransactionError: This transaction, or all of them together, grew over the limits.
        """
        size = len(headers) + len(body) + self._settings.message_memory_overhead_bytes
        known = 0 if facts is None else facts.size
        cost_max = len(destinations) * (size + known + PLACE_BYTES)
        self._flow.hold(cost_max, transaction.user)
        before = transaction.held_bytes
        try:
            self._add_for_all(
                transaction, destinations, headers, body, persistent=persistent, facts=facts
            )
        finally:
            cost = transaction.held_bytes - before
            self._flow.release(cost_max - cost, transaction.user)
        return cost

    def _add_for_all(
        self,
        transaction: Transaction,
        destinations: Sequence[Queue | Topic],
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
        facts: MessageFacts | None,
    ) -> None:
        stored_once = self._destinations.format_level >= FACTS_LEVEL
        copied_bytes = 0 if stored_once else len(destinations) * (len(headers) + len(body))
        if copied_bytes > self._settings.transaction_bytes_max:
            raise TransactionError(
                f"{len(destinations)} copies of the message take {copied_bytes:,} bytes, at most"
                f" {self._settings.transaction_bytes_max:,}: not all nodes know yet how to store it"
                " once; send it to fewer at once"
            )
        transaction.add_sends(
            destinations,
            headers,
            body,
            persistent=persistent,
            stored_once=stored_once,
            facts=facts,
        )

    def send_to_all(
        self,
        destinations: Sequence[Queue | Topic],
        headers: bytes,
        body: bytes,
        told: Told,
        producer_id: str | None,
        producer_sequence: int,
        *,
        persistent: bool,
        facts: MessageFacts | None = None,
    ) -> bool:
        """
        Put one message on several destinations: on all of them, or nowhere.

        It takes one number of its producer, if that has an id, also where nothing of it is stored.

        Returns:
            Whether some of it is to be out before its sender is told: that is not stored.

        Raises:
            SequenceGapError: The producer skipped a number; nothing was done.
            DestinationError: There are too many queues.
        """
        transaction = Transaction("of one message", self._settings, has_limits=False)
        self._add_for_all(
            transaction, destinations, headers, body, persistent=persistent, facts=facts
        )
        is_stored = bool(transaction.records)
        if producer_id is not None and is_stored:
            # The message says itself who sent it, so no record beside it has to.
            transaction.records[0].producer_id = producer_id
            transaction.records[0].producer_sequence = producer_sequence
        replier, receipt = told
        is_to_be_out_first = self._take(
            transaction, told, producer_id, producer_sequence, is_told_apart=not is_stored
        )
        if receipt is not None and not is_to_be_out_first:
            self._receipts.reply_after_pending(replier, receipt)
        return is_to_be_out_first

    def abort(self, transaction: Transaction) -> Iterator[None]:
        """
        Undo a transaction in steps: what it acknowledged is in delivery again, or on its queue.

        Whoever asked must do nothing else before the last step; everybody else may.
        """
        self._flow.release(transaction.held_bytes, transaction.user)
        for whole in transaction.undo(self._settings.step_count_max):
            if isinstance(whole, Subscription):
                self._routing.refill(whole)
            elif whole is not None:
                whole.touch()
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
        told = (replier, receipt)
        is_to_be_out_first = self._take(transaction, told, producer_id, producer_sequence)
        self._settle(transaction, replier)
        if receipt is not None and not is_to_be_out_first:
            # Also of a repetition: what it acknowledges was not in the first.
            self._receipts.reply_after_pending(replier, receipt)

    def _take(
        self,
        transaction: Transaction,
        told: Told,
        producer_id: str | None,
        producer_sequence: int,
        *,
        is_told_apart: bool = True,
    ) -> bool:
        """Take what a transaction sends, if it is new; whether some of it has to be out first."""
        missing = transaction.missing_queues(self._destinations.has_queue)
        self._destinations.require_queues(missing)
        is_new = producer_id is None or (
            self._destinations.leadership.numbers.take(producer_id, producer_sequence)
            is Verdict.NEW
        )
        if is_new:
            self._put(
                transaction, told, producer_id, producer_sequence, is_told_apart=is_told_apart
            )
        else:
            count = len(transaction.records) + len(transaction.publications)
            self._sending.duplicates_total += count
        return is_new and bool(transaction.publications)

    def _put(
        self,
        transaction: Transaction,
        told: Told,
        producer_id: str | None,
        producer_sequence: int,
        *,
        is_told_apart: bool,
    ) -> None:
        receipts = self._receipts
        if not receipts.batch.has_room(transaction.size_bytes, self._settings.batch_bytes_max):
            receipts.close_batch()
        with self._sending.all_or_nothing(producer_id):
            runs: list[Run] = []
            try:
                self._put_sends(transaction, told, runs)
                if producer_id is not None and is_told_apart:
                    receipts.record(ProducerRecord(producer_id, producer_sequence))
            except Exception:
                for run in reversed(runs):
                    run.queue.assigned_sequence = run.first
                    for record in run.records:
                        record.sequence = 0  # What they had is given back whole.
                raise
        if receipts.batch.publications:
            receipts.batch.is_urgent = True
        self._errands.begin(self._advance_marks(runs), told[0])

    def _put_sends(self, transaction: Transaction, told: Told, runs: list[Run]) -> None:
        """
        Put the sends of a transaction into the batch; queues that are gone are declared.

        With messages that are not kept go those who are told when these are out.
        `runs` tells what numbers were taken, also if it fails in the middle.
        """
        receipts = self._receipts
        current = {each: self._routing.current_of(each) for each in transaction.destinations}
        now_stored, left_out = topics_now(self._destinations.stored, transaction, current)
        if transaction.publications:
            stored = stored_beside(self._destinations, current.values())
            held = transaction.publications
            receipts.batch.publications.append(Publications(current, held, *told, stored))
        self._publishing.backlogs.evicted_total += left_out
        receipts.uncommitted_bytes += receipts.batch.add_messages(
            transaction.records, transaction.records_bytes
        )
        for destination, records in transaction.by_queue.items():
            queue = current[destination]
            assert isinstance(queue, Queue)
            runs.append(_run_on(queue, records))
        # Behind what was sent there before: see `TopicSends`.
        for name, topic in now_stored.items():
            sends = transaction.unstored[name]
            runs.append(_run_on(topic, sends.records))
            receipts.uncommitted_bytes += receipts.batch.add_messages(
                sends.records, sends.size_bytes
            )
        for each in current.values():
            if isinstance(each, StoredTopic) and not each.subscription_count:
                self._destinations.stored.remove(each)
        # Many get the numbers that are kept for them only as they are sealed.
        now, client_id = self._sending.now_microseconds, told[0].sent_as
        steps = number_messages(runs, transaction.placed, now, client_id)
        asked = sum(run.asked_for(client_id) for run in runs)
        if sum(len(run.records) for run in runs) + asked > NUMBERED_PER_STEP:
            receipts.batch.unnumbered.append(steps)
            return
        transaction.asked = asked
        for _ in steps:
            pass

    def _advance_marks(self, runs: list[Run]) -> Iterator[None]:
        """Ask in steps for dispatch marks further ahead, where the messages come near to them."""
        for place, (queue, _, _) in enumerate(runs, 1):
            try:
                is_far = queue.assigned_sequence + (queue.mark_step >> 1) > queue.asked_mark + 1
                if is_far and queue.subscriptions and not queue.is_deleted:
                    self._destinations.advance_mark(queue)
            except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                self._routing.broken.append((queue, error))
            if not place % self._settings.step_count_max:
                yield

    def _settle(self, transaction: Transaction, owner: Publisher) -> None:
        """
        Let all acknowledgements of a transaction be part of the batch, whole queues at a time.

        Until they are taken out of what is reserved, in steps, nobody else gets what they settle.
        """
        self._flow.release(transaction.held_bytes, transaction.user)
        for queue, keys in transaction.keys_by_queue.items():
            self._receipts.settle(queue, keys)
        self._errands.begin(self._let_go(transaction), owner)

    def settle_all(self, queue: Queue, keys: list[int]) -> None:
        """
        Settle many at once that were just in delivery.

        What is only in memory is freed in steps, and nobody else's meanwhile.
        """
        lasting = [key for key in keys if key > 0]
        self._receipts.settle(queue, lasting)
        if len(lasting) < len(keys):
            volatile = [key for key in keys if key < 0]
            queue.custody.reserved.update(volatile)
            self._errands.begin(self._free(queue, volatile), queue)

    def _let_go(self, transaction: Transaction) -> Iterator[None]:
        """Do in steps what is left to be done for each key and each subscription of a COMMIT."""
        step_count = self._settings.step_count_max
        effort = 0
        for subscription, queue, keys in chain(
            ((it, it.queue, keys) for it, keys in transaction.settlements.items()),
            ((None, queue, keys) for queue, keys in transaction.late.items()),
        ):
            if effort >= step_count:
                effort = 0
                yield
            if queue is not None:
                yield from self._free(queue, keys)
            if subscription is not None:
                yield from self._tell_committed(subscription, keys)
            effort += 1 + min(len(keys), step_count)

    def _tell_committed(self, subscription: Subscription, keys: list[int]) -> Iterator[None]:
        """Let a subscription have more in the place of what is settled."""
        try:
            yield from subscription.committed(keys, self._settings.step_count_max)
            self._routing.refill(subscription)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._errands.fail(subscription.receiver, error)

    def _free(self, queue: Queue, keys: list[int]) -> Iterator[None]:
        """Give up, in steps, what was reserved and is settled; what is only in memory ends here."""
        step_count = self._settings.step_count_max
        for start in range(0, len(keys), step_count):
            if start:
                yield
            some = keys[start : start + step_count]
            try:
                volatile = [key for key in some if key < 0]
                for key in volatile:
                    self._destinations.settle_transient(queue, key)
                if volatile and self.advising.is_heard:
                    self.advising.consumed(queue, volatile)
                queue.custody.settle_reserved(some)
            except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                self._routing.broken.append((queue, error))

    def publish_after_commit(self, batch: Batch) -> Iterator[None]:
        """Let the non-persistent messages of a batch's transactions be seen, in short steps."""
        effort = 0
        for publications in batch.publications:
            sender_id, client_id = publications.publisher.id, publications.publisher.sent_as
            for destination, headers, body, facts, is_said in publications.sends():
                try:
                    if isinstance(destination, Topic):
                        self._sending.publish_later(
                            destination, headers, body, facts, sender_id, is_said=is_said
                        )
                    elif isinstance(destination, StoredTopic):
                        self._sending.send_transient_on(
                            destination, headers, body, facts, client_id
                        )
                    elif not destination.is_deleted:
                        publisher = publications.publisher
                        self._sending.send_transient(destination, headers, body, facts, publisher)
                        destination.note_filling()
                except Exception as error:  # noqa: BLE001 - lasting state is applied already
                    self._routing.broken.append((destination, error))
                effort += 1
                if isinstance(destination, StoredTopic):
                    effort += destination.effort_of(is_stored=False)
                if effort >= self._settings.step_count_max:
                    effort = 0
                    yield
            self._confirm_publications(publications)

    def _confirm_publications(self, publications: Publications) -> None:
        """Let who committed be told when its messages are out."""
        if publications.receipt is None:
            return
        publishing = self._publishing
        is_for_topics = publications.is_for_topics
        confirm = publishing.confirm_later if is_for_topics else publishing.confirm
        confirm(publications.publisher, publications.receipt)


def _run_on(queue: Queue, records: Sequence[Numbered]) -> Run:
    """Take numbers of a queue for messages that are to stand there."""
    run = Run(queue, queue.assigned_sequence, records)
    queue.assigned_sequence += len(records)
    return run
