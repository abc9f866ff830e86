"""
Messages whose bytes are damaged here: kept from everybody, and offered again now and then.

A peer may have repaired them meanwhile. Until then they are on their queue, and nobody gets them.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.broker.broker import Broker
from holdfast.broker.queue import Queue
from holdfast.broker.subscription import Subscription
from holdfast.environment.clock import Clock
from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.model.records import MessageRecord
from holdfast.server.counters import Counters
from holdfast.store.replicated_store import ReplicatedStore


class WithheldMessages:
    """What could not be read since this node leads."""

    def __init__(
        self,
        broker: Broker,
        store: ReplicatedStore,
        clock: Clock,
        counters: Counters,
        on_damage: Callable[[CorruptEntryError], None],
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._counters = counters
        self._on_damage = on_damage
        self._messages: list[tuple[float, Queue, int]] = []
        """Since when, and which."""

    def __len__(self) -> int:
        return len(self._messages)

    def read(
        self, subscription: Subscription, key: int, record_number: int
    ) -> MessageRecord | None:
        """Read a message that is being delivered; None if it is damaged, and withheld now."""
        try:
            return self._store.read(record_number)
        except (CorruptEntryError, RecordNotFoundError) as error:
            queue = subscription.queue
            assert queue is not None, "only queues keep messages"
            self._broker.withhold(subscription, key)
            self._messages.append((self._clock.monotonic(), queue, key))
            self._counters.damaged += 1
            if isinstance(error, CorruptEntryError):
                self._on_damage(error)
            return None

    def offer_again(self, since: float) -> None:
        """Let everybody have again what is withheld since this time, or longer."""
        due = [item for item in self._messages if item[0] <= since]
        if not due:
            return
        self._messages = [item for item in self._messages if item[0] > since]
        for _, queue, key in due:
            if key in queue.reserved:
                continue  # An open transaction settles it, or gives it back itself.
            queue.withheld.discard(key)
            queue.give_back([key], redelivered=False)
            self._broker.state.touch(queue)

    def clear(self) -> None:
        """Forget all: this node does not lead any more."""
        self._messages.clear()
