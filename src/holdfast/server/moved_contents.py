"""
What was moved and has its bytes in a part of the log that is to go: written again, bytes and way.

The cleaner goes through that part record by record, and what was moved does not stand where its
record says any more. So it looks from the other side, through the slots of queues, once all that
was being moved meanwhile is applied.

Invariants:
    Nothing whose bytes stand there is moved while this goes on: it could come to stand behind us.
    A message that is about to leave is not written again.

Owned by the cleaner.
"""

from __future__ import annotations

from collections import deque

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import (
    carry_returns,
    lives_at,
    moved_from,
    on_the_way,
)
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.moved import read_as_it_stands
from holdfast.broker.outputs import Batch
from holdfast.model.limits import KiB
from holdfast.model.records import MessageRecord
from holdfast.store.contract import LogStore

_AT_ONCE_COUNT = 100
_AT_ONCE_BYTES = 256 * KiB
"""So much is read and put into the batch in one go."""
_PIECES_PER_STEP = 16


class MovedContents:
    """Goes through what was moved, for one part of the log."""

    __slots__ = ("_barrier", "_broker", "_found", "_pieces", "_store")

    def __init__(self, broker: Broker, store: LogStore, through_record: int) -> None:
        self._broker = broker
        self._store = store
        broker.moving.closed_through = through_record
        self._barrier: Batch | None = broker.receipts.newest_move()
        """What is being moved now may have its bytes there, and stands nowhere yet."""
        self._pieces = moved_from(broker, through_record)
        self._found: deque[tuple[LastingQueue, int]] = deque()

    def step(self, is_spent: IsSpent) -> list[MessageRecord] | None:
        """
        Give some more records to be written, maybe none yet; None when that was all.

        Raises:
            CorruptEntryError: The bytes, or what moved them, cannot be read now.
        """
        if self._barrier is not None:
            if not self._barrier.is_applied:
                return []
            self._barrier = None
        for _ in range(_PIECES_PER_STEP):
            if not self._found:
                piece = next(self._pieces, None)
                if piece is None:
                    return None
                self._found.extend(piece)
            copies = self._some(is_spent)
            if copies or is_spent():
                return copies
        return []

    def _some(self, is_spent: IsSpent) -> list[MessageRecord]:
        """Read some of what is found; none may be left of them, and more may be found."""
        read: list[tuple[int, MessageRecord]] = []
        wanted: dict[int, set[int]] = {}
        size = 0
        while self._found:
            queue, sequence = self._found.popleft()
            index = queue.index
            if index.move_number(sequence):
                home, cluster = index.record_number(sequence), self._broker.moving.cluster
                copy = read_as_it_stands(self._store, home, queue.number, index, sequence, cluster)
                copy.rewritten = True
                read.append((home, copy))
                wanted.setdefault(queue.number, set()).add(sequence)
                size += copy.size
            # Each may stand in an entry of its own, which is read and verified as a whole.
            if len(read) >= _AT_ONCE_COUNT or size >= _AT_ONCE_BYTES or is_spent():
                break
        if not read:
            return []
        under_way = on_the_way(self._broker, wanted)
        copies = []
        for home, copy in read:
            place = copy.queue_number, copy.sequence
            if lives_at(self._broker, *place, home, under_way.leaving):
                carry_returns(self._broker, copy, under_way)
                copies.append(copy)
        return copies
