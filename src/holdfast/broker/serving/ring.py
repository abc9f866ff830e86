"""
A ring of consumers with room: each message goes to the one at its head, which then moves to its
tail.

A consumer without room leaves the ring and is skipped until it has room again, so a slow one holds
nobody up.

Invariants:
    A consumer stands in at most one ring, once, and `is_ready` says whether it does.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque

from holdfast.broker.serving.consumer import Consumer


class Ring:
    """Consumers with room, in turns."""

    __slots__ = ("_closed_count", "ready")

    def __init__(self) -> None:
        self.ready: deque[Consumer] = deque()
        """In the order of their turns; looked at itself where there is a message to give."""
        self._closed_count = 0
        """Closed consumers that still stand in it: they are taken out together."""

    @property
    def has_ready(self) -> bool:
        """Whether there may be a consumer with room."""
        return bool(self.ready)

    def make_ready(self, consumer: Consumer) -> bool:
        """Put a consumer that has room into the ring; true if it was not there."""
        if consumer.is_ready or consumer.is_closed or not consumer.has_room():
            return False
        consumer.is_ready = True
        self.ready.append(consumer)
        return True

    def drop_first(self) -> None:
        """Take out the one at the head, which has no room."""
        consumer = self.ready.popleft()
        consumer.is_ready = False
        if consumer.is_closed:
            self._closed_count -= 1

    def leave(self, consumer: Consumer) -> None:
        """Take a closed consumer out, now or with others."""
        if not consumer.is_ready:
            return
        ready = self.ready
        self._closed_count += 1
        if 2 * self._closed_count > len(ready):
            for _ in range(len(ready)):
                each = ready.popleft()
                if each.is_closed:
                    each.is_ready = False
                else:
                    ready.append(each)
            self._closed_count = 0

    def take(self, consumer: Consumer) -> None:
        """Take an open consumer out, if it is there."""
        if consumer.is_ready:
            consumer.is_ready = False
            self.ready.remove(consumer)

    def take_over(self, other: Ring) -> None:
        """Let all who stand in another ring stand at the end of this one."""
        self.ready += other.ready
        self._closed_count += other._closed_count
        other.ready.clear()
        other._closed_count = 0
