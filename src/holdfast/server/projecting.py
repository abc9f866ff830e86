"""
Tells a store that shows something to people what there is to show: each queue, every few seconds.

Only the broker that serves does so. It goes over its queues in slices of the loop's time, and tells
of those that changed since they were told last; after a takeover, or when something told was given
up, of all. The store writes it in its pauses, on its own thread. What is given up again and again,
as where somebody holds a lock on what is shown, is told ever later.

Invariants:
    Nothing is gathered while something that was told is not yet written.
    What is kept here is of queues that are there, and of those whose rows are to go yet.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.errors import StoreError
from holdfast.leases.projection import ROWS_MAX, Changes, QueueRow
from holdfast.model.records import MessageRecord

SECONDS: Final = 5.0
"""From the end of one look to the next."""
SECONDS_MAX: Final = 300.0
"""The longest pause, where what is told is given up again and again."""


class Shown(Protocol):
    """Who has it written: the driver of a log that is kept under a lease."""

    @property
    def can_project(self) -> bool: ...
    @property
    def projections_lost(self) -> int: ...
    @property
    def term(self) -> int: ...
    def project(self, changes: Changes) -> None: ...


class Source(Protocol):
    """Where the log is read."""

    @property
    def applied_index(self) -> int: ...
    def read(self, record_number: int) -> MessageRecord: ...


class Projecting:
    """Looks over the queues while this broker serves."""

    def __init__(self, broker: Broker, source: Source, shown: Shown) -> None:
        """Tell `shown` of the queues of this broker."""
        self._broker = broker
        self._source = source
        self._shown = shown
        self._walk: Iterator[None] | None = None
        self._due_at = 0.0
        self._pause = SECONDS
        self._told: dict[int, QueueRow] = {}
        """What is shown, as far as is known, by the numbers of queues."""
        self._told_under: tuple[int, int] | None = None
        """The lease under which that was told, and what had been given up then; None: nothing."""
        self._heads: dict[int, tuple[int, int]] = {}
        """Of each queue its first message, and when that was sent."""

    def step(self, now: float, is_spent: Callable[[], bool], *, is_serving: bool) -> bool:
        """Do a bounded piece of work, if there is any; whether something is to be written now."""
        if not is_serving:
            self._walk = None
            return False
        shown = self._shown
        while shown.can_project:
            if self._walk is None:
                if now < self._due_at:
                    return False
                self._walk = self._look()
            if next(self._walk, self) is self:
                self._walk, self._due_at = None, now + self._pause
                return False
            if is_spent():
                return False
        return self._walk is not None

    def _look(self) -> Iterator[None]:
        """Go over all queues; a step for each, and for each that is written."""
        shown, state = self._shown, self._broker.state
        under = (shown.term, shown.projections_lost)
        is_whole = under != self._told_under
        if is_whole:
            self._told, self._told_under = {}, None
            self._heads = {it: head for it, head in self._heads.items() if it in state.queues}
        began, rows = self._source.applied_index, list[QueueRow]()
        for number in list(state.queues):
            yield
            if self._is_lost(under):
                return
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
        if not self._is_lost(under):
            self._told_under, self._pause = under, SECONDS

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

    def _is_lost(self, under: tuple[int, int]) -> bool:
        """Whether something told in this look was given up: it ends, and the next one is later."""
        is_lost = under != (self._shown.term, self._shown.projections_lost)
        if is_lost:
            self._told_under, self._pause = None, min(2 * self._pause, SECONDS_MAX)
        return is_lost

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
