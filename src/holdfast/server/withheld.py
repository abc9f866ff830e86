"""
Messages whose bytes are damaged here: kept from everybody, and offered again now and then.

A peer may have repaired them meanwhile. Until then they are on their queue, and nobody gets them.
One entry may hold a hundred thousand, so they are offered in short steps; and as long as an entry
is known to be damaged its messages are not, since whole ones wait behind what is tried in vain.

Invariants:
    A message is noted once, however often it is tried in vain.
    Nothing is offered that is kept from everybody for another reason by then, or that somebody has.

Owned by the loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.broker.broker import Broker
from holdfast.broker.moved import read_as_it_stands
from holdfast.broker.serving.browser import is_wanted
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.examiner import Examiner
from holdfast.broker.serving.subscription import Subscription
from holdfast.environment.clock import Clock
from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.model.records import MessageRecord
from holdfast.server.counters import Counters
from holdfast.store.contract import LogStore


class _Look(NamedTuple):
    """The last look at a message that could not be read."""

    at: float
    """When, in seconds of the monotonic clock."""
    entry_index: int
    """The damaged entry that holds it; 0 if it is not known."""


class WithheldMessages:
    """What could not be read since this node leads."""

    def __init__(
        self,
        broker: Broker,
        store: LogStore,
        clock: Clock,
        counters: Counters,
        on_damage: Callable[[CorruptEntryError], None],
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._counters = counters
        self._on_damage = on_damage
        self._messages: OrderedDict[tuple[Queue, int], _Look] = OrderedDict()
        """By queue and key; who was looked at longest ago first."""
        self._told: set[int] = set()
        """Damaged entries of which it was told; they hold many messages."""
        self._is_offering = False

    def __len__(self) -> int:
        return len(self._messages)

    def read(self, consumer: Consumer, key: int, record_number: int) -> MessageRecord | None:
        """
        Read a message that is being delivered; None if nobody gets it.

        Then it is damaged, and withheld now, or it is only looked at, who wants it.
        """
        try:
            message = self._read(consumer, key, record_number)
            if type(consumer) is Examiner:
                consumer.examine(key, message)
                return None
            if consumer.selector is None or self._is_shown(consumer, key, message):
                return message
            self._pass_over(consumer, key, 0)
            consumer.receiver.recount_room()
            return None
        except (CorruptEntryError, RecordNotFoundError) as error:
            index = error.index if isinstance(error, CorruptEntryError) else 0
            self._pass_over(consumer, key, index)
            consumer.receiver.recount_room()
            if isinstance(error, CorruptEntryError) and index not in self._told:
                if index:
                    self._told.add(index)
                self._on_damage(error)
            return None

    @staticmethod
    def _is_shown(consumer: Consumer, key: int, message: MessageRecord) -> bool:
        """Whether who only looks through a queue wants a message; others were asked before."""
        assert isinstance(consumer, Subscription), "every consumer is one"
        if consumer.browser is None:
            return True
        queue = consumer.browser.queue
        flagged = queue.delivery_count(key) if queue.is_flagged(key) else 0
        return is_wanted(consumer, key, message, flagged)

    def _pass_over(self, consumer: Consumer, key: int, index: int) -> None:
        """Keep a message from everybody; who only looks through a queue gets the next one."""
        assert isinstance(consumer, Subscription), "every consumer is one"
        subscription, queue = consumer, consumer.queue
        if queue is None:
            subscription.unacknowledged.pop(key, None)
            self._broker.refill(subscription)
            return
        self._broker.withhold(subscription, key)
        self._counters.damaged += (queue, key) not in self._messages
        self._note(queue, key, index)

    def _read(self, consumer: Consumer, key: int, record_number: int) -> MessageRecord:
        queue = consumer.source if isinstance(consumer, Subscription) else None
        if queue is None:
            return self._store.read(record_number)
        cluster = self._broker.moving.cluster
        return read_as_it_stands(
            self._store, record_number, queue.number, queue.index, key, cluster
        )

    def _note(self, queue: Queue, key: int, index: int) -> None:
        self._messages[queue, key] = _Look(self._clock.monotonic(), index)
        self._messages.move_to_end((queue, key))

    def _is_due(self, since: float) -> bool:
        oldest = next(iter(self._messages.values()), None)
        return oldest is not None and oldest.at <= since

    def offer_again(self, since: float) -> None:
        """Let everybody have again, in steps, what is withheld since this time, or longer."""
        if not self._is_offering and self._is_due(since):
            self._is_offering = True
            self._broker.errands.begin(self._offer(since))

    def _offer(self, since: float) -> Iterator[None]:
        step_count = self._broker.settings.step_count_max
        count = 0
        while self._is_due(since):
            (queue, key), look = self._messages.popitem(last=False)
            try:
                self._offer_one(queue, key, look.entry_index)
            except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                self._broker.errands.fail(queue, error)
            count += 1
            if not count % step_count:
                yield
        self._is_offering = False

    def _offer_one(self, queue: Queue, key: int, index: int) -> None:
        if not queue.index.is_live(key):
            return
        if index and self._store.is_damaged_entry(index):
            self._note(queue, key, index)
            return
        self._told.discard(index)
        if queue.custody.mend(key):
            queue.give_back([key], redelivered=False)
            queue.touch()

    def clear(self) -> None:
        """Forget all: this node does not lead any more, and its errands are over."""
        self._messages = OrderedDict()
        self._told.clear()
        self._is_offering = False
