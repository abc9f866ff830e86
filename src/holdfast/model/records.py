"""
What must survive a crash: the records of the log, as values.

One batch of records is one log entry. Records are applied in the order of the log on every node
and give the same state everywhere; nothing else may change lasting state. They are built once on
the hot path and not changed afterwards, so they have slots and no checks. `store.record_codec`
turns them into bytes and back.

Invariants:
    A sequence is given to one message of a queue and never again, also after a failover.
    A message keeps its queue number and sequence when it is written again by the cleaner.
    The records of one transaction stand in one entry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, NewType

from holdfast.model.access_records import AccessRecord
from holdfast.model.facts import Cause, MessageFacts, Place
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)

RecordNumber = NewType("RecordNumber", int)
"""A record's place in the store's one order, from 1."""

QueueSequence = NewType("QueueSequence", int)
"""A message's place in its queue, from 1."""

MESSAGE_OVERHEAD_BYTES: Final = 36
"""What a message costs in the log beside its headers and body."""

PLACE_BYTES: Final = 16
"""What each place costs there, at most, that a message has beside its first."""


class MessageRecord:
    """A message put on a queue. `headers` and `body` are None where only the index is wanted."""

    __slots__ = (
        "body",
        "facts",
        "headers",
        "producer_id",
        "producer_sequence",
        "queue_number",
        "redelivery_count",
        "rewritten",
        "sequence",
        "size",
        "stored_at",
    )

    def __init__(
        self,
        queue_number: int,
        sequence: int,
        headers: bytes | None,
        body: bytes | None,
        size: int,
        producer_id: str | None = None,
        producer_sequence: int = 0,
    ) -> None:
        self.queue_number = queue_number
        self.sequence = sequence
        self.headers = headers
        """As received; the broker never looks into them. Lines `name:value\\n`, escaped as in
        STOMP 1.2, unless the facts name another encoding."""
        self.body = body
        self.size = size
        """Bytes of headers and body together."""
        self.producer_id = producer_id
        self.producer_sequence = producer_sequence
        self.rewritten = False
        """Written again by the cleaner: a copy of a live message whose segment is to go."""
        self.redelivery_count = 0
        self.stored_at = 0
        """When the broker took it, in microseconds since the epoch; 0 if not known."""
        self.facts: MessageFacts | None = None
        """What the broker has to know of it; None, as of most, if that is nothing."""

    @property
    def is_scheduled(self) -> bool:
        """Whether it waits for its time: it is due, and did not come back, which rests as well."""
        facts = self.facts
        return facts is not None and facts.due_ms is not None and not self.redelivery_count

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place where it was put: most have one."""
        first = Place(self.queue_number, self.sequence)
        return (first,) if self.facts is None else (first, *self.facts.places)


class AcknowledgeRecord:
    """Messages of one queue that are done with."""

    __slots__ = ("queue_number", "sequences")

    def __init__(self, queue_number: int, sequences: list[int]) -> None:
        self.queue_number = queue_number
        self.sequences = sequences


class SubscriptionAcknowledgeRecord(AcknowledgeRecord):
    """The same of one durable subscription of a topic; apart, as most are not."""

    __slots__ = ("topic_number",)

    def __init__(self, queue_number: int, sequences: list[int], topic_number: int) -> None:
        super().__init__(queue_number, sequences)
        self.topic_number = topic_number


class DeadLetterRecord:
    """Messages of one queue that were rejected; their copies are on the dead-letter queue."""

    __slots__ = ("queue_number", "sequences")

    def __init__(self, queue_number: int, sequences: list[int]) -> None:
        self.queue_number = queue_number
        self.sequences = sequences


class ReturnCause(IntEnum):
    """Why messages came back to their queue."""

    REJECTED = 1
    """A consumer said that it cannot process it, now."""

    TIMEOUT = 2
    """A consumer had it for too long."""

    LOST_ALONE = 3
    """The connection of a consumer was lost that had nothing else."""

    LOST = 4
    """The connection of a consumer was lost that had others, too: any of them may be to blame."""

    RELEASED = 5
    """A consumer ended, or its transaction was rolled back."""

    @property
    def is_failure(self) -> bool:
        """Whether the message is to blame for it."""
        return self <= ReturnCause.LOST_ALONE


class ReturnedRecord:
    """Messages of one queue that were delivered and came back to it."""

    __slots__ = ("cause", "due_ms", "queue_number", "sequences", "topic_number")

    def __init__(
        self,
        queue_number: int,
        cause: ReturnCause,
        sequences: list[int],
        due_ms: int = 0,
        topic_number: int = 0,
    ) -> None:
        self.queue_number = queue_number
        self.topic_number = topic_number
        """That of the topic, where it is no queue but a subscription; 0: it is a queue."""
        self.cause = cause
        self.sequences = sequences
        self.due_ms = due_ms
        """Nobody gets them before, in milliseconds since the epoch; 0: at once."""


class HoldLoss(IntEnum):
    """Why entries went before a reader that they were kept for had taken them."""

    NONE = 0
    BOUND = 1
    """More would have been kept than may be."""

    SPACE = 2
    """The disk was almost full."""


class HoldRecord:
    """
    A named reader has taken everything before entry `index`: what is from there on is kept.

    `bytes_max` bounds what is kept for it, `expiry_seconds` how long it stands without being heard
    of; 0: as long as the node says. Index 0 ends the hold. `lost_through` is not 0 once entries up
    to there were dropped before the reader took them; `loss` says why. `renewed_at` is when the
    reader was last heard of, in microseconds of log time; 0: when this is applied.
    """

    __slots__ = (
        "bytes_max",
        "expiry_seconds",
        "index",
        "loss",
        "lost_through",
        "name",
        "renewed_at",
    )

    def __init__(
        self,
        name: str,
        index: int,
        bytes_max: int,
        lost_through: int = 0,
        *,
        expiry_seconds: int = 0,
        renewed_at: int = 0,
        loss: HoldLoss = HoldLoss.NONE,
    ) -> None:
        self.name = name
        self.index = index
        self.bytes_max = bytes_max
        self.lost_through = lost_through
        self.expiry_seconds = expiry_seconds
        self.renewed_at = renewed_at
        self.loss = loss

    def renewed(self, microseconds: int) -> HoldRecord:
        """Give the same, with when its reader was last heard of."""
        return HoldRecord(
            self.name,
            self.index,
            self.bytes_max,
            self.lost_through,
            expiry_seconds=self.expiry_seconds,
            renewed_at=microseconds,
            loss=self.loss,
        )


class QueueRecord:
    """A queue's whole state but its messages: declares it, and restores it when cleaned."""

    __slots__ = ("dispatch_mark", "name", "next_sequence", "queue_number")

    def __init__(
        self, queue_number: int, name: str, next_sequence: int = 1, dispatch_mark: int = 0
    ) -> None:
        self.queue_number = queue_number
        self.name = name
        self.next_sequence = next_sequence
        self.dispatch_mark = dispatch_mark


class DispatchMarkRecord:
    """Messages of the queue from `first` up to `mark` may have been seen by a consumer."""

    __slots__ = ("first", "mark", "queue_number")

    def __init__(self, queue_number: int, mark: int, first: int = 0) -> None:
        self.queue_number = queue_number
        self.mark = mark
        self.first = first
        """0: from the first one on, whatever came to the queue."""


class PurgeRecord:
    """Every message of the queue up to `through_sequence` is removed."""

    __slots__ = ("queue_number", "through_sequence", "topic_number")

    def __init__(self, queue_number: int, through_sequence: int, topic_number: int = 0) -> None:
        self.queue_number, self.topic_number = queue_number, topic_number
        self.through_sequence = through_sequence


class DeleteQueueRecord:
    """The queue and everything on it is removed. Its number is never used again."""

    __slots__ = ("queue_number", "topic_number")

    def __init__(self, queue_number: int, topic_number: int = 0) -> None:
        self.queue_number, self.topic_number = queue_number, topic_number


class ProducerRecord:
    """The last sequence stored of a producer: a transaction's, or restored when cleaned."""

    __slots__ = ("producer_id", "sequence", "used_at")

    def __init__(self, producer_id: str, sequence: int, used_at: int = 0) -> None:
        self.producer_id = producer_id
        self.sequence = sequence
        self.used_at = used_at
        """Microseconds of its last message; 0 means the entry's own timestamp."""


class ForgetProducerRecord:
    """A producer that was idle too long is forgotten."""

    __slots__ = ("producer_id",)

    def __init__(self, producer_id: str) -> None:
        self.producer_id = producer_id


class CountersRecord:
    """The cluster's counters: the next queue number that was never used."""

    __slots__ = ("next_queue_number",)

    def __init__(self, next_queue_number: int) -> None:
        self.next_queue_number = next_queue_number


CLEANED_TYPE: Final = 25
"""Of a cleaned record in the log: replication, below the codec, looks for it too."""


class CleanedRecord:
    """Everything that lives up to entry `through_index` was written again: it may be dropped."""

    __slots__ = ("through_index",)

    def __init__(self, through_index: int) -> None:
        self.through_index = through_index


class PolicyRecord:
    """
    What is said of the destinations that match a pattern, as a whole; no values: nothing any more.

    `values` is JSON, an object. `revision` is that of the file which says so; what a newer one says
    replaces all of it. 0: an operator said so at run time. Without a pattern it tells only the
    revision.
    """

    __slots__ = ("pattern", "revision", "values")

    def __init__(self, pattern: str, values: str, revision: int = 0) -> None:
        self.pattern = pattern
        self.values = values
        self.revision = revision


class Run(NamedTuple):
    """Neighbouring messages of one queue that go to neighbouring places of another."""

    first: int
    """The sequence of the first of them."""

    target_first: int
    """And its sequence on the other queue; 0 where there is none."""

    length: int


MOVE_COUNT_MAX: Final = 1_000
"""So many messages one record moves at most: a bounded piece of work for whoever applies it."""


class MoveRecord:
    """
    Messages of one queue that stand on another one from now on; their bytes stay where they are.

    `queue_number` is that of the queue they come from, `target_number` that of the other one, 0 if
    they are nowhere any more. What does not live any more when this is applied is passed over.
    """

    __slots__ = (
        "cause",
        "clears_expiry",
        "expires_ms",
        "is_copy",
        "moved_at",
        "queue_name",
        "queue_number",
        "reason",
        "runs",
        "target_number",
        "topic_number",
    )

    def __init__(
        self,
        queue_number: int,
        target_number: int,
        cause: Cause,
        runs: list[Run],
        *,
        queue_name: str = "",
        reason: str = "",
        moved_at: int = 0,
        is_copy: bool = False,
        clears_expiry: bool = False,
        expires_ms: int = 0,
        topic_number: int = 0,
    ) -> None:
        self.queue_number = queue_number
        self.topic_number = topic_number
        """As with `ReturnedRecord`, of where they come from."""
        self.target_number = target_number
        self.cause = cause
        self.runs = runs
        self.queue_name = queue_name
        """As the queue is called that they come from; it may be deleted later."""
        self.reason = reason
        """What else is to be said of why, for people."""
        self.moved_at = moved_at
        """In milliseconds since the epoch."""
        self.is_copy = is_copy
        """They stay where they are as well."""
        self.clears_expiry = clears_expiry
        """On the other queue what was said before of when they expire does not count."""
        self.expires_ms = expires_ms
        """Where it does not, they expire there at this time, in milliseconds since the epoch; 0:
        never."""

    @property
    def count(self) -> int:
        """How many messages it names."""
        return sum(run.length for run in self.runs)

    @property
    def size(self) -> int:
        """About how many bytes it takes in the log."""
        texts = len(self.queue_name.encode()) + len(self.reason.encode())
        return MESSAGE_OVERHEAD_BYTES + texts + 20 * len(self.runs)

    @property
    def sequences(self) -> list[int]:
        """Their sequences on the queue that they come from."""
        return [it for run in self.runs for it in range(run.first, run.first + run.length)]

    @property
    def target_sequences(self) -> list[int]:
        """Their sequences on the other queue, in the same order; none if there is none."""
        if not self.target_number:
            return []
        return [
            it for run in self.runs for it in range(run.target_first, run.target_first + run.length)
        ]

    def source_of(self, target_sequence: int) -> int:
        """Give the sequence that a message had before, by the one that it has now; 0: none."""
        for run in self.runs:
            if run.target_first <= target_sequence < run.target_first + run.length:
                return run.first + target_sequence - run.target_first
        return 0


class FiredRecord:
    """
    A scheduled message has fired, and is due again at `due_ms`; `repeats` as in its facts.

    The copies that went out stand before it, in the same entry. What fires for the last time is
    moved away, and has no such record.
    """

    __slots__ = ("due_ms", "queue_number", "repeats", "sequence")

    def __init__(self, queue_number: int, sequence: int, due_ms: int, repeats: int) -> None:
        self.queue_number = queue_number
        self.sequence = sequence
        self.due_ms = due_ms
        self.repeats = repeats


class FormatRecord:
    """From here on the log may hold what belongs to this level; see `model.format_level`."""

    __slots__ = ("level",)

    def __init__(self, level: int) -> None:
        self.level = level


Record = (
    MessageRecord
    | AcknowledgeRecord
    | SubscriptionAcknowledgeRecord
    | DeadLetterRecord
    | HoldRecord
    | QueueRecord
    | DispatchMarkRecord
    | PurgeRecord
    | DeleteQueueRecord
    | ProducerRecord
    | ForgetProducerRecord
    | CountersRecord
    | CleanedRecord
    | FormatRecord
    | PolicyRecord
    | ReturnedRecord
    | MoveRecord
    | FiredRecord
    | TopicRecord
    | SubscriptionRecord
    | DetachedRecord
    | CountedRecord
    | AccessRecord
)
