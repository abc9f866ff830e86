"""
Sends and acknowledgements held until commit.

A transaction lives with its connection on the leader; nothing of it is in the log before COMMIT.
Then all its records go into one batch, so into one log entry: all or nothing, also over a failover.

What can be made ready is made ready as each part comes, and grouped by queue and subscription:
COMMIT only keeps numbers for the records free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.restoring import restore
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import TransactionError
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import MessageRecord


class Publication(NamedTuple):
    """A message that is handed to those who are there when its transaction commits."""

    destination: Queue | Topic
    headers: bytes
    body: bytes
    facts: MessageFacts | None
    persistent: bool = False
    """Whether it is stored as well, if its topic is by then."""
    is_stored_beside: bool = False
    """Whether its topic was stored when it was sent: those subscriptions get it apart."""


NUMBERED_PER_STEP: Final = 512
"""A message takes about 0.1 µs."""

PLACES_MAX: Final = 64
"""On so many queues one record puts its message: to apply one is a step that is not cut."""

_LARGE_BYTES: Final = 256 * 1024
"""Larger ones are stored once, however many queues they are for: their bytes take longer."""


class FurtherPlace:
    """A place of a message beside its first, which takes its number as messages do."""

    __slots__ = ("queue_number", "sequence", "stored_at")

    def __init__(self) -> None:
        self.queue_number = 0
        self.sequence = 0
        """Its number there, from 1; 0 as long as it has none."""
        self.stored_at = 0
        """The message's own, which each of its places is told again."""


Numbered = MessageRecord | FurtherPlace
"""What takes a number of a queue."""

Placed = tuple[MessageRecord, list[FurtherPlace]]
"""A message that goes to several queues, and where it stands beside its first place."""


class TopicSends:
    """
    Persistent messages for a topic from the first on that was sent while it was not stored.

    They are stored if it is by COMMIT: whoever has a durable subscription by then gets them. All
    that the transaction sends there later is among them, also while it is stored: so the order of
    sending is that of the log, what was sent there before this first one coming before them.
    """

    __slots__ = ("records", "size_bytes")

    def __init__(self) -> None:
        self.records: list[MessageRecord] = []
        self.size_bytes = 0
        """Their content, and what is known of them."""


class Transaction:
    """One local transaction of one connection."""

    __slots__ = (
        "asked",
        "user",
        "by_queue",
        "failure",
        "has_limits",
        "keys_by_queue",
        "late",
        "mirrors",
        "name",
        "operation_count",
        "placed",
        "own_bytes",
        "preparing",
        "publications",
        "records",
        "records_bytes",
        "settings",
        "settlements",
        "size_bytes",
        "targets",
        "unstored",
    )

    def __init__(self, name: str, settings: BrokerSettings, *, has_limits: bool = True) -> None:
        self.name = name
        self.has_limits = has_limits
        """Whether it may grow over what transactions may hold: not if a client adds to it."""
        self.settings = settings
        self.records: list[MessageRecord] = []
        """Persistent messages for queues as they came; they get their numbers at commit."""
        self.records_bytes = 0
        """Their content, and what is known of them."""
        self.by_queue: dict[Queue, list[Numbered]] = {}
        self.placed: list[Placed] = []
        """Those of them that go to several queues, with their further places."""
        self.publications: list[Publication] = []
        """All other sends."""
        self.targets: dict[Queue | Topic, None] = {}
        """Where those go to."""
        self.unstored: dict[str, TopicSends] = {}
        """By topic: what is records, too, if the topic is stored by COMMIT."""
        self.mirrors: set[str] = set()
        """Topics of mirrors that somebody sends to by their own names: no message is left out."""
        self.settlements: dict[Subscription, list[int]] = {}
        self.late: dict[Queue, list[int]] = {}
        """By queue: acknowledgements that outlived their connection."""
        self.keys_by_queue: dict[Queue, list[int]] = {}
        """What both settle of stored messages: COMMIT takes it queue by queue, whoever had it."""
        self.failure: str | None = None
        """Why a part of it was refused; the whole can only be rolled back then."""
        self.size_bytes = 0
        self.operation_count = 0
        self.user: str | None = None
        """Of whose share it is what it holds."""
        self.own_bytes = 0
        """What it is counted for with nothing in it."""
        self.preparing: Iterator[None] | None = None
        """What is left to be done in steps before it commits; None: nobody has begun to."""
        self.asked = 0
        """What its COMMIT took, in deliveries, to ask durable subscriptions what they want; 0 where
        that is done in steps, later."""

    def add_send(
        self,
        destination: Queue | Topic,
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
        facts: MessageFacts | None = None,
        is_stored_beside: bool = False,
    ) -> None:
        """
        Hold a send until commit; to a topic, perhaps, that it is sent to as a stored one, too.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        size = len(headers) + len(body)
        if not self._sends_to(destination):
            self._require_place()
        self._grow(1, size)
        if not persistent or not isinstance(destination, Queue) or destination.is_temporary:
            self.publications.append(
                Publication(destination, headers, body, facts, persistent, is_stored_beside)
            )
            self.targets[destination] = None
            is_of_topic = isinstance(destination, Topic) and not destination.is_temporary
            if persistent and is_of_topic and not is_stored_beside:
                self._add_unstored(destination.name, headers, body, facts)
            return
        if self.unstored and self._is_among_unstored(destination):
            self._add_unstored(destination.name, headers, body, facts)
            return
        record = MessageRecord(destination.number, 0, headers, body, size)
        record.facts = facts
        self.records.append(record)
        self.records_bytes += size if facts is None else size + facts.size
        self._number_on(destination, record)

    def _is_among_unstored(self, destination: Queue) -> bool:
        return type(destination) is StoredTopic and destination.name in self.unstored

    def add_sends(
        self,
        destinations: Sequence[Queue | Topic],
        headers: bytes,
        body: bytes,
        *,
        persistent: bool,
        stored_once: bool,
        facts: MessageFacts | None = None,
    ) -> None:
        """
        Hold one message for several destinations until commit.

        Where it is kept it is stored once for so many queues, with a place on each of them; or, if
        not `stored_once`, on each for itself, as older members of the cluster know it.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        # A topic's message is a record of its own: that says which subscriptions do not want it.
        lasting = (each for each in destinations if type(each) is Queue)
        queues = [each for each in lasting if persistent and not each.is_temporary]
        shared = queues if stored_once and len(queues) > 1 else []
        among_shared = set(shared)
        alone = [each for each in destinations if each not in among_shared]
        size = len(headers) + len(body)
        count_max = PLACES_MAX if size <= _LARGE_BYTES else max(1, len(shared))
        parts = [shared[at : at + count_max] for at in range(0, len(shared), count_max)]
        placed = [_with_places(facts, len(part) - 1) for part in parts]
        overhead = self.settings.message_memory_overhead_bytes * (len(shared) - len(parts))
        once = sum(size + each.size for each in placed) + overhead
        self._require_room(len(destinations), once + len(alone) * size)
        self._require_place([each for each in destinations if not self._sends_to(each)])
        self._grow(len(shared), once)
        for part, known in zip(parts, placed, strict=True):
            record = MessageRecord(part[0].number, 0, headers, body, size)
            record.facts = known
            self.records.append(record)
            self.records_bytes += size + known.size
            self._number_on(part[0], record)
            further = [FurtherPlace() for _ in part[1:]]
            self.placed.append((record, further))
            for queue, place in zip(part[1:], further, strict=True):
                self._number_on(queue, place)
        stored = {each.name for each in alone if isinstance(each, StoredTopic)}
        for destination in alone:
            is_stored_beside = isinstance(destination, Topic) and destination.name in stored
            self.add_send(
                destination,
                headers,
                body,
                persistent=persistent,
                facts=facts,
                is_stored_beside=is_stored_beside,
            )

    def _add_unstored(
        self, topic: str, headers: bytes, body: bytes, facts: MessageFacts | None
    ) -> None:
        sends = self.unstored.get(topic)
        if sends is None:
            sends = self.unstored[topic] = TopicSends()
        size = len(headers) + len(body)
        record = MessageRecord(0, 0, headers, body, size)
        record.facts = facts
        sends.records.append(record)
        sends.size_bytes += size if facts is None else size + facts.size

    def _sends_to(self, destination: Queue | Topic) -> bool:
        return destination in self.by_queue or destination in self.targets

    def _number_on(self, queue: Queue, numbered: Numbered) -> None:
        of_queue = self.by_queue.get(queue)
        if of_queue is None:
            of_queue = self.by_queue[queue] = []
        of_queue.append(numbered)

    def add_settlement(self, subscription: Subscription, keys: list[int]) -> None:
        """
        Hold an acknowledgement until commit; the deliveries leave the prefetch window now.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        held = self.settlements.get(subscription)
        if held is None:
            self._require_place()
        self._grow(len(keys), 0)
        subscription.reserve(keys)
        queue = subscription.queue
        if queue is not None:
            queue.custody.reserved.update(keys)
            self._settle_at_commit(queue, keys)
        if held is None:
            held = self.settlements[subscription] = []
        held += keys

    def add_late(self, queue: Queue, key: int) -> None:
        """
        Hold an acknowledgement of what nobody has until commit; nobody gets it meanwhile.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        if queue not in self.late:
            self._require_place()
        self._grow(1, 0)
        queue.reserve(key)
        self._settle_at_commit(queue, [key])
        self.late.setdefault(queue, []).append(key)

    @property
    def settles_on(self) -> set[Queue]:
        """On which queues it acknowledges."""
        return set(self.keys_by_queue)

    def without(self, queues: Collection[Queue]) -> Transaction:
        """
        Take what it acknowledges on these queues out of it.

        Returns:
            That as a transaction of its own, to be undone; it takes nothing of the memory.
        """
        apart = Transaction(self.name, self.settings, has_limits=False)
        for queue in queues:
            apart.keys_by_queue[queue] = self.keys_by_queue.pop(queue)
            late = self.late.pop(queue, None)
            if late is not None:
                apart.late[queue] = late
        for subscription in list(self.settlements):
            if subscription.queue in queues:
                apart.settlements[subscription] = self.settlements.pop(subscription)
        return apart

    def _settle_at_commit(self, queue: Queue, keys: list[int]) -> None:
        """Group what lasts by queue as it comes, so that COMMIT does not look at each key."""
        of_queue = self.keys_by_queue.get(queue)
        if of_queue is None:
            of_queue = self.keys_by_queue[queue] = []
        if keys[0] > 0 and (len(keys) == 1 or min(keys) > 0):
            of_queue += keys
        else:
            of_queue += [key for key in keys if key > 0]

    @property
    def held_bytes(self) -> int:
        """What it takes of the memory for open transactions."""
        overhead_bytes = self.settings.message_memory_overhead_bytes
        return (
            self.own_bytes
            + self.size_bytes
            + overhead_bytes * (len(self.records) + len(self.publications))
        )

    @property
    def destinations(self) -> tuple[Queue | Topic, ...]:
        """Where it sends to."""
        return (*self.by_queue, *self.targets)

    @property
    def numbered_count(self) -> int:
        """How many numbers of queues it needs."""
        return len(self.records) + sum(len(further) for _, further in self.placed)

    def missing_queues(self, is_known: Callable[[str], bool]) -> int:
        """Count the queues it sends to that were deleted since, and whose names mean nothing."""
        return len(
            {
                destination.name
                for destination in self.destinations
                if destination.is_deleted
                and type(destination) is Queue
                and not destination.is_temporary
                and not is_known(destination.name)
            }
        )

    def undo(self, step_count: int) -> Iterator[Queue | Subscription | None]:
        """
        Roll back in steps: what was acknowledged is in delivery again and may be so again.

        It stands before what was delivered after it. What cannot be in delivery, because its
        subscription is closed, or another one is the only one by now, or it never had one, goes
        back to its queue, from which nothing else is given meanwhile; each such queue, and each
        subscription that is as it was, is told of when all of it is there.
        """
        for subscription, keys in self.settlements.items():
            count = 0
            queue, client = subscription.queue, subscription.client
            may_hold = queue is None or queue.choice.may_hold(subscription)
            if may_hold and not subscription.is_closed:
                count = yield from restore(subscription, keys, step_count)
            is_whole = may_hold and not subscription.is_closed
            if not is_whole and queue is not None:
                yield from queue.release(subscription, keys[count:], step_count, client)
            subscription.reserved_count -= len(keys)
            if is_whole:
                yield subscription
            elif queue is not None:
                yield queue
        for queue, keys in self.late.items():
            yield from queue.release(object(), keys, step_count)
            yield queue

    def _require_place(self, more: Sequence[object] = (None,)) -> None:
        """Refuse more queues, topics or subscriptions where COMMIT would have too many to see."""
        count_max = self.settings.transaction_destination_count_max
        count = len(self.by_queue) + len(self.targets) + len(self.settlements) + len(self.late)
        if self.has_limits and count + len(more) > count_max:
            raise TransactionError(
                f"transaction {self.name!r} has more than {count_max:,} destinations and"
                f" subscriptions; commit more often"
            )

    def _grow(self, count: int, size: int) -> None:
        self._require_room(count, size)
        self.operation_count += count
        self.size_bytes += size

    def _require_room(self, count: int, size: int) -> None:
        settings = self.settings
        if not self.has_limits:
            return
        if self.operation_count + count > settings.transaction_operation_count_max:
            raise TransactionError(
                f"transaction {self.name!r} has more than"
                f" {settings.transaction_operation_count_max:,} operations; commit more often"
            )
        if self.size_bytes + size > settings.transaction_bytes_max:
            raise TransactionError(
                f"transaction {self.name!r} has more than"
                f" {settings.transaction_bytes_max:,} bytes; commit more often"
            )


def _with_places(facts: MessageFacts | None, count: int) -> MessageFacts:
    """Give facts with so many places more, of which none has its number yet."""
    return replace(facts or MessageFacts(), places=(Place(0, 0),) * count)


class Run(NamedTuple):
    """Messages of a transaction, the queue that they go to now, and the first of their numbers."""

    queue: Queue
    first: int
    records: Sequence[Numbered]

    def asked_for(self, client_id: str) -> int:
        """What asking who does not want these takes, in deliveries; of queues nobody is asked."""
        if type(self.queue) is not StoredTopic:
            return 0
        return len(self.records) * self.queue.asking_effort(client_id)


def _note_who_skips(
    topic: StoredTopic, records: Sequence[Numbered], client_id: str
) -> Generator[None, None, int]:
    """Let messages say which subscriptions of their topic do not want them; what is left over."""
    effort = 0
    asking = topic.asking_effort(client_id)
    for record in records:
        assert isinstance(record, MessageRecord), "a topic is no further place"
        skips = topic.skips_of(record.sequence, record, client_id)
        if skips:
            record.facts = replace(record.facts or MessageFacts(), skips=skips)
        effort += asking
        if effort >= NUMBERED_PER_STEP:
            effort = 0
            yield
    return effort


def number_messages(
    runs: list[Run], placed: list[Placed], now_microseconds: int, client_id: str = ""
) -> Iterator[None]:
    """Give messages of a client's transaction their numbers, in steps; on all of their queues."""
    effort = 0
    for queue, first, records in runs:
        number = queue.number
        for start in range(0, len(records), NUMBERED_PER_STEP):
            some = records[start : start + NUMBERED_PER_STEP]
            for sequence, record in enumerate(some, first + start):
                record.queue_number = number
                record.sequence = sequence
                record.stored_at = now_microseconds
            effort += len(some)
            if type(queue) is StoredTopic and queue.asks_of(client_id):
                effort += yield from _note_who_skips(queue, some, client_id)
            if effort >= NUMBERED_PER_STEP:
                effort = 0
                yield
    for message, further in placed:
        assert message.facts is not None, "it has places"
        places = tuple([Place(each.queue_number, each.sequence) for each in further])
        message.facts = replace(message.facts, places=places)
        effort += len(further)
        if effort >= NUMBERED_PER_STEP:
            effort = 0
            yield
