"""
Which one consumer gets messages, where only one may: who asked first, of the highest priority.

It is in one of three states:

    nobody asks           everybody gets messages
    active                one gets them
    draining(successor)   nobody does, until all others hold nothing any more; then the successor is
                          active

So no two ever hold messages of the queue at once, and their order is kept: what comes back while it
drains stays where it is until the successor gets it. Who does not let go by the deadline has taken
from him what he holds. What he holds by a transaction then stays with that, and is the queue's, not
his, should it be rolled back.

Invariants:
    Somebody becomes active only when nobody else holds anything and nothing is on its way back.
    Where many held messages before, they are looked through in steps.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import islice
from typing import Final

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.ring import Ring
from holdfast.model.records import ReturnCause

DRAIN_MS: Final = 60_000
"""So long whoever held messages may take to be done with them."""

_AGAIN_MS: Final = 100
"""Until it is tried again to take back what a transaction is just giving back."""

AT_ONCE: Final = 1
"""A time that is over by now, in milliseconds since the epoch."""


class Sole:
    """The one consumer of a queue that gets messages, or is to get them."""

    __slots__ = (
        "_deadline_ms",
        "_holders",
        "_is_overdue",
        "_queue",
        "_unlooked",
        "active",
        "is_in_force",
        "ring",
        "successor",
    )

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.active: Consumer | None = None
        self.successor: Consumer | None = None
        self.is_in_force = False
        """Whether only one may get messages: somebody has asked for it."""
        self.ring = Ring()
        """Where the active one stands while it has room; others never do."""
        self._holders: dict[Consumer, None] = {}
        """Who else may hold something."""
        self._unlooked: deque[Consumer] = deque()
        """Who got messages as all others did, and was not asked yet whether it holds some."""
        self._deadline_ms = 0
        """Until when it may drain; 0: nobody knows yet what time it is."""
        self._is_overdue = False
        """What consumers hold is taken back; what transactions hold is waited for no more."""

    @property
    def is_draining(self) -> bool:
        """Whether nobody gets anything, as others than the next one may hold something."""
        return self.successor is not None

    def may_hold(self, consumer: Consumer) -> bool:
        """Whether what a transaction of a consumer gives back may be in its hands again."""
        if not self.is_in_force or consumer is self.active:
            return True
        return self.is_draining and not self._is_overdue

    def succeed(self, successor: Consumer | None, everybody: Collection[Consumer] = ()) -> None:
        """
        Let another one be the only one, as soon as may be; None: nobody asks for it any more.

        Args:
            everybody: Who may hold something, where all got messages until now.
        """
        before = self.active or self.successor
        if before is not None and (before.unacknowledged or before.reserved_count):
            self._holders[before] = None
        if self.active is not None and not self.active.is_closed:
            self.ring.take(self.active)
        was_draining, was_in_force = self.is_draining, self.is_in_force
        self.active, self.successor = None, successor
        self.is_in_force = successor is not None
        if successor is None:
            self._unlooked.clear()
            return
        self._holders.pop(successor, None)
        if not was_in_force:
            self._unlooked.extend(everybody)
        if not was_draining:
            self._deadline_ms, self._is_overdue = 0, False
            self._queue.leadership.rouse(self._queue, AT_ONCE)

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer is closed; what its transactions hold is waited for."""
        if consumer is self.active:
            self.ring.leave(consumer)
        elif not self.is_draining:
            return
        if consumer.unacknowledged or consumer.reserved_count:
            self._holders[consumer] = None

    @property
    def is_waited_for(self) -> bool:
        """Whether a transaction of somebody who is closed still holds something."""
        return any(each.reserved_count for each in self._holders)

    def look(self, count_max: int) -> bool:
        """Look whether the successor may have messages; false if not all were looked at."""
        unlooked, holders = self._unlooked, self._holders
        for _ in range(min(count_max, len(unlooked))):
            each = unlooked.popleft()
            each.is_ready = False  # It stands in no ring any more.
            if self._holds(each):
                holders[each] = None
        for _ in range(count_max):
            if not holders:
                break
            each = next(iter(holders))
            if self._holds(each):
                return not unlooked
            del holders[each]
        if unlooked or holders:
            return False
        comebacks = self._queue.custody.comebacks
        if comebacks is None or not comebacks.under_way:
            active = self.active = self.successor
            self.successor = None
            assert active is not None, "somebody was to be the next one"
            self.ring.make_ready(active)
        return True

    def _holds(self, consumer: Consumer) -> bool:
        if consumer is self.successor:
            return False
        return bool(consumer.unacknowledged or (consumer.reserved_count and not self._is_overdue))

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """Take back what is held beyond the deadline; gives how much, and when to go on, or 0."""
        if not self.is_draining:
            return 0, 0
        if not self._deadline_ms:
            self._deadline_ms = now_ms + DRAIN_MS
        if now_ms < self._deadline_ms:
            return 0, self._deadline_ms
        self._is_overdue = True
        count = 0
        for holder in [*islice(self._holders, count_max)]:
            del self._holders[holder]
            if not holder.is_closed and holder.prefetch >= 0:
                keys = [*islice(holder.unacknowledged, count_max - count)]
                for key in keys:
                    del holder.unacknowledged[key]
                self._queue.send_back(keys, ReturnCause.RELEASED, holder.client, is_awaited=True)
                count += len(keys)
            # Of who is closed it is being given back; a window that a transaction just puts
            # together nobody may change.
            if holder.unacknowledged:
                self._holders[holder] = None
        self._queue.touch()
        if not (self._holders or self._unlooked):
            return count, 0
        return count, now_ms if count else now_ms + _AGAIN_MS
