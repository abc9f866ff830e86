"""
Looking through a queue: all that is on it as somebody begins, in order, and nothing is taken.

It goes by the queue's index with a place of its own, so that any number may look through a million
messages while others take them: what is gone by the time it comes there is left out, and what is in
somebody's delivery is shown. Non-persistent messages stand where they were sent.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, UNREAD_BYTES, Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import SHELF_SHIFT
from holdfast.model.facts import PRIORITY_MAX
from holdfast.model.records import MessageRecord

END_KEY: Final = -(1 << 62)
"""Of what is told at the end; no message has it."""

_ALL: Final = -1
"""Stands for all priorities."""

_CHUNKS_AT_ONCE: Final = 64
_CHUNKS_SHIFT: Final = 2
"""To look at so many chunks, as a power of two, takes as long as a delivery."""

END: Final = TransientMessage(END_KEY, b"browser:end\n", b"", 0)


class Browser:
    """One look through one queue."""

    __slots__ = (
        *("_end", "_last_key", "_priority", "_sequence", "_shelf", "_waiting", "effort"),
        *("is_over", "queue"),
    )

    def __init__(self, queue: Queue, last_serial: int, *, by_priority: bool = False) -> None:
        self.queue = queue
        self._end = queue.lasting.next_sequence
        """What comes from here on came later."""
        self._last_key = -last_serial
        self._priority = PRIORITY_MAX if by_priority else _ALL
        """Only those that have it are shown now; one after the other, each with a look of its own
        through the queue."""
        self._waiting: list[int] = []
        """Non-persistent messages of the last shelf, the next at the end."""
        self._begin()
        self.effort = 0
        """How many chunks of the index were looked at in vain since this was asked last."""
        self.is_over = False

    def _begin(self) -> None:
        self._sequence = self.queue.index.first()
        self._shelf = -1 >> SHELF_SHIFT
        """The shelf of non-persistent messages that is to be looked at next."""

    def next_key(self) -> int | None:
        """Give the next message, 0 if that was all; None: it is looked for, and not found yet."""
        while True:
            key = self._next_key()
            if key is None or key or self._priority <= 0:
                return key
            self._priority -= 1
            self._begin()

    def _next_key(self) -> int | None:
        queue = self.queue
        sequence = self._end if queue.is_deleted else self._next_stored()
        if sequence is None:
            return None
        key = self._next_transient()
        if key and (sequence >= self._end or queue.transients[key].order < sequence):
            self._waiting.pop()
            return key
        if sequence < self._end:
            self._sequence = sequence + 1
            return sequence
        return 0

    def _next_stored(self) -> int | None:
        """Give the next stored message, or the end; None: it is not found yet."""
        queue, damaged = self.queue, self.queue.custody.damaged
        sequence = max(self._sequence, queue.purging_through + 1)
        while True:
            sequence = queue.index.next_live(sequence, self._end)
            if sequence < self._end and self._priority != _ALL:
                number = sequence >> CHUNK_SHIFT
                base = number << CHUNK_SHIFT
                slot = queue.index.next_of(self._priority, number, sequence - base)
                if slot < 0:
                    self._sequence = sequence = base + CHUNK_SIZE
                    self.effort += 1
                    if self.effort >= _CHUNKS_AT_ONCE:
                        return None
                    continue
                sequence = min(base + slot, self._end)
            if sequence not in damaged:
                return sequence
            sequence += 1

    def _next_transient(self) -> int:
        """Give the next non-persistent message, which stays the next; 0 if there is none."""
        transients = self.queue.transients
        while True:
            while self._waiting:
                if self._waiting[-1] in transients:
                    return self._waiting[-1]
                self._waiting.pop()
            left = [it for it, shelf in transients.shelves.items() if shelf and it <= self._shelf]
            if not left:
                return 0
            number = max(left)
            self._shelf = number - 1
            shelf = transients.shelves[number]
            self._waiting = sorted(
                key
                for key, message in shelf.items()
                if key >= self._last_key and self._priority in {_ALL, message.priority}
            )


def is_wanted(
    consumer: Consumer, key: int, message: MessageRecord | TransientMessage, flagged: int
) -> bool:
    """Whether somebody who looks through a queue is to be shown a message."""
    selector = consumer.selector
    return selector is None or selector.is_true_of(selector.values_of(key, message, flagged))


def look_on(consumer: Consumer, browser: Browser, step: Step, count_max: int) -> None:
    """Put so many deliveries into a step as there is room for; large ones count more."""
    queue, receiver = browser.queue, consumer.receiver
    left = count_max
    while left > 0 and consumer.has_room() and not browser.is_over:
        key = browser.next_key()
        left -= browser.effort >> _CHUNKS_SHIFT
        browser.effort = 0
        if key is None:
            continue
        message: MessageRecord | TransientMessage | None = END
        number = flagged = 0
        if not key:
            browser.is_over = True
            key = END_KEY
        elif key < 0:
            message = queue.transients[key]
        else:
            message = queue.cache.find(key)
            number = 0 if message is not None else queue.index.record_number(key)
        if key != END_KEY and queue.is_flagged(key):
            flagged = queue.delivery_count(key)
        if (
            message is not None
            and key != END_KEY
            and not is_wanted(consumer, key, message, flagged)
        ):
            left -= consumer.effort
            continue
        size = UNREAD_BYTES if message is None else message.size
        receiver.room_bytes -= size
        if consumer.mode is not AcknowledgeMode.AUTO:
            consumer.unacknowledged[key] = None
        step.append((consumer, key, message, number, flagged))
        left -= 1 + (size >> EFFORT_SHIFT)
        if message is None:
            return  # It is to be read from the log.
