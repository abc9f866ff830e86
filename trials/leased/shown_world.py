"""
Messages that come, go and are shown: one broker after the other, over a database that takes what it
is told, loses it, or takes it and does not say so.

The real `ShowingMessages` looks over the state of a real broker. Whoever looks into the database by
hand deletes rows, and adds some, while nobody holds the lease. In the end all is left alone for a
while, and what is shown must be what there is.

    live(seed)      gives what was broken, or nothing
"""

from __future__ import annotations

import random
from collections.abc import Callable

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.leases.projection import (
    KEYS_MAX,
    Changes,
    MessageKey,
    MessageRow,
    Span,
    SubscriptionRow,
)
from holdfast.model.facts import Cause
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.server import showing_messages
from holdfast.server.showing_messages import ShowingMessages
from holdfast.server.showing_walk import SECONDS_MAX

_TOPIC, _SUBSCRIPTIONS = 90, (91, 92)
_OPERATIONS = 400
_QUEUES_MAX = 6
_FIRST = 400
"""Where queues begin: a little before the 512th number."""


class Database:
    """The tables for people, without SQL."""

    def __init__(self) -> None:
        self.messages: dict[MessageKey, MessageRow] = {}
        self.subscriptions: dict[int, SubscriptionRow] = {}

    def write(self, changes: Changes) -> None:
        """All of it."""
        for span in changes.settled:
            for key in [it for it in self.messages if _is_within(it, span)]:
                del self.messages[key]
        for row in changes.messages:
            self.messages[MessageKey(row.queue_number, row.sequence)] = row
        for told in changes.subscriptions:
            self.subscriptions[told.number] = told
        for number in changes.ended:
            self.subscriptions.pop(number, None)
        for number, known in list(self.subscriptions.items()):
            if known.as_of_index < changes.subscriptions_stale_before:
                del self.subscriptions[number]

    def keys(self, after: MessageKey) -> tuple[MessageKey, ...]:
        """Of the rows behind this one."""
        return tuple(sorted(it for it in self.messages if it > after)[:KEYS_MAX])


def _is_within(key: MessageKey, span: Span) -> bool:
    return key.queue_number == span.queue_number and span.first <= key.sequence <= span.last


class World:
    """One life of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a life, and no secret
        self.database = Database()
        self.broker = Broker(BrokerSettings())
        self.applied_index = self.largest = 0
        self.contents: dict[int, MessageRecord] = {}
        self.moves: dict[int, MoveRecord] = {}
        self.entries: dict[int, int] = {}
        self.damaged: set[int] = set()
        self.term, self.projections_lost = 1, 0
        self.shown_keys: tuple[MessageKey, ...] = ()
        self.waiting: Changes | None = None
        self.now = 0.0
        self.next_number = 1
        self.showing = self._another()
        for _ in range(3):
            self._declare()
        self.apply(TopicRecord(_TOPIC, "news"))
        for slot, number in enumerate(_SUBSCRIPTIONS):
            self.apply(SubscriptionRecord(number, _TOPIC, slot, "client", f"s{slot}"))

    def _another(self) -> ShowingMessages:
        return ShowingMessages(self.broker, self, self, with_bodies=True)

    # The log, as it is read ---------------------------------------------------------------------

    def read(self, record_number: int) -> MessageRecord:
        """Give a message."""
        if record_number in self.damaged:
            raise CorruptEntryError("a bit", segment="x", index=1)
        return self.contents[record_number]

    def read_move(self, record_number: int) -> MoveRecord:
        """Give a move."""
        return self.moves[record_number]

    def entry_index(self, record_number: int) -> int:
        """Give the entry of a record."""
        return self.entries[record_number]

    def apply(self, *records: Record) -> None:
        """Commit an entry."""
        self.applied_index += 1
        first = 10_000 * self.applied_index
        for number, record in enumerate(records, start=first):
            self.entries[number] = self.applied_index
            if isinstance(record, MessageRecord):
                self.contents[number] = record
            if isinstance(record, MoveRecord):
                self.moves[number] = record
        self.broker.apply_entry(first, list(records), self.applied_index)

    # The driver ---------------------------------------------------------------------------------

    @property
    def can_project(self) -> bool:
        """Whether nothing waits to be written."""
        return self.waiting is None

    def project(self, changes: Changes) -> None:
        """Take what is to be written."""
        assert self.waiting is None, "something waits"
        self.waiting = changes
        rows = sum(span.last - span.first + 1 for span in changes.settled)
        self.largest = max(self.largest, len(changes.messages), rows)

    def _answer(self, *, is_done: bool, is_known: bool) -> None:
        changes, self.waiting = self.waiting, None
        if changes is None:
            return
        if is_done:
            self.database.write(changes)
        if not is_known:
            self.projections_lost += 1
        elif changes.keys_after is not None:
            self.shown_keys = self.database.keys(changes.keys_after)

    # What happens -------------------------------------------------------------------------------

    def live(self) -> str:
        """Live through it; give what was broken."""
        happenings: list[tuple[int, Callable[[], None]]] = [
            (30, self._send),
            (30, self._acknowledge),
            (4, self._purge),
            (3, self._declare),
            (2, self._delete),
            (6, self._move),
            (3, self._end_or_begin_subscription),
            (60, self._work),
            (6, self._lose),
            (4, self._take_over),
            (6, self._damage),
            (20, self._replace),
        ]
        weights = [it for it, _ in happenings]
        for _ in range(_OPERATIONS):
            happen = self.random.choices([it for _, it in happenings], weights)[0]
            happen()
        return self._end()

    def _work(self) -> None:
        for _ in range(self.random.randrange(40)):
            self.now += self.random.choice((0.01, 0.01, 1.0, 6.0))
            self.showing.step(self.now, _after(self.random.choice((1, 3, 100))), is_serving=True)
            if self.random.random() < 0.9:
                self._answer(is_done=True, is_known=True)

    def _lose(self) -> None:
        self._answer(is_done=self.random.random() < 0.5, is_known=False)

    def _take_over(self) -> None:
        self._answer(is_done=self.random.random() < 0.5, is_known=False)
        self.term += 1
        if self.random.random() < 0.7:
            self.showing = self._another()
        else:
            self.showing.step(self.now, lambda: True, is_serving=False)
        rows = list(self.database.messages)
        for key in self.random.sample(rows, min(len(rows), self.random.randrange(4))):
            row = self.database.messages.pop(key)
            if self.random.random() < 0.5:
                other = MessageKey(self.random.choice((key.queue_number, 77)), key.sequence + 3)
                self.database.messages.setdefault(other, row)

    def _damage(self) -> None:
        if self.damaged or not self.contents:
            self.damaged.clear()
        else:
            newest = list(self.contents)[-60:]
            self.damaged.update(self.random.sample(newest, len(newest) // 2))

    def _queues(self) -> list[int]:
        state = self.broker.state
        return [it.number for it in state.by_name.values()]

    def _declare(self) -> None:
        if len(self._queues()) < _QUEUES_MAX:
            number, self.next_number = self.next_number, self.next_number + 1
            self.apply(QueueRecord(number, f"q{number}", _FIRST))

    def _delete(self) -> None:
        if len(self._queues()) > 2:
            self.apply(DeleteQueueRecord(self.random.choice(self._queues())))

    def _send(self) -> None:
        number = self.random.choice([*self._queues(), _TOPIC])
        lasting = self.broker.state.queues[number]
        following = lasting.next_sequence + self.random.choice((0, 0, 0, 600))
        count = self.random.choice((1, 2, 30, 300))
        self.apply(*(_message(number, following + it) for it in range(count)))

    def _living(self, number: int) -> list[int]:
        lasting = self.broker.state.queues[number]
        return list(lasting.index.sequences(1, lasting.next_sequence))

    def _some(self, number: int) -> list[int]:
        living = self._living(number)
        if self.random.random() < 0.3:
            return living
        count = min(len(living), self.random.choice((1, 5, 100)))
        return sorted(self.random.sample(living, count))

    def _acknowledge(self) -> None:
        subscriptions = [it for it in _SUBSCRIPTIONS if it in self.broker.state.queues]
        number = self.random.choice([*self._queues(), *subscriptions])
        some = self._some(number)
        if some and number in _SUBSCRIPTIONS:
            self.apply(SubscriptionAcknowledgeRecord(number, some, _TOPIC))
        elif some:
            self.apply(AcknowledgeRecord(number, some))

    def _replace(self) -> None:
        """One comes and one goes."""
        number = self.random.choice(self._queues())
        following = self.broker.state.queues[number].next_sequence
        if living := self._living(number):
            gone = AcknowledgeRecord(number, [self.random.choice(living)])
            self.apply(_message(number, following), gone)

    def _purge(self) -> None:
        number = self.random.choice(self._queues())
        last = self.broker.state.queues[number].next_sequence - 1
        self.apply(PurgeRecord(number, last - self.random.choice((0, 7))))

    def _move(self) -> None:
        source, target = self.random.sample(self._queues(), 2)
        following = self.broker.state.queues[target].next_sequence
        some = self._some(source)[:50]
        runs = [Run(it, following + place, 1) for place, it in enumerate(some)]
        if runs:
            self.apply(MoveRecord(source, target, Cause.MOVED, runs, queue_name=f"q{source}"))

    def _end_or_begin_subscription(self) -> None:
        number = self.random.choice(_SUBSCRIPTIONS)
        slot = _SUBSCRIPTIONS.index(number)
        state = self.broker.state
        if number in state.queues:
            self.apply(DeleteQueueRecord(number, _TOPIC))
        else:
            first = state.queues[_TOPIC].next_sequence
            told = SubscriptionRecord(
                number, _TOPIC, slot, "client", f"s{slot}", first_sequence=first
            )
            self.apply(told)

    # The end ------------------------------------------------------------------------------------

    def _end(self) -> str:
        self.damaged.clear()
        self._answer(is_done=True, is_known=True)
        for _ in range(3):
            self.now += SECONDS_MAX
            while self.showing.step(self.now, lambda: False, is_serving=True):
                self._answer(is_done=True, is_known=True)
        return self._broken()

    def _broken(self) -> str:
        state, shown = self.broker.state, self.database.messages
        there = {
            MessageKey(number, sequence)
            for number in [*self._queues(), _TOPIC]
            for sequence in self._living(number)
        }
        if too_much := set(shown) - there:
            return f"{min(too_much)} is shown and not there"
        if missing := there - set(shown):
            return f"{min(missing)} is there and not shown"
        for key, row in shown.items():
            number = state.queues[key.queue_number].index.record_number(key.sequence)
            found = (row.queue_number, row.sequence, row.body)
            if found != (*key, self.contents[number].body):
                return f"{key} is shown as another message"
        told = {it.number: it.depth for it in self.database.subscriptions.values()}
        wanted = {it.number: it.index.live_count for it in state.subscriptions.values()}
        if told != wanted:
            return f"subscriptions are shown as {told} and are {wanted}"
        limit = max(showing_messages.ROWS_MAX, 2 * showing_messages.SETTLED_MAX)
        return f"{self.largest} rows were told at once" if self.largest > limit else ""


def _after(steps: int) -> Callable[[], bool]:
    """A slice that is over after so many steps."""
    left = iter(range(steps))
    return lambda: next(left, None) is None


def _message(number: int, sequence: int) -> MessageRecord:
    body = b"%d-%d" % (number, sequence)
    record = MessageRecord(number, sequence, b"", body, len(body))
    record.stored_at = 1_000 * sequence
    return record


def live(seed: int) -> str:
    """Live through one world; give what was broken in it, or nothing."""
    return World(seed).live()
