"""
Tells a database what there is to show of messages: each that waits, and each durable subscription.

No message is noted when it comes or goes. For each 512 neighbouring numbers of a queue it is known
which of them have a row, a bit each; what lives and has none is read and told, what has one and
lives no more is told to be gone. So a message that is acknowledged before it was told of costs
nothing, nothing piles up while the database is away, and a look in vain costs a comparison for each
queue. In a whole look the database is asked first which rows there are: whoever takes the lease
writes what is missing and drops what is too much, and nothing else.

Invariants:
    A bit is set only for a row that was told or found there, and that was not told to be gone.
    Kept here are 64 bytes for 512 messages that are shown, and for each queue a few numbers.
    One piece has so many rows and bytes that an append behind it waits for some milliseconds.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE, Chunk
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription
from holdfast.errors import StoreError
from holdfast.leases.projection import (
    KEYS_MAX,
    Changes,
    MessageKey,
    MessageRow,
    Span,
    SubscriptionRow,
)
from holdfast.model.limits import KiB
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.server.showing_walk import ShowingWalk, Shown
from holdfast.server.shown_rows import Source, message_row, subscription_row, whole_number

ROWS_MAX: Final = 256
"""Of messages in one piece."""
BYTES_MAX: Final = 256 * KiB
"""Of their headers and bodies; the last may be longer."""
SETTLED_MAX: Final = 2 * CHUNK_SIZE
"""Rows that go in one piece."""
SPANS_MAX: Final = 64
_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")
_KEYS_PER_STEP: Final = 64

Mark = tuple[int, int, int, int]
"""By which it is seen that something came to a queue, or went."""


def bits_of(chunk: Chunk | None) -> int:
    """Give which messages of a chunk live, a bit for each slot."""
    if chunk is None or not chunk.live:
        return 0
    return int(chunk.live[::-1].translate(_DIGITS), 2) << chunk.start


def spans_of(gone: int, kept: int, queue_number: int, base: int) -> Iterator[Span]:
    """Give the fewest spans of a chunk that have all bits of `gone` and none of `kept`."""
    while gone:
        low = gone & -gone
        # All below the first one that is kept behind it.
        above = kept & ~(2 * low - 1)
        end = above & -above if above else 1 << CHUNK_SIZE
        part = gone & (end - 1)
        yield Span(queue_number, base + low.bit_length() - 1, base + part.bit_length() - 1)
        gone &= ~part


@dataclass(slots=True)
class _Piece:
    """What is told together."""

    rows: list[MessageRow] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    bytes: int = 0
    settled_count: int = 0
    bits: list[tuple[int, int, int, int]] = field(default_factory=list)
    """By queue and chunk: which rows are there from then on, and which are not."""

    @property
    def is_full(self) -> bool:
        is_much = len(self.rows) >= ROWS_MAX or self.bytes >= BYTES_MAX
        return is_much or self.settled_count >= SETTLED_MAX or len(self.spans) >= SPANS_MAX

    def add(self, row: MessageRow) -> None:
        self.rows.append(row)
        self.bytes += len(row.headers or "") + len(row.body or b"")


class ShowingMessages(ShowingWalk):
    """Looks over the messages while this broker serves."""

    def __init__(self, broker: Broker, source: Source, shown: Shown, *, with_bodies: bool) -> None:
        """Tell `shown` of the messages of this broker."""
        super().__init__(shown)
        self._broker = broker
        self._source = source
        self._with_bodies = with_bodies
        self._there: dict[int, dict[int, int]] = {}
        """Which messages have a row: by queue and chunk a bit for each slot."""
        self._marks: dict[int, Mark] = {}
        """Of each queue of which all is shown, its mark then."""
        self._subscriptions: dict[int, SubscriptionRow] = {}
        self._piece = _Piece()

    def _look(self, *, is_whole: bool) -> Iterator[None]:
        self._piece = _Piece()
        if is_whole:
            self._there, self._marks, self._subscriptions = {}, {}, {}
            yield from self._take_stock()
        for number in list({**self._there, **self._broker.state.queues}):
            yield
            yield from self._look_at(number)
        yield from self._flush()
        yield from self._forget_marks()
        yield from self._look_at_subscriptions(is_whole=is_whole)

    def _take_stock(self) -> Iterator[None]:
        """Find out which rows there are."""
        after = MessageKey(-1, 0)
        while True:
            self._shown.project(Changes(keys_after=after))
            yield
            keys = self._shown.shown_keys
            for place, key in enumerate(keys):
                if not place % _KEYS_PER_STEP:
                    yield
                chunks = self._there.setdefault(key.queue_number, {})
                number = key.sequence >> CHUNK_SHIFT
                chunks[number] = chunks.get(number, 0) | 1 << (key.sequence & (CHUNK_SIZE - 1))
            if len(keys) < KEYS_MAX:
                return
            after = keys[-1]

    def _look_at(self, number: int) -> Iterator[None]:
        """Tell what is not shown as it is of one queue, or of what was one."""
        lasting = self._shown_queue(number)
        mark = None if lasting is None else _mark(lasting)
        if mark is not None and self._marks.get(number) == mark:
            return
        there = self._there.get(number, {})
        is_all = True
        for chunk in sorted({*there, *(() if lasting is None else lasting.index.chunks)}):
            yield
            lasting = self._shown_queue(number)
            live = 0 if lasting is None else bits_of(lasting.index.chunks.get(chunk))
            told = self._there.get(number, {}).get(chunk, 0)
            if gone := told & ~live:
                yield from self._drop(number, chunk, gone, told & live)
            if lasting is not None and (new := live & ~told):
                is_all &= yield from self._add(lasting, chunk, new)
        if mark is None:
            self._marks.pop(number, None)
        elif is_all:
            self._marks[number] = mark

    def _forget_marks(self) -> Iterator[None]:
        for number in list(self._marks):
            yield
            if number not in self._broker.state.queues:
                self._marks.pop(number, None)

    def _drop(self, number: int, chunk: int, gone: int, kept: int) -> Iterator[None]:
        for span in spans_of(gone, kept, number, chunk << CHUNK_SHIFT):
            self._piece.spans.append(span)
            first = span.first & (CHUNK_SIZE - 1)
            bits = gone & ((1 << (span.last - span.first + 1)) - 1) << first
            self._piece.settled_count += bits.bit_count()
            self._piece.bits.append((number, chunk, 0, bits))
            if self._piece.is_full:
                yield from self._flush()

    def _add(self, lasting: LastingQueue, chunk: int, new: int) -> Generator[None, None, bool]:
        """Tell of messages; whether all could be read."""
        base, is_all, cluster = chunk << CHUNK_SHIFT, True, self._broker.moving.cluster
        while new:
            bit = new & -new
            new &= ~bit
            sequence = base + bit.bit_length() - 1
            if not lasting.index.is_live(sequence):
                continue  # Gone while something was being written.
            try:
                row = message_row(
                    self._source, lasting, sequence, cluster, with_body=self._with_bodies
                )
            except StoreError:  # damaged: whoever is to get it has it mended
                is_all = False
                continue
            self._piece.add(row)
            self._piece.bits.append((lasting.number, chunk, bit, 0))
            if self._piece.is_full:
                yield from self._flush()
            else:
                yield
        return is_all

    def _flush(self) -> Iterator[None]:
        """Have what was gathered written, and go on when it is."""
        piece, self._piece = self._piece, _Piece()
        if not piece.bits:
            return
        self._shown.project(Changes(messages=tuple(piece.rows), settled=tuple(piece.spans)))
        for number, chunk, new, gone in piece.bits:
            chunks = self._there.setdefault(number, {})
            chunks[chunk] = chunks.get(chunk, 0) & ~gone | new
            if not chunks[chunk]:
                del chunks[chunk]
            if not chunks:
                del self._there[number]
        yield

    def _shown_queue(self, number: int) -> LastingQueue | None:
        """Give a queue or topic whose messages are shown."""
        lasting = self._broker.state.queues.get(number)
        if lasting is None or not lasting.is_declared or isinstance(lasting, LastingSubscription):
            return None
        return None if lasting.name == SCHEDULE_QUEUE else lasting

    def _look_at_subscriptions(self, *, is_whole: bool) -> Iterator[None]:
        state, began = self._broker.state, self._source.applied_index
        told, rows = self._subscriptions, list[SubscriptionRow]()
        for lasting in list(state.subscriptions.values()):
            yield
            whole = state.queues.get(whole_number(lasting))
            name = lasting.name if whole is None else whole.name
            row = subscription_row(lasting, name, self._source.applied_index)
            known = told.get(row.number)
            if known is not None and replace(row, as_of_index=known.as_of_index) == known:
                continue
            rows.append(row)
            if len(rows) >= ROWS_MAX:
                yield from self._tell(Changes(subscriptions=tuple(rows)))
                rows = []
        if rows or is_whole:
            before = began if is_whole else 0
            yield from self._tell(
                Changes(subscriptions=tuple(rows), subscriptions_stale_before=before)
            )
        ended = [it for it in told if it not in state.queues]
        for start in range(0, len(ended), ROWS_MAX):
            yield from self._tell(Changes(ended=tuple(ended[start : start + ROWS_MAX])))

    def _tell(self, changes: Changes) -> Iterator[None]:
        self._shown.project(changes)
        for row in changes.subscriptions:
            self._subscriptions[row.number] = row
        for number in changes.ended:
            self._subscriptions.pop(number, None)
        yield


def _mark(lasting: LastingQueue) -> Mark:
    totals = lasting.enqueued_total, lasting.acknowledged_total
    return lasting.next_sequence, lasting.index.live_count, *totals
