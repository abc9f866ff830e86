"""
Lasting state: what the log says, the same on every node that applied the same entries.

`apply` is the only thing that changes it. Contents (headers and bodies) are not state: the leader
is told of messages that come with theirs, and anybody can read them from the log. It is told of
everything through the `listener` of a queue; nothing else of the leader's stands here.

Invariants:
    Equal logs give equal `digest()`s.
    A record about something unknown changes nothing, except a message: its queue's declaration was
    written again further on, so a nameless queue holds its place until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, Protocol

from holdfast.broker.lasting.access import LastingAccess, access_appliers
from holdfast.broker.lasting.discards import Discards
from holdfast.broker.lasting.moving import apply_move
from holdfast.broker.lasting.policies import Policies
from holdfast.broker.lasting.producer_map import ProducerMap
from holdfast.broker.lasting.producers import Producers
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.queue_records import (
    apply_delete_queue,
    apply_dispatch_mark,
    apply_purge,
    apply_queue,
)
from holdfast.broker.lasting.returns import returned_of
from holdfast.broker.lasting.schedule import apply_fired, ends_at
from holdfast.broker.lasting.topics import (
    LastingSubscription,
    LastingTopic,
    Planning,
    SubscriptionKey,
    apply_counted,
    apply_detached,
    apply_settled,
    apply_subscription,
    apply_topic,
    skip,
    subscription_of,
)
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Attributes
from holdfast.model.format_level import FIRST_LEVEL, require_known
from holdfast.model.numbering import FIRST_TERM
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)

_PRODUCER_BYTES: Final = 8
"""What a producer's number takes in the log beside the producer's id."""


class Written(Protocol):
    """A snapshot under way, as the state sees it."""

    def ahead_of(self, records: Iterable[Record]) -> Iterable[Record]:
        """Give the records one by one, with what each will change written down before."""


class BrokerState:
    """Queues, producers and counters of one broker cluster."""

    __slots__ = (
        "appliers",
        "by_name",
        "_live_bytes",
        "_live_count",
        "access",
        "acknowledged_total",
        "cleaned_through",
        "counters_home",
        "discards",
        "enqueued_total",
        "expiring",
        "format_home",
        "format_level",
        "hold_homes",
        "holds",
        "next_queue_number",
        "parts",
        "planning",
        "policies",
        "producers",
        "put_count",
        "queues",
        "settings",
        "snapshot",
        "subscriptions",
        "term",
        "timestamp",
        "topics",
    )

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.discards = Discards(settings.message_memory_overhead_bytes)
        """What of this nobody can reach any more."""
        self.planning: Planning | None = None
        """Whoever leads here."""
        self._begin()
        self.appliers: dict[type, Any] = {
            TopicRecord: partial(apply_topic, self),
            SubscriptionRecord: partial(apply_subscription, self),
            DetachedRecord: partial(apply_detached, self),
            CountedRecord: partial(apply_counted, self),
            AcknowledgeRecord: self._apply_acknowledge,
            DeadLetterRecord: self._apply_acknowledge,
            SubscriptionAcknowledgeRecord: partial(apply_settled, self),
            HoldRecord: self._apply_hold,
            QueueRecord: partial(apply_queue, self),
            DispatchMarkRecord: partial(apply_dispatch_mark, self),
            PurgeRecord: partial(apply_purge, self),
            DeleteQueueRecord: partial(apply_delete_queue, self),
            ProducerRecord: self._apply_producer,
            ForgetProducerRecord: self._apply_forget_producer,
            CountersRecord: self._apply_counters,
            CleanedRecord: self._apply_cleaned,
            FormatRecord: self._apply_format,
            PolicyRecord: self._apply_policy,
            ReturnedRecord: self._apply_returned,
            MoveRecord: partial(apply_move, self),
            FiredRecord: partial(apply_fired, self),
            **access_appliers(self),
        }

    def begin_anew(self) -> None:
        """Know nothing: the log it came from was replaced."""
        forgotten_count = self.producers.forgotten_count
        self.discards.add_later(_piles(self.queues, self.by_name, self.producers.by_id))
        self._begin()
        self.producers.forgotten_count = forgotten_count

    def _begin(self) -> None:
        self.queues: dict[int, LastingQueue] = {}
        """By number: queues, stored topics and their durable subscriptions."""
        self.by_name: dict[str, LastingQueue] = {}
        """The declared queues by name."""
        self.topics: dict[str, LastingTopic] = {}
        """The declared topics by name."""
        self.subscriptions: dict[SubscriptionKey, LastingSubscription] = {}
        """The declared durable subscriptions by client-id and name."""
        self.parts: dict[int, dict[int, LastingSubscription]] = {}
        """By number of a subscription of a wildcard: its parts by theirs."""
        self.producers = Producers()
        self.next_queue_number = 1
        self.counters_home = 0
        self.format_level = FIRST_LEVEL
        """What the log may hold, see `model.format_level`."""
        self.format_home = 0
        self.cleaned_through = 0
        """The log up to this entry holds nothing that lives; each node may drop it."""
        self.term = FIRST_TERM
        """The term of what is being applied."""
        self.timestamp = 0
        """Log time of what is being applied, in microseconds."""
        self.snapshot: Written | None = None
        """What must be told of records before they change anything; see there."""
        self.holds: dict[str, HoldRecord] = {}
        """Named readers of the log, and from where on it is kept for each."""
        self.hold_homes: dict[str, int] = {}
        self.policies = Policies()
        self.access = LastingAccess()
        self._live_count = self._live_bytes = 0
        self.put_count = 0
        """Persistent messages that were put somewhere since this node began to apply."""
        self.expiring: dict[int, LastingQueue] = {}
        """Queues, by number, on which something expires, or did: the leader looks after them."""
        self.enqueued_total = self.acknowledged_total = 0
        """Messages over all queues, also those that are deleted since, or temporary."""

    def apply(
        self,
        first_record: int,
        records: Iterable[Record],
        timestamp: int,
        term: int = FIRST_TERM,
    ) -> None:
        """
        Change the state by committed records, numbered from `first_record` on.

        `timestamp`, in microseconds, and `term` are the entry's. What comes with its body is handed
        to the queue's listener so.
        """
        self.timestamp = timestamp
        self.term = term
        if self.snapshot is not None:
            records = self.snapshot.ahead_of(records)
        if type(records) is list and len(records) == 1 and type(records[0]) is MessageRecord:
            self._apply_alone(records[0], first_record)
            return
        number = first_record
        rest = iter(records)
        record = next(rest, None)
        while record is not None:
            if type(record) is MessageRecord:
                number, record = self._apply_messages(number, record, rest)
            else:
                self.appliers[type(record)](record, number)
                number += 1
                record = next(rest, None)

    def _apply_messages(
        self, first_number: int, first: MessageRecord, rest: Iterator[Record]
    ) -> tuple[int, Record | None]:
        """
        Apply a message and those right behind it on its queue; gives what comes after them.

        Most of a log are such runs: what can be done for all of one is not done for each message.
        """
        queue_number = first.queue_number
        queue = self.queues.get(queue_number)
        if queue is None:
            queue = self.queues[queue_number] = LastingQueue(queue_number, "")
        if first.sequence < queue.next_sequence or _has_more(first) or not queue.takes_runs:
            self._apply_alone(first, first_number)
            return first_number + 1, next(rest, None)
        sequence = first.sequence
        run: list[MessageRecord] = []
        sizes: list[int] = []
        grouped: list[tuple[int, Attributes]] = []
        newest: dict[str, MessageRecord] = {}
        expiring: list[tuple[int, int]] = []
        record: Record | None = first
        while (
            type(record) is MessageRecord
            and record.sequence == sequence
            and record.queue_number == queue_number
        ):
            if record.facts is not None:
                if _has_more(record):
                    break
                if (attributes := record.facts.attributes) is not None:
                    grouped.append((sequence, attributes))
                if expires_ms := ends_at(record):
                    expiring.append((sequence, expires_ms))
            size = record.size
            producer_id = record.producer_id
            if producer_id is not None:
                size += len(producer_id) + _PRODUCER_BYTES
                if not record.rewritten:
                    newest[producer_id] = record
            run.append(record)
            sizes.append(size)
            sequence += 1
            record = next(rest, None)
        queue.index.put_next(first.sequence, first_number, sizes)
        for of_one, attributes in grouped:
            queue.index.put_group_hash(of_one, attributes.group_hash)
            queue.index.put_priority(of_one, attributes.priority)
        queue.next_sequence = sequence
        queue.numbered_term = self.term
        self._note_added(queue, first.sequence, run, sum(sizes))
        if expiring:
            self.note_mortal(queue, expiring)
        for producer_id, last in newest.items():
            number = first_number + last.sequence - first.sequence
            self.producers.stored(producer_id, last.producer_sequence, number, self.timestamp)
        return first_number + len(sizes), record

    def _apply_alone(self, record: MessageRecord, number: int) -> None:
        """
        Apply one message, as a run of one: with less than a run needs, on all of its places.

        Maybe of a sequence from before: the cleaner wrote it again.
        """
        size = record.size
        producer_id = record.producer_id
        # Without the facts: a copy by the cleaner may have others, and must count as much.
        in_log = size if producer_id is None else size + len(producer_id) + _PRODUCER_BYTES
        is_new = self._put(record.queue_number, record.sequence, record, number, in_log)
        if record.facts is not None:
            if record.facts.skips and is_new:
                skip(self, record.queue_number, record.sequence, record.facts.skips)
            for queue_number, sequence in record.facts.places:
                self._put(queue_number, sequence, record, number, in_log)
        if producer_id is not None and not record.rewritten:
            self.producers.stored(producer_id, record.producer_sequence, number, self.timestamp)

    def _put(
        self, queue_number: int, sequence: int, record: MessageRecord, number: int, in_log: int
    ) -> bool:
        """Apply a message on one of its places; false if it lives there already."""
        queue = self.queues.get(queue_number)
        if queue is None:
            queue = self.queues[queue_number] = LastingQueue(queue_number, "")
        if sequence >= queue.next_sequence:
            queue.next_sequence = sequence + 1
            queue.numbered_term = self.term
        is_new = queue.index.put(sequence, number, in_log)
        if is_new:
            if record.facts is not None:
                queue.index.put_returned(sequence, returned_of(record))
                if (attributes := record.facts.attributes) is not None:
                    queue.index.put_group_hash(sequence, attributes.group_hash)
                    queue.index.put_priority(sequence, attributes.priority)
                if record.facts.repeats:
                    queue.index.put_repeats(sequence, record.facts.repeats)
            self._note_added(queue, sequence, [record], in_log)
            if record.facts is not None and (expires_ms := ends_at(record)):
                self.note_mortal(queue, [(sequence, expires_ms)])
        return is_new

    def note_mortal(self, queue: LastingQueue, expiring: list[tuple[int, int]]) -> None:
        """Take note that messages that live on a queue expire, each with its time."""
        for sequence, expires_ms in expiring:
            queue.index.put_expires(sequence, expires_ms)
        if expiring:
            self.expiring[queue.number] = queue
            if queue.listener is not None:
                queue.listener.mortal(expiring)

    def _note_added(
        self, queue: LastingQueue, first: int, records: list[MessageRecord], size: int
    ) -> None:
        count = len(records)
        queue.enqueued_total += count
        self.enqueued_total += count
        self._live_count += count
        self.put_count += count
        self._live_bytes += size
        if queue.listener is not None:
            queue.listener.added(first, records)

    def _apply_hold(self, record: HoldRecord, number: int) -> None:
        if record.index:
            self.holds[record.name] = (
                record if record.renewed_at else record.renewed(self.timestamp)
            )
            self.hold_homes[record.name] = number
        else:
            self.holds.pop(record.name, None)
            self.hold_homes.pop(record.name, None)

    def _apply_acknowledge(
        self, record: AcknowledgeRecord | DeadLetterRecord, _number: int
    ) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is None:
            return
        # As `settle` does it, without a call for each record.
        index = queue.index
        before = index.live_count, index.live_bytes
        gone = index.remove(record.sequences)
        if queue.listener is not None:
            queue.listener.gone(gone)
        self.settled(queue, before)

    def settle(self, queue: LastingQueue, sequences: list[int]) -> None:
        """Let a queue be done with messages."""
        index = queue.index
        before = index.live_count, index.live_bytes
        gone = index.remove(sequences)
        if queue.listener is not None:
            queue.listener.gone(gone)
        self.settled(queue, before)

    def _apply_returned(self, record: ReturnedRecord, _number: int) -> None:
        queue: LastingQueue | None = (
            subscription_of(self, record)
            if record.topic_number
            else self.queues.get(record.queue_number)
        )
        if queue is None:
            return
        index, due_ms, failed = queue.index, record.due_ms, record.cause.is_failure
        for sequence in record.sequences:
            # Of what does not live any more nothing is put.
            index.put_returned(sequence, index.returned(sequence).again(due_ms, failed=failed))
        if queue.listener is not None:
            queue.listener.returned(record.sequences, due_ms)

    def added(self, queue: LastingQueue, before: tuple[int, int]) -> None:
        """Count what was moved to a queue since so many messages and bytes lived there."""
        count = queue.index.live_count - before[0]
        queue.enqueued_total += count
        self.enqueued_total += count
        self._live_count += count
        self.put_count += count
        self._live_bytes += queue.index.live_bytes - before[1]

    def settled(self, queue: LastingQueue, before: tuple[int, int]) -> None:
        """Count what is gone since so many messages and bytes lived."""
        count = before[0] - queue.index.live_count
        queue.acknowledged_total += count
        self.acknowledged_total += count
        self._live_count -= count
        self._live_bytes -= before[1] - queue.index.live_bytes

    def lost(self, count: int, size: int) -> None:
        """Count what lived until now and is nowhere any more."""
        self.acknowledged_total += count
        self.forgotten(count, size)

    def forgotten(self, count: int, size: int) -> None:
        """Count what lives no more, and was not settled."""
        self._live_count -= count
        self._live_bytes -= size

    def note_number(self, number: int, home: int) -> None:
        """Note that a number is taken: none below it is given again."""
        if number >= self.next_queue_number:
            self.next_queue_number = number + 1
            self.counters_home = home

    def _apply_producer(self, record: ProducerRecord, number: int) -> None:
        used_at = record.used_at or self.timestamp
        self.producers.stored(record.producer_id, record.sequence, number, used_at)

    def _apply_forget_producer(self, record: ForgetProducerRecord, _number: int) -> None:
        self.producers.forget(record.producer_id)

    def _apply_counters(self, record: CountersRecord, number: int) -> None:
        self.next_queue_number = max(self.next_queue_number, record.next_queue_number)
        self.counters_home = number

    def _apply_cleaned(self, record: CleanedRecord, _number: int) -> None:
        self.cleaned_through = max(self.cleaned_through, record.through_index)

    def _apply_format(self, record: FormatRecord, number: int) -> None:
        require_known(record.level, self.settings.known_format_level, "the log of this cluster")
        if record.level >= self.format_level:  # Else the cleaner carried on what was so before.
            self.format_level = record.level
            self.format_home = number

    def _apply_policy(self, record: PolicyRecord, number: int) -> None:
        self.policies.apply(record, number)

    def live_count(self) -> int:
        """How many persistent messages live."""
        return self._live_count

    def live_bytes(self) -> int:
        """How many bytes the live persistent messages have."""
        return self._live_bytes

    def count_anew(self) -> None:
        """Work out the sums over all queues: they were put here, and not by `apply`."""
        # A subscription's messages are its topic's.
        queues = [it for it in self.queues.values() if not isinstance(it, LastingSubscription)]
        self._live_count = sum(queue.index.live_count for queue in queues)
        self._live_bytes = sum(queue.index.live_bytes for queue in queues)
        self.expiring = {queue.number: queue for queue in queues if queue.index.expiring}
        self.enqueued_total = sum(queue.enqueued_total for queue in queues)
        self.acknowledged_total = sum(queue.acknowledged_total for queue in queues)

    def let_go(self) -> None:
        """Free one step of what is gone."""
        self.discards.step(self.settings.step_count_max)


def _piles(
    queues: dict[int, LastingQueue], by_name: dict[str, LastingQueue], producers: ProducerMap
) -> Iterator[Any]:
    """Give the containers of a state that nobody needs any more, to be let go of."""
    for queue in list(queues.values()):
        yield queue.index.chunks
    yield queues
    yield by_name
    yield from producers.piles()


def _has_more(record: MessageRecord) -> bool:
    """Whether more is to be noted of a message with facts than its size, group and time."""
    facts = record.facts
    if facts is None:
        return False
    if facts.places or facts.skips:
        return True
    return record.redelivery_count > 0 or facts.repeats > 0
