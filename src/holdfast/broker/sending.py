"""
Messages as they come, outside of transactions: stored, kept in memory only, or published.

A stored one takes the next number of its queue and becomes a record of the gathering batch; who
sent it is told when that is committed.

Invariants:
    A producer's number is taken once: what repeats it is confirmed, and stored no second time.
    A request that fails in the middle leaves neither records nor numbers (`all_or_nothing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from holdfast.broker.answer_shares import why_behind
from holdfast.broker.destinations import Destinations
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lasting.sequence_index import BY_GROUP, BY_PRIORITY
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Publisher, Replier, size_of
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.message import TransientMessage, paid_by, with_facts
from holdfast.broker.serving.numbers_taken import Verdict
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.recovers import NOTHING_KEPT, Recovers
from holdfast.broker.serving.shelves import SHELF_SHIFT
from holdfast.broker.serving.topic import Topic
from holdfast.errors import QueueFullError
from holdfast.model.facts import PRIORITY_DEFAULT, MessageFacts
from holdfast.model.records import MESSAGE_OVERHEAD_BYTES, MessageRecord

_ASKED_PER_STEP: Final = 512
"""So much, counted in deliveries, is asked of stored topics in one step, of one of them at least:
that is 5 ms for one that has as many selectors as there may be."""


class Sending:
    """Takes messages in."""

    __slots__ = (
        "advising",
        "answers_refused_total",
        "_destinations",
        "_flow",
        "_is_keeping",
        "_publishing",
        "_receipts",
        "_state",
        "duplicates_total",
        "now_microseconds",
        "policies_seen",
        "recovering",
        "serial",
    )

    def __init__(
        self,
        state: BrokerState,
        receipts: Receipts,
        destinations: Destinations,
        flow: FlowControl,
        publishing: Publishing,
    ) -> None:
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._flow = flow
        self._publishing = publishing
        self.advising: Advises = SILENCE
        self.recovering: Recovers = NOTHING_KEPT
        self._is_keeping = False
        """Whether it was on when it was asked last."""
        self.policies_seen = -1
        """How often the policies had been changed then: nobody is asked for each message."""
        self.serial = 0
        """Of messages that live in memory only: their keys are below zero."""
        self.now_microseconds = 0
        """Wall-clock time; set once per turn by whoever conducts."""
        self.answers_refused_total = 0
        """Messages to temporary destinations whose readers were behind, of all leaderships of this
        process."""
        self.duplicates_total = 0
        """Sends that were taken before and only confirmed again, of all leaderships of this
        process."""

    def send(
        self,
        queue: Queue,
        headers: bytes,
        body: bytes,
        replier: Replier,
        receipt: bytes | None,
        producer_id: str | None = None,
        producer_sequence: int = 0,
        facts: MessageFacts | None = None,
    ) -> None:
        """
        Put a persistent message on a queue; the reply waits until it is stored.

        Raises:
            SequenceGapError: The producer skipped a number.
        """
        if producer_id is not None:
            verdict = self._destinations.leadership.numbers.take(producer_id, producer_sequence)
            if verdict is not Verdict.NEW:
                self.duplicates_total += 1
                if receipt is None:
                    pass
                elif verdict is Verdict.STORED:
                    self._receipts.reply_stored(replier, receipt)
                else:
                    self._receipts.reply_after_pending(replier, receipt)
                return
        sequence = queue.assigned_sequence
        queue.assigned_sequence = sequence + 1
        size = len(headers) + len(body)
        receipts = self._receipts
        batch = receipts.batch
        record = MessageRecord(
            queue.number, sequence, headers, body, size, producer_id, producer_sequence
        )
        record.stored_at = self.now_microseconds
        size += MESSAGE_OVERHEAD_BYTES
        if facts is not None:
            record.facts = facts
            size += facts.size
        batch.records.append(record)
        batch.size_bytes += size
        receipts.uncommitted_bytes += size
        batch.is_urgent = True
        if receipt is not None:
            batch.replies.append((replier, receipt))
        if sequence + (queue.mark_step >> 1) > queue.asked_mark and queue.subscriptions:
            self._destinations.advance_mark(queue)

    @contextmanager
    def all_or_nothing(self, producer_id: str | None = None) -> Iterator[None]:
        """Take back what a request has put into the batch if it fails in the middle."""
        receipts = self._receipts
        batch = receipts.batch
        mark = batch.mark()
        try:
            yield
        except Exception:
            for record in reversed(batch.take_back(mark)):
                receipts.uncommitted_bytes -= size_of(record)
                if isinstance(record, MessageRecord) and record.sequence:
                    queue = self._destinations.numbered(record.queue_number)
                    queue.assigned_sequence = record.sequence
                    record.sequence = 0
            if producer_id is not None:
                self._destinations.leadership.numbers.give_back(producer_id)
            raise

    def has_taken(self, producer_id: str | None, sequence: int) -> bool:
        """
        Tell whether a producer's number is stored or under way already; False without an id.

        A repetition of such a number stores nothing, so it must be confirmed even when the store
        takes nothing new: refused, its producer would take the message for one that is not stored.
        """
        numbers = self._destinations.leadership.numbers
        return producer_id is not None and numbers.has_taken(producer_id, sequence)

    def send_transient(
        self,
        queue: Queue,
        headers: bytes,
        body: bytes,
        facts: MessageFacts | None = None,
        sender: Publisher | None = None,
    ) -> None:
        """Put a non-persistent message on a queue: kept in memory only; None sends: the broker."""
        self.serial += 1
        key = -self.serial
        # As `newest_under_way` says it, without a call for each message.
        order = queue.assigned_sequence - 1
        if order <= queue.newest_before:
            order = queue.lasting.next_sequence - 1
        message = TransientMessage(key, headers, body, order, self.now_microseconds)
        if facts is not None:
            message = with_facts(message, facts)
            if message.group_hash:
                queue.volatile_ordering |= BY_GROUP
            if message.priority != PRIORITY_DEFAULT:
                queue.volatile_ordering |= BY_PRIORITY
            if facts.expires_ms:
                queue.mortal([(key, facts.expires_ms)])
        if queue.user is not None:
            message = self._counted(queue, message, sender)
        queue.transients.shelves[key >> SHELF_SHIFT][key] = message
        queue.choice.add_transient(key)
        queue.lasting.enqueued_total += 1
        queue.transient_bytes += message.size
        self._state.enqueued_total += 1
        self._flow.volatile_bytes += message.size + self._flow.overhead
        queue.touch()
        if self.advising.is_heard and not queue.topic_number:  # Of its topic it is said once.
            self.advising.arrived_in_memory(queue, message)

    def _counted(
        self, queue: Queue, message: TransientMessage, sender: Publisher | None
    ) -> TransientMessage:
        """Count a message of the share of whose queue it is on, and of who sent it there."""
        flow = self._flow
        cost = message.size + flow.overhead
        flow.temporary_shares.add(queue.user, cost)
        payer = None if sender is None else sender.payer
        if payer is None or payer == queue.user:
            return message
        flow.answer_shares.add(queue, queue.user, payer, cost)
        return paid_by(message, payer)

    def send_transient_on(
        self,
        topic: StoredTopic,
        headers: bytes,
        body: bytes,
        facts: MessageFacts | None,
        client_id: str,
    ) -> None:
        """Put a non-persistent message before each durable subscription that has a consumer."""
        topic.passed_count += 1
        if topic.active:
            for queue in topic.wanting(self.topic_message(headers, body, facts), client_id):
                self.send_transient(queue, headers, body, facts)

    def has_room(self, destination: Queue | Topic) -> bool:
        """Whether one more non-persistent message may go to a destination now."""
        if type(destination) is Topic:
            return not destination.blocked_by and self._publishing.has_room
        user = destination.user if isinstance(destination, Queue) else None
        return self._flow.has_room if user is None else self._flow.has_room_for(user)

    def refused_answer(
        self, place: Queue | Topic, sender: Publisher, size: int, total: int
    ) -> QueueFullError | None:
        """
        Say why a message to a temporary destination is refused at once; None: it is not.

        Nobody waits for somebody else's reader: one who is behind may stay so. Who sends to himself
        may make the room he waits for.

        Args:
            total: What goes to all temporary destinations with it, in bytes as `size`.
        """
        owner: object = place.owner
        if not place.is_temporary or owner is sender:
            return None
        if isinstance(place, Topic):
            if not place.blocked_by:
                return None
            why = f"who reads temporary topic {place.name!r} is behind"
            return QueueFullError(f"{why}; go on without this one, or send it again later")
        flow = self._flow
        on_queue = place.transient_bytes + flow.overhead * len(place.transients)
        payer = None if place.user is None else sender.payer
        standing = flow.standing(on_queue, place.user, payer)
        behind = why_behind(place.name, size, total, standing)
        return None if behind is None else QueueFullError(behind)

    def publish(
        self,
        topic: Topic,
        headers: bytes,
        body: bytes,
        facts: MessageFacts | None = None,
        sender_id: str = "",
    ) -> None:
        """Hand a message to every live subscription of a topic, if it has not expired by then."""
        is_kept = self._is_keeping
        if self._state.policies.change_count != self.policies_seen:
            is_kept = self._look_whether_kept()
        sender_id = sender_id if topic.no_local_count or is_kept else ""
        message = self.topic_message(headers, body, facts, sender_id)
        self._publishing.publish(topic, message)
        if is_kept:
            self.recovering.keep(topic, message)
        if self.advising.is_heard:
            self.advising.arrived_in_memory(topic, message)

    def publish_later(
        self,
        topic: Topic,
        headers: bytes,
        body: bytes,
        facts: MessageFacts | None = None,
        sender_id: str = "",
        *,
        is_said: bool = True,
    ) -> None:
        """
        Begin to hand a message to all subscriptions of a topic, before what comes later.

        If it is not `said` that it came, that is said of it elsewhere, where it is stored.
        """
        is_kept = self._is_keeping
        if self._state.policies.change_count != self.policies_seen:
            is_kept = self._look_whether_kept()
        sender_id = sender_id if topic.no_local_count or is_kept else ""
        message = self.topic_message(headers, body, facts, sender_id)
        self._publishing.publish_later(topic, message)
        if is_kept:
            self.recovering.keep(topic, message)
        if is_said and self.advising.is_heard:
            self.advising.arrived_in_memory(topic, message)

    def _look_whether_kept(self) -> bool:
        self.policies_seen = self._state.policies.change_count
        self._is_keeping = self.recovering.is_on
        return self._is_keeping

    def send_transient_to_all(
        self,
        destinations: Sequence[Queue | Topic],
        headers: bytes,
        body: bytes,
        told: tuple[Publisher, bytes | None],
        facts: MessageFacts | None = None,
    ) -> Iterator[None]:
        """
        Give a message that is stored nowhere to several destinations, before what comes later.

        In steps, as stored topics are asked who wants it: until the last one nothing more is to
        come from who sent it. Whoever is told so is told once it is out on all of them.
        """
        publisher, receipt = told
        has_topics = False
        effort = 0
        for destination in destinations:
            if isinstance(destination, Topic):
                has_topics = True
                self.publish_later(destination, headers, body, facts, publisher.id)
            elif isinstance(destination, StoredTopic):
                if effort >= _ASKED_PER_STEP:
                    effort = 0
                    yield
                self.send_transient_on(destination, headers, body, facts, publisher.sent_as)
                effort += destination.effort_of(is_stored=False)
            else:
                self.send_transient(destination, headers, body, facts, publisher)
        if receipt is not None:
            confirm = self._publishing.confirm_later if has_topics else self._publishing.confirm
            confirm(publisher, receipt)

    def topic_message(
        self, headers: bytes, body: bytes, facts: MessageFacts | None = None, sender_id: str = ""
    ) -> TransientMessage:
        """Give a message as topics hand it out, with a key of its own."""
        self.serial += 1
        message = TransientMessage(-self.serial, headers, body, 0, self.now_microseconds)
        if facts is not None:
            self._publishing.mortal_count += facts.expires_ms > 0
        elif not sender_id:
            return message
        return with_facts(message, facts, sender_id)
