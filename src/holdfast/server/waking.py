"""
What is done as time passes: what rested comes, what expired goes, what is due is sent.

The broker knows when. Of scheduled messages it knows no more: where they go and when they come
again stands in their headers, which are read here as each is due, from memory or from the log.

Invariants:
    What cannot be sent now stays scheduled and is tried again; of each it is told once, and of no
    more than `_TOLD_MAX` at a time.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.queue import Queue
from holdfast.errors import CorruptEntryError, HoldfastError
from holdfast.model.access_records import AuditRecord
from holdfast.model.records import MessageRecord
from holdfast.sessions.scheduled_messages import read_kept, targets_now
from holdfast.sessions.scheduled_senders import NotAnyMore, refused_now
from holdfast.sessions.selection import Selections
from holdfast.store.contract import LogStore

log = structlog.get_logger("holdfast.server")

_TOLD_MAX: Final = 1_000


class Waking:
    """Does what is due, in slices."""

    __slots__ = (
        *("_broker", "_is_silent", "_left_off_count", "_on_damage", "_selections", "_store"),
        "_told",
    )

    def __init__(
        self, broker: Broker, store: LogStore, on_damage: Callable[[CorruptEntryError], None]
    ) -> None:
        self._broker = broker
        self._store = store
        self._on_damage = on_damage
        self._selections = Selections()
        self._left_off_count = 0
        """How often it was not yet known where one message goes."""
        self._told: set[tuple[int, int]] = set()
        """Messages that could not be sent, by queue and sequence, of which it was told."""
        self._is_silent = False
        """Of more it is not told; ends as one is sent."""

    def step(self, is_spent: IsSpent) -> bool:
        """Do what is due by now, as the time goes; whether more of it is."""
        is_more_due = self._broker.wake(is_spent)
        if self._broker.is_leading and self._broker.firing.has_due:
            is_more_due = self._fire(is_spent) or is_more_due
        return is_more_due

    def _fire(self, is_spent: IsSpent) -> bool:
        firing = self._broker.firing
        step_count = self._broker.settings.step_count_max
        while firing.has_due:
            queue = firing.queue
            assert queue is not None, "something of it is due"
            sequences = firing.due(step_count)
            for place, sequence in enumerate(sequences, 1):
                if not self._fire_one(queue, sequence):
                    firing.put_back(sequences[place - 1 :])
                    return True
                if is_spent():
                    firing.put_back(sequences[place:])
                    return True
            if is_spent():
                return True
        return False

    def _fire_one(self, queue: Queue, sequence: int) -> bool:
        """Send one that is due, or try again later; false: it is not known yet where it goes."""
        left_off_count, self._left_off_count = self._left_off_count, 0
        try:
            self._send(queue, sequence, left_off_count)
        except RouteUnknownError:
            self._left_off_count = left_off_count + 1
            return False
        except Exception as error:  # noqa: BLE001 - it costs one message its time, and no other
            self._broker.firing.later(sequence)
            if (queue.number, sequence) not in self._told:
                if isinstance(error, CorruptEntryError):
                    self._on_damage(error)
                if self._has_place(queue):
                    self._told.add((queue.number, sequence))
                    self._tell(sequence, error)
        else:
            self._is_silent = False
        return True

    def _has_place(self, queue: Queue) -> bool:
        """Whether it is told of one more; if not, it is said once that there are more."""
        if len(self._told) < _TOLD_MAX:
            return True
        if self._is_silent:
            return False
        self._told = {
            (number, it)
            for number, it in self._told
            if number == queue.number and queue.index.is_live(it)
        }
        self._is_silent = len(self._told) >= _TOLD_MAX
        if self._is_silent:
            log.error("more scheduled messages are due and cannot be sent", told_of=_TOLD_MAX)
        return not self._is_silent

    @staticmethod
    def _tell(sequence: int, error: Exception) -> None:
        log.error(
            "a scheduled message is due and cannot be sent; it is tried again",
            sequence=sequence,
            reason=str(error),
            exc_info=None if isinstance(error, HoldfastError) else error,
        )

    def _send(self, queue: Queue, sequence: int, left_off_count: int) -> None:
        """
        Send one that is due.

        Raises:
            StoreError: It cannot be read now.
            RefusedError: It makes no sense, or cannot be sent there now.
            RouteUnknownError: Where it goes is not known yet.
        """
        message = self._read(queue, sequence)
        assert message.headers is not None, "it was read with its content"
        kept = read_kept(message.headers)
        refused = refused_now(self._broker, kept, message)
        if refused is not None:
            self._give_up(message, kept.written, refused)
            return
        targets = targets_now(self._broker, kept, message, self._selections, left_off_count)
        if targets is None:
            self._broker.firing.later(sequence)  # There is no room in memory now.
            return
        limiting = self._broker.limiting
        limited = {
            each: each.assigned_sequence
            for each in targets
            if isinstance(each, Queue) and limiting.limits_of(each) is not None
        }
        self._broker.firing.fire(
            message,
            kept.schedule,
            targets,
            persistent=kept.persistent,
            lifetime_ms=kept.lifetime_ms,
        )
        for each, first in limited.items():
            limiting.sent(each, first, message.size)

    def _give_up(self, message: MessageRecord, written: str, refused: NotAnyMore) -> None:
        """Let it be a dead letter: its sender may not send it any more."""
        broker, sequence = self._broker, message.sequence
        job = f"ID:{broker.moving.cluster}-{message.queue_number}-{sequence}"
        audit = AuditRecord(
            broker.returning.now_ms,
            refused.name,
            "schedule",
            "send what was scheduled",
            f"{job} {written}",
            f"refused: {refused.reason}",
        )
        broker.firing.give_up(sequence, broker.settling, audit)

    def _read(self, queue: Queue, sequence: int) -> MessageRecord:
        found = queue.cache.find(sequence)
        return found or self._store.read(queue.index.record_number(sequence))
