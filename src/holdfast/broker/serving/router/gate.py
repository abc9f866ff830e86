"""
When dispatch of a queue starts: once enough consumers are there, or after a while.

So many who start together share what is there from the first message on. It is a gate and no wait:
nothing stands still but this queue, and what is sent meanwhile is stored. It closes again when all
have left; under a new leader it is closed, as consumers come back to that one by one, too.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.serving.effective import EQUAL, Sharing

WAIT_MS: Final = 1_000
"""Where only the number of consumers is said: a queue is not to stand still for ever because one of
them does not come. As ActiveMQ has it."""


class Gate:
    """Whether messages of one queue may go out yet."""

    __slots__ = ("_opens_at_ms", "_sharing", "is_open")

    def __init__(self, sharing: Sharing = EQUAL) -> None:
        self._sharing = sharing
        self._opens_at_ms = 0
        """When it opens in any case; 0: nobody knows yet what time it is."""
        self.is_open = not sharing.has_gate

    def came(self, count: int) -> bool:
        """Note that one has come, and so many are there; whether it is to be told the time."""
        awaited = self._sharing.consumers_awaited
        if 0 < awaited <= count:
            self.is_open = True
        return not self.is_open and count == 1

    def left(self, count: int) -> None:
        """Note that one has left, and so many are there."""
        if not count:
            self.is_open = not self._sharing.has_gate
            self._opens_at_ms = 0

    def wake(self, now_ms: int) -> int:
        """Open it if it is time; gives when it is, 0 if it is open."""
        if self.is_open:
            return 0
        if not self._opens_at_ms:
            self._opens_at_ms = now_ms + (self._sharing.start_ms or WAIT_MS)
        if now_ms < self._opens_at_ms:
            return self._opens_at_ms
        self.is_open = True
        return 0
