"""
What the broker wants done, and the order it must be done in.

A `Batch` is what must last: its records become one log entry. Its replies may go out, and its
non-persistent messages may be seen, only after that entry is committed and its records are
applied; `receipts` is the one place that lets go of them. Deliveries are of applied messages only,
so they may go out at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Publication
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    HoldRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord

_RUN_BYTES: Final = 12
"""What a message that came back takes at most."""
_SETTLES = {AcknowledgeRecord, SubscriptionAcknowledgeRecord, DeadLetterRecord}
_MAY_TAKE_LONG = {
    MessageRecord,
    PurgeRecord,
    DeleteQueueRecord,
    SubscriptionRecord,
    TopicRecord,
    CountedRecord,
}
"""Of those that nothing else is noted of; a message that comes alone is a copy, or has several
places."""
_WHOLE = (QueueRecord, DispatchMarkRecord, TopicRecord, SubscriptionRecord)


class Replier(Protocol):
    """A session that waits for a request to be complete."""

    def reply(self, receipt: bytes) -> None:
        """Tell the client that the request with this receipt is complete and stored."""


class Publisher(Replier, Protocol):
    """A session that waits for messages of its own to be out, which are not stored."""

    id: str
    """Of its connection."""
    sent_as: str
    """The client-id by which what it sends is its client's own; empty: there is none."""

    @property
    def payer(self) -> str | None:
        """The user of whose share is what it sends to others; None: nobody is somebody here."""

    def confirm(self, receipt: bytes) -> None:
        """Tell the client that what it published with this receipt is out."""


class Publications(NamedTuple):
    """The non-persistent sends of one transaction."""

    current: dict[Queue | Topic, Queue | Topic]
    """Where each goes now that was sent to a destination: that may have been deleted since."""
    held: list[Publication]

    publisher: Publisher
    receipt: bytes | None
    """Who is told, if anybody, when all of it has gone out."""
    stored: Mapping[Queue | Topic, StoredTopic]
    """The topics among them whose messages are stored."""

    def sends(self) -> Iterator[tuple[Queue | Topic, bytes, bytes, MessageFacts | None, bool]]:
        """Give where each is to be sent now, what, and whether it is said there that it came."""
        for sent_to, headers, body, facts, persistent, is_stored_beside in self.held:
            destination = self.current[sent_to]
            stored = self.stored.get(destination)
            if stored is None:
                yield destination, headers, body, facts, True
                continue
            yield destination, headers, body, facts, not persistent  # Else it is as it is stored.
            if not (persistent or is_stored_beside):
                yield stored, headers, body, facts, False  # It is stored since it was sent to.

    @property
    def is_for_topics(self) -> bool:
        """Whether any of it goes to a topic."""
        return any(isinstance(each, Topic) for each in self.current.values())


@dataclass(slots=True)
class Batch:
    """Records for one log entry, and what waits for it."""

    records: list[Record] = field(default_factory=list)
    settling: list[AcknowledgeRecord | DeadLetterRecord | MoveRecord] = field(default_factory=list)
    """Those of the records that settle messages: the cleaner asks, and there may be thousands of
    others."""
    holds: list[HoldRecord] = field(default_factory=list)
    """Those that set, move or end a hold."""
    policies: list[PolicyRecord] = field(default_factory=list)
    """Those that say something of the destinations that match a pattern."""
    access: list[UserRecord | GrantRecord] = field(default_factory=list)
    """Those that say who there is, and what is granted."""
    returns: list[ReturnedRecord] = field(default_factory=list)
    """Those that say what came back to its queue."""
    fired: list[FiredRecord] = field(default_factory=list)
    """Those that say when something scheduled is due again."""
    replies: list[tuple[Replier, bytes]] = field(default_factory=list)
    publications: list[Publications] = field(default_factory=list)
    """Non-persistent sends of transactions."""
    unnumbered: list[Iterator[None]] = field(default_factory=list)
    """What has to be done, step by step, before the records are whole: messages of large
    transactions have no numbers yet."""
    size_bytes: int = 0
    settled_count: int = 0
    """Stored messages that were acknowledged and go into it, also where the records that say so
    are not made yet."""
    dead_letter_count: int = 0
    """Rejected messages that it moves to the dead-letter queue."""
    moved_count: int = 0
    """Messages that records in it move: to apply them takes longer than the records tell."""
    may_take_long: bool = False
    """Records in it may touch more than their bytes and their number tell: they are weighed before
    they are applied."""
    leaving: dict[int, list[list[int]]] = field(default_factory=dict)
    """By queue number, what some of those that settle messages take off; see `leaving_from`."""
    leaving_count: int = 0
    """So many of them are in there."""
    index: int = 0
    """Where it stands in the log if it is committed; 0 until it is proposed."""
    is_applied: bool = False
    is_urgent: bool = False
    """Somebody waits for it. Acknowledgements without a receipt alone are not urgent."""

    def add(self, record: Record) -> None:
        """Put a record behind what is there."""
        self.records.append(record)
        kind = type(record)
        if (
            kind is AcknowledgeRecord
            or kind is DeadLetterRecord
            or kind is SubscriptionAcknowledgeRecord
        ):
            self.settling.append(record)  # type: ignore[arg-type]
        elif type(record) is MoveRecord:
            self.moved_count += record.count
            if not record.is_copy:
                self.settling.append(record)
        elif kind is HoldRecord:
            self.holds.append(record)  # type: ignore[arg-type]
        elif kind is PolicyRecord:
            self.policies.append(record)  # type: ignore[arg-type]
        elif kind is UserRecord or kind is GrantRecord:
            self.access.append(record)  # type: ignore[arg-type]
        elif kind is ReturnedRecord:
            self.returns.append(record)  # type: ignore[arg-type]
        elif kind is FiredRecord:
            self.fired.append(record)  # type: ignore[arg-type]
        elif kind in _MAY_TAKE_LONG:
            self.may_take_long = True

    def has_room(self, size: int, bytes_max: int) -> bool:
        """Whether `size` bytes more are no too large entry; in an empty one anything has room."""
        return not self.records or self.size_bytes + size <= bytes_max

    def add_messages(self, records: list[MessageRecord], content_bytes: int) -> int:
        """Put messages with so much content behind what is there; gives what they count for."""
        size = content_bytes + MESSAGE_OVERHEAD_BYTES * len(records)
        self.records += records
        self.size_bytes += size
        self.is_urgent = self.is_urgent or bool(records)
        self.may_take_long = True  # Their places, and who does not get them, come with the numbers.
        return size

    def leaving_from(self, queue_number: int) -> list[list[int]]:
        """
        Give what its records take off a queue, a list for each of them.

        It is noted by queue when somebody first asks, each record once: there may be thousands of
        them, and as many queues of which it is asked.
        """
        settling, leaving = self.settling, self.leaving
        for place in range(self.leaving_count, len(settling)):
            record = settling[place]
            leaving.setdefault(record.queue_number, []).append(record.sequences)
        self.leaving_count = len(settling)
        return leaving.get(queue_number, [])

    def mark(self) -> list[int]:
        """Note how far it goes, for `take_back`."""
        return [len(part) for part in self._parts()]

    def _parts(self) -> tuple[list[Any], ...]:
        return (
            self.records,
            self.replies,
            self.publications,
            self.unnumbered,
            self.settling,
            self.holds,
            self.policies,
            self.access,
            self.returns,
            self.fired,
        )

    def take_back(self, mark: list[int]) -> list[Record]:
        """
        Remove what was added since `mark` and give its records: a request failed in the middle.

        Declarations and dispatch marks stay: they are whole by themselves, and counted upon.
        """
        added = self.records[mark[0] :]
        for part, length in zip(self._parts(), mark, strict=True):
            del part[length:]
        if self.leaving_count > len(self.settling):
            self.leaving, self.leaving_count = {}, 0
        self.records += [each for each in added if isinstance(each, _WHOLE)]
        removed: list[Record] = [each for each in added if not isinstance(each, _WHOLE)]
        self.size_bytes -= sum(size_of(record) for record in removed)
        return removed


def size_of(record: Record) -> int:
    """About how many bytes a record takes in the log."""
    if type(record) is PolicyRecord:
        return MESSAGE_OVERHEAD_BYTES + len(record.pattern) + len(record.values)
    if type(record) is UserRecord:
        return MESSAGE_OVERHEAD_BYTES + len(record.name) + len(record.values)
    if type(record) is ReturnedRecord:
        return MESSAGE_OVERHEAD_BYTES + _RUN_BYTES * len(record.sequences)
    if type(record) is MoveRecord:
        return record.size
    if type(record) is not MessageRecord:
        return MESSAGE_OVERHEAD_BYTES
    facts = record.facts
    return record.size + MESSAGE_OVERHEAD_BYTES + (0 if facts is None else facts.size)
