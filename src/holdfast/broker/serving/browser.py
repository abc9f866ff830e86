"""
Looking through a queue: all that is on it as somebody begins, in order, and nothing is taken.

It goes by the queue's index with a place of its own, so that any number may look through a million
messages while others take them: what is gone by the time it comes there is left out, and what is in
somebody's delivery is shown. Non-persistent messages stand where they were sent.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, UNREAD_BYTES, Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import SHELF_SHIFT
from holdfast.model.records import MessageRecord

END_KEY: Final = -(1 << 62)
"""Of what is told at the end; no message has it."""

END: Final = TransientMessage(END_KEY, b"browser:end\n", b"", 0)


class Browser:
    """One look through one queue."""

    __slots__ = ("_end", "_last_key", "_sequence", "_shelf", "_waiting", "is_over", "queue")

    def __init__(self, queue: Queue, last_serial: int) -> None:
        self.queue = queue
        self._sequence = queue.index.first()
        self._end = queue.lasting.next_sequence
        """What comes from here on came later."""
        self._last_key = -last_serial
        self._shelf = -1 >> SHELF_SHIFT
        """The shelf of non-persistent messages that is to be looked at next."""
        self._waiting: list[int] = []
        """Those of the last one, the next at the end."""
        self.is_over = False

    def next_key(self) -> int:
        """Give the next message, 0 if that was all."""
        queue = self.queue
        sequence = self._end if queue.is_deleted else self._next_stored()
        key = self._next_transient()
        if key and (sequence >= self._end or queue.transients[key].order < sequence):
            self._waiting.pop()
            return key
        if sequence < self._end:
            self._sequence = sequence + 1
            return sequence
        return 0

    def _next_stored(self) -> int:
        queue, damaged = self.queue, self.queue.custody.damaged
        sequence = max(self._sequence, queue.purging_through + 1)
        while (sequence := queue.index.next_live(sequence, self._end)) in damaged:
            sequence += 1
        return sequence

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
            self._waiting = sorted(key for key in shelf if key >= self._last_key)


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
