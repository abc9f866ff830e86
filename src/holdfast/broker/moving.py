"""
Messages that go from one queue to another, or nowhere, by one record and without their bytes.

What is moved is out of everybody's reach from the request on; what is copied is not touched. The
messages get numbers of the other queue at once, as if they were sent there.

The cleaner needs a word here: while it finishes an old part of the log, what has its bytes there
must not go on to a place where it does not look any more. It is moved a little later.

Invariants:
    Whatever happens, a message that is moved stands on exactly one of the two queues.
    What somebody has, or an open transaction holds, is not at hand.
    What a record names lives when it is applied: readers of the log count it without looking back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import DEAD_LETTER_CAUSES, Cause
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import MOVE_COUNT_MAX, MoveRecord, Run

_LOOKED_AT_MAX: Final = 1_000
"""So many subscriptions are asked whether they have a non-persistent message."""


class Moving:
    """Writes moves into the gathering batch."""

    __slots__ = ("_receipts", "_settings", "_state", "closed_through", "cluster")

    def __init__(self, settings: BrokerSettings, state: BrokerState, receipts: Receipts) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self.closed_through = 0
        """What has its bytes in records up to this one is not moved now: the cleaner is there, or
        was, and these go."""
        self.cluster = ""
        """Short name of the cluster's identity: part of every message id."""

    @property
    def is_possible(self) -> bool:
        """Whether every member can read such a record."""
        return self._state.format_level >= MOVES_LEVEL

    def is_at_hand(self, queue: Queue, sequence: int) -> bool:
        """Whether a stored message lives, nobody has it, and nothing else is done with it."""
        if queue.has_ended(sequence):
            return False
        if queue.is_idle:
            return not queue.is_withheld(sequence)
        return queue.choice.is_at_hand(sequence) and not queue.is_withheld(sequence)

    def is_free(self, queue: Queue, sequence: int) -> bool:
        """Whether nobody has a stored message, and nothing else is done with it; it may rest."""
        if self.is_at_hand(queue, sequence):
            return True
        custody = queue.custody
        comebacks = custody.comebacks
        if comebacks is None or sequence in custody.reserved or queue.has_ended(sequence):
            return False
        return sequence in comebacks.resting

    @staticmethod
    def is_volatile_held(queue: Queue, key: int) -> bool:
        """Whether somebody has a non-persistent message, or may have it."""
        custody = queue.custody
        if key in custody.reserved or len(queue.subscriptions) > _LOOKED_AT_MAX:
            return True
        holders: Sequence[Consumer] = (*queue.subscriptions, *custody.returning)
        return any(key in each.unacknowledged for each in holders)

    def lasting(self, queue: Queue, sequences: Sequence[int]) -> list[int]:
        """Give those that live yet once all is applied that is on its way to the log."""
        leaving = self._receipts.settling({queue.number: set(sequences)}).get(queue.number, ())
        return [it for it in sequences if not queue.has_ended(it) and it not in leaving]

    def is_closed(self, queue: Queue, sequence: int) -> bool:
        """Whether the cleaner is about to write a message again: it is moved after that."""
        return queue.index.record_number(sequence) <= self.closed_through

    def take(
        self,
        queue: Queue,
        targets: Sequence[Queue],
        sequences: Sequence[int],
        cause: Cause,
        *,
        moved_at: int,
        is_copy: bool = False,
        lifetime_ms: int = 0,
    ) -> None:
        """
        Let stored messages of a queue, in order, stand on others; or nowhere, if there are none.

        Args:
            targets: Each gets all of them; they are moved to the last one and copied to the others,
                a message to all of its places in one entry.
            queue: Of one whose end is on its way to the log nothing is moved: it goes with it.
            lifetime_ms: So long they may stand there, if they are dead letters; 0: for ever.
        """
        if queue.number in queue.leadership.leaving:
            return
        receipts = self._receipts
        expires_ms = moved_at + lifetime_ms if lifetime_ms else 0
        expiries = [_expiry_there(queue, it, cause, expires_ms) for it in sequences]
        place_count = max(1, len(targets))
        for start, end in _pieces(expiries, max(1, MOVE_COUNT_MAX // place_count)):
            some, expiry = sequences[start:end], expiries[start]
            records = []
            for place, target in enumerate(targets or (None,), 1):
                first = 0 if target is None else self.assign(target, len(some))
                record = MoveRecord(
                    queue.number,
                    0 if target is None else target.number,
                    cause,
                    list(_runs(some, first)),
                    queue_name=queue.name,
                    moved_at=moved_at,
                    is_copy=is_copy or place < len(targets),
                    clears_expiry=expiry is not None,
                    expires_ms=expiry or 0,
                    topic_number=queue.topic_number,
                )
                records.append(record)
            self._write(records, len(some) * place_count)
            if not is_copy:
                receipts.batch.settled_count += len(some)

    def _write(self, records: list[MoveRecord], count: int) -> None:
        """Put these into one entry, which moves no more at once than one record does."""
        batch = self._receipts.batch
        is_much = batch.moved_count and batch.moved_count + count > MOVE_COUNT_MAX
        size = sum(record.size for record in records)
        if is_much or not batch.has_room(size, self._settings.batch_bytes_max):
            self._receipts.close_batch()
        self._receipts.add_records(records)

    @staticmethod
    def assign(target: Queue, count: int) -> int:
        """Give the first of so many numbers for what is moved to a queue, which it may fill."""
        first = target.assigned_sequence
        target.assigned_sequence += count
        if type(target) is Queue:  # what stands on a topic is bounded by its subscriptions
            target.leadership.filling[target] = None
        return first

    def keep_from_all(self, queue: Queue, sequences: Sequence[int]) -> None:
        """Deliver messages that nobody has to nobody any more: they are being moved."""
        custody = queue.custody
        for sequence in sequences:
            custody.settle_late(sequence)


def _expiry_there(queue: Queue, sequence: int, cause: Cause, dead_ms: int) -> int | None:
    """
    Give when a message expires where it is moved to, 0 for never; None: as it was sent.

    Dead letters have a time of their own, and what is sent back has none. What was moved before
    has the time that it has here, which may not be the one that it was sent with.
    """
    if cause in DEAD_LETTER_CAUSES:
        return dead_ms
    if cause is Cause.RETRIED:
        return 0
    return queue.index.expires_ms(sequence) if queue.index.move_number(sequence) else None


def _pieces(expiries: Sequence[int | None], count_max: int) -> Iterator[tuple[int, int]]:
    """Give from where to where neighbours have the same time, in pieces of so many at most."""
    start = 0
    for end in range(1, len(expiries) + 1):
        is_over = end == len(expiries) or expiries[end] != expiries[start]
        if is_over or end - start == count_max:
            yield start, end
            start = end


def _runs(sequences: Sequence[int], target_first: int) -> Iterator[Run]:
    """Give neighbours together."""
    begin = 0
    for place in range(1, len(sequences) + 1):
        if place < len(sequences) and sequences[place] == sequences[place - 1] + 1:
            continue
        yield Run(sequences[begin], target_first and target_first + begin, place - begin)
        begin = place
