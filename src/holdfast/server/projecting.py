"""
Tells a store that shows something to people what there is to show: each queue, every few seconds.

Only the broker that serves does so. It tells of those that changed since they were told last; in a
whole look of all. The store writes it in its pauses, on its own thread.

Invariants:
    What is kept here is of queues that are there, and of those whose rows are to go yet.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.errors import StoreError
from holdfast.leases.projection import ROWS_MAX, Changes, QueueRow
from holdfast.model.records import MessageRecord
from holdfast.server.showing_walk import ShowingWalk, Shown


class Source(Protocol):
    """Where the log is read."""

    @property
    def applied_index(self) -> int: ...
    def read(self, record_number: int) -> MessageRecord: ...


class Projecting(ShowingWalk):
    """Looks over the queues while this broker serves."""

    def __init__(self, broker: Broker, source: Source, shown: Shown) -> None:
        """Tell `shown` of the queues of this broker."""
        super().__init__(shown)
        self._broker = broker
        self._source = source
        self._told: dict[int, QueueRow] = {}
        """What is shown, as far as is known, by the numbers of queues."""
        self._heads: dict[int, tuple[int, int]] = {}
        """Of each queue its first message, and when that was sent."""

    def _look(self, *, is_whole: bool) -> Iterator[None]:
        state = self._broker.state
        if is_whole:
            self._told = {}
            self._heads = {it: head for it, head in self._heads.items() if it in state.queues}
        began, rows = self._source.applied_index, list[QueueRow]()
        for number in list(state.queues):
            yield
            lasting = state.queues.get(number)
            if lasting is None or not lasting.is_declared or type(lasting) is not LastingQueue:
                continue  # What a durable subscription has is its topic's.
            row = self._row(lasting)
            if self._is_told(row):
                continue
            rows.append(row)
            if len(rows) >= ROWS_MAX:
                yield from self._tell(Changes(queues=tuple(rows)))
                rows = []
        if rows or is_whole:
            stale_before = began if is_whole else 0
            yield from self._tell(Changes(queues=tuple(rows), stale_before=stale_before))
        yield from self._tell_gone()

    def _tell_gone(self) -> Iterator[None]:
        """Tell of all queues that are there no more, however many they are."""
        gone: list[int] = []
        for number in list(self._told):
            yield
            if number not in self._broker.state.queues:
                gone.append(number)
            if len(gone) >= ROWS_MAX:
                yield from self._tell(Changes(gone=tuple(gone)))
                gone = []
        if gone:
            yield from self._tell(Changes(gone=tuple(gone)))

    def _tell(self, changes: Changes) -> Iterator[None]:
        """Have this written, and go on when it is."""
        self._shown.project(changes)
        for row in changes.queues:
            self._told[row.number] = row
        for number in changes.gone:
            self._told.pop(number, None)
            self._heads.pop(number, None)
        yield

    def _is_told(self, row: QueueRow) -> bool:
        told = self._told.get(row.number)
        return told is not None and replace(row, as_of_index=told.as_of_index) == told

    def _row(self, lasting: LastingQueue) -> QueueRow:
        index = lasting.index
        return QueueRow(
            number=lasting.number,
            name=lasting.name,
            depth=index.live_count,
            bytes=index.live_bytes,
            enqueued=lasting.enqueued_total,
            dequeued=lasting.acknowledged_total,
            oldest_at=self._oldest_at(lasting),
            as_of_index=self._source.applied_index,
        )

    def _oldest_at(self, lasting: LastingQueue) -> int:
        """When its first message was sent, in milliseconds; 0 if that cannot be read now."""
        sequence = lasting.index.first()
        if not sequence:
            return 0
        known, sent_at = self._heads.get(lasting.number, (0, 0))
        if known != sequence:
            try:
                message = self._source.read(lasting.index.record_number(sequence))
            except StoreError:  # a damaged entry: whoever is to get it has it mended
                return 0
            sent_at = message.stored_at // 1000
            self._heads[lasting.number] = sequence, sent_at
        return sent_at
