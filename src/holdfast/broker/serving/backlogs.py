"""
What waits for topic subscribers without room, and what of it was sent before they came.

What a topic kept for who comes later is given to him as if it were spread: he cannot have read it
by then, however fast he is. So that holds up nobody who sends, and his connection is not slow for
it, up to what all topics together may keep.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.broker.serving.consumer import Consumer, Receiver
from holdfast.broker.serving.message import TransientMessage

PLACE_BYTES: Final = 16
"""What a message that waits for one subscription takes for waiting for one more."""

_Owner = TypeVar("_Owner")


class Backlogs:
    """
    What waits for topic subscribers without room, over all topics, by connection.

    A message that waits for many is there once: each connection counts it, all together once.
    """

    __slots__ = (
        *("_overhead_bytes", "_recovered", "evicted_total", "growth_bytes", "recovered_sizes"),
        *("sizes", "tell_evicted", "total_bytes"),
    )

    def __init__(self, overhead_bytes: int) -> None:
        self._overhead_bytes = overhead_bytes
        self.sizes: dict[Receiver, int] = {}
        """How many bytes wait for each connection, if any."""
        self.recovered_sizes: dict[Receiver, int] = {}
        """How many of them were sent before their subscription came."""
        self._recovered: dict[Consumer, int] = {}
        """The same by subscription, contents only: the oldest of what waits for it."""
        self.total_bytes = 0
        self.growth_bytes = 0
        """What was added since somebody looked."""
        self.evicted_total = 0
        """Messages that were dropped as too many waited for a subscription, of all leaderships of
        this process."""
        self.tell_evicted: Callable[[Consumer, int], None] = lambda _consumer, _key: None
        """Is told of each of them."""

    def add(self, subscription: Consumer, message: TransientMessage) -> None:
        """Let a message wait for a subscription."""
        if subscription.pending is None:
            subscription.pending = deque()
        subscription.pending.append(message)
        subscription.pending_bytes += message.size
        size = message.size + self._overhead_bytes
        receiver = subscription.receiver
        self.sizes[receiver] = self.sizes.get(receiver, 0) + size
        self.total_bytes += PLACE_BYTES if message.waiting_count else size
        message.waiting_count += 1
        self.growth_bytes += size

    def note_recovered(self, subscription: Consumer, message: TransientMessage) -> None:
        """Note that what was just given to a subscription was sent before that came."""
        if subscription.pending and subscription.pending[-1] is message:
            receiver, size = subscription.receiver, message.size
            self._recovered[subscription] = self._recovered.get(subscription, 0) + size
            before = self.recovered_sizes.get(receiver, 0)
            self.recovered_sizes[receiver] = before + size + self._overhead_bytes

    def since_bytes(self, subscription: Consumer) -> int:
        """Give how much of what waits for a subscription was sent since it came."""
        return subscription.pending_bytes - self._recovered.get(subscription, 0)

    def take(self, subscription: Consumer) -> TransientMessage:
        """Take the oldest message that waits for a subscription."""
        assert subscription.pending is not None, "only called where something waits"
        message = subscription.pending.popleft()
        subscription.pending_bytes -= message.size
        size = message.size + self._overhead_bytes
        _shrink(self.sizes, subscription.receiver, size)
        if subscription in self._recovered:
            _shrink(self.recovered_sizes, subscription.receiver, size)
            _shrink(self._recovered, subscription, message.size)
        self._let_go(message)
        return message

    def drop_oldest(self, subscription: Consumer) -> None:
        """Drop the oldest messages that wait for a subscription, if they are more than may."""
        most = subscription.pending_max
        if most is None or most < 0 or subscription.pending is None:
            return
        while len(subscription.pending) > most:
            message = self.take(subscription)
            self.evicted_total += 1
            self.tell_evicted(subscription, message.key)

    def shorten(self, subscription: Consumer, bytes_max: int) -> None:
        """Drop the oldest messages that wait for a subscription until they are no more than that;
        the newest stays.
        """
        pending = subscription.pending
        while pending and len(pending) > 1 and subscription.pending_bytes > bytes_max:
            self.take(subscription)
            self.evicted_total += 1

    def drop(self, subscription: Consumer) -> None:
        """Forget what waits for a subscription that is closed."""
        while subscription in self._recovered:
            self.take(subscription)
        if subscription.pending:
            size = subscription.pending_bytes + len(subscription.pending) * self._overhead_bytes
            _shrink(self.sizes, subscription.receiver, size)
            for message in subscription.pending:
                self._let_go(message)
            subscription.pending.clear()
            subscription.pending_bytes = 0

    def _let_go(self, message: TransientMessage) -> None:
        message.waiting_count -= 1
        if message.waiting_count:
            self.total_bytes -= PLACE_BYTES
        else:
            self.total_bytes -= message.size + self._overhead_bytes

    def clear(self) -> None:
        """Forget everybody: nobody is connected any more."""
        self.sizes.clear()
        self.recovered_sizes.clear()
        self._recovered.clear()
        self.total_bytes = self.growth_bytes = 0


def _shrink(sizes: dict[_Owner, int], owner: _Owner, size: int) -> None:
    left = sizes[owner] - size
    if left:
        sizes[owner] = left
    else:
        del sizes[owner]
