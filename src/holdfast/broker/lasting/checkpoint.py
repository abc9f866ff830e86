"""
The broker's lasting state as bytes and back, without message contents.

A checkpoint makes a start quick; losing one costs time, never data. So one of a format that is not
known is thrown away, and the log read instead. Formats 5 to 8 are read like the newest: they have
no users, up to 7 no topics, 5 and 6 no columns, and 5 no policies, as no log did when they were
written. `snapshot` puts the pieces together.

Layout: a head (magic and format, counters, the level of the log's format, how many queues and
producers; holds; policies; users and grants, see `access_checkpoint`), the queues, the producers. A
queue is its own head and its chunks by number. A chunk is its first live slot, how many slots there
are up to its last live one, and a mask of the columns it has beside those that every chunk has;
then, where a quarter or more of the slots live, all record numbers (u64), all sizes (u32) and all
live flags (u8), dead slots zero; else for each live one its slot, record number and size; then, of
the same slots, the columns of the mask (`columns`). So the bytes follow what lives, not how wide it
is spread, and equal queues give equal bytes.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from holdfast.broker.lasting.access_checkpoint import decode_access
from holdfast.broker.lasting.chunk import CHUNK_SIZE, Chunk
from holdfast.broker.lasting.columns import columns_bytes, decode_columns, encode_columns
from holdfast.broker.lasting.policies import Policies, key_of
from holdfast.broker.lasting.producers import unpack_producer
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.sequence_index import BY_GROUP, BY_PRIORITY, SequenceIndex
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_checkpoint import (
    DECLARED,
    SUBSCRIPTION,
    TOPIC,
    SubscriptionDraft,
    decode_topic,
    encode_more,
    joined_all,
    kind_of,
    skip_flags,
    skip_more,
)
from holdfast.broker.lasting.topics import LastingTopic, name_all
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import StoreError
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.format_level import require_known
from holdfast.model.records import HoldLoss, HoldRecord, PolicyRecord

FORMAT: Final = 9
_WITHOUT_ACCESS: Final = 8
"""The format before: the same, but without users and grants."""
_WITHOUT_TOPICS: Final = 7
"""The format before that: nor is anything a topic's."""
_WITHOUT_COLUMNS: Final = 6
"""The format before that: the same, but no chunk has more columns than every chunk has."""
_WITHOUT_POLICIES: Final = 5
"""The format before that: nor policies behind the holds."""
_READ: Final = range(_WITHOUT_POLICIES, FORMAT + 1)
_MAGIC: Final = b"HFBS"
_HEAD: Final = struct.Struct("<4sIQQQIQIII")
"""Magic, format, next queue number, home of the counters, cleaned through, level of the log's
format and its home, counts of what follows: holds, queues, producers."""
_MAGIC_AND_FORMAT: Final = struct.Struct("<4sI")
_HOLD: Final = struct.Struct("<HQQQQIBQ")
"""Length of the name, index, bytes, lost through, home, expiry, why entries were lost, when it was
last heard of."""
_POLICIES: Final = struct.Struct("<I")
"""How many there are."""
_POLICY: Final = struct.Struct("<QHIQ")
"""Revision, lengths of pattern and values, home."""
_QUEUE: Final = struct.Struct("<IQQQQQQBHI")
"""Number, next sequence, the term that said so, mark, home, two totals, flags (1: declared; 2: some
was seen beyond the mark: behind the name stand how many ranges, and those; what it is, see
`topic_checkpoint`), length of the name, chunks."""
_HAS_SEEN: Final = 2
_COUNT: Final = struct.Struct("<H")
_RANGE: Final = struct.Struct("<QQ")
_CHUNK: Final = struct.Struct("<QHHHH")
"""Number, first live slot, slots, how many of them are listed (0: all are), column mask."""
_SLOT: Final = struct.Struct("<HQI")
_PRODUCER: Final = struct.Struct("<H24s")
_SPARSE: Final = 4
"""Slots are listed where fewer than one in so many live."""
_LISTED_PER_WORK: Final = 16
"""To list so many slots takes as long as a full chunk."""


def encode_head(state: BrokerState) -> bytes:
    """Give what stands before users and grants, behind which the queues begin."""
    parts = [
        _HEAD.pack(
            _MAGIC,
            FORMAT,
            state.next_queue_number,
            state.counters_home,
            state.cleaned_through,
            state.format_level,
            state.format_home,
            len(state.holds),
            len(state.queues),
            len(state.producers.by_id),
        )
    ]
    for name, hold in sorted(state.holds.items()):
        encoded = name.encode()
        home = state.hold_homes[name]
        fields = (hold.index, hold.bytes_max, hold.lost_through, home)
        times = (hold.expiry_seconds, hold.loss, hold.renewed_at)
        parts.append(_HOLD.pack(len(encoded), *fields, *times))
        parts.append(encoded)
    parts += _encode_policies(state.policies)
    return b"".join(parts)


def _encode_policies(policies: Policies) -> list[bytes]:
    parts = [_POLICIES.pack(len(policies.by_key))]
    for key, record in sorted(policies.by_key.items()):
        pattern, values = record.pattern.encode(), record.values.encode()
        head = (record.revision, len(pattern), len(values), policies.homes[key])
        parts += (_POLICY.pack(*head), pattern, values)
    return parts


def encode_queue_head(queue: LastingQueue, chunk_count: int, *, canonical: bool) -> bytes:
    """Give what stands before a queue's chunks."""
    name = queue.name.encode()
    totals = (0, 0) if canonical else (queue.enqueued_total, queue.acknowledged_total)
    kind = kind_of(queue)
    # A subscription's numbers are its topic's.
    numbers = (0, 0) if kind & SUBSCRIPTION else (queue.next_sequence, queue.numbered_term)
    head = _QUEUE.pack(
        queue.number,
        *numbers,
        queue.dispatch_mark,
        queue.home,
        *totals,
        queue.is_declared * DECLARED | (_HAS_SEEN if queue.seen else 0) | kind,
        len(name),
        chunk_count,
    )
    return head + name + _encode_seen(queue) + encode_more(queue, canonical=canonical)


def _encode_seen(queue: LastingQueue) -> bytes:
    """Give what was seen beyond the mark, of a queue that is said to have such."""
    if not queue.seen:
        return b""
    return _COUNT.pack(len(queue.seen)) + b"".join(_RANGE.pack(*each) for each in queue.seen)


def encode_chunk(number: int, chunk: Chunk) -> bytes:
    """Give a chunk, which has at least one live slot."""
    live = chunk.live
    first = live.find(1)
    end = live.rfind(1) + 1
    if chunk.count * _SPARSE >= end - first:
        mask, columns = encode_columns(chunk, range(chunk.start + first, chunk.start + end))
        return b"".join(
            (
                _CHUNK.pack(number, chunk.start + first, end - first, 0, mask),
                chunk.record_numbers[first:end].tobytes(),
                chunk.sizes[first:end].tobytes(),
                live[first:end],
                columns,
            )
        )
    parts: list[bytes] = []
    slots: list[int] = []
    place = first
    while place >= 0:
        slots.append(chunk.start + place)
        parts.append(_SLOT.pack(slots[-1], chunk.record_numbers[place], chunk.sizes[place]))
        place = live.find(1, place + 1)
    mask, columns = encode_columns(chunk, slots)
    head = _CHUNK.pack(number, chunk.start + first, end - first, chunk.count, mask)
    return b"".join((head, *parts, columns))


def chunk_work(chunk: Chunk) -> int:
    """Give what it takes to encode a chunk, in full ones: slots that are listed take long."""
    if chunk.count * _SPARSE >= len(chunk.live):
        return 1
    return 1 + chunk.count // _LISTED_PER_WORK


def encode_producers(producers: Iterable[tuple[str, bytes]]) -> bytes:
    """Give some producers."""
    parts: list[bytes] = []
    for producer_id, value in producers:
        encoded = producer_id.encode()
        parts += (_PRODUCER.pack(len(encoded), value), encoded)
    return b"".join(parts)


def decode_state(payload: bytes, settings: BrokerSettings) -> BrokerState:
    """
    Build the state that was encoded.

    Raises:
        StoreError: The bytes are of another format or do not add up.
        FormatLevelError: The log has reached a level that this node does not know.
    """
    return _Decoder(payload).state(settings)


def decode_queue_names(payload: bytes) -> dict[int, str]:
    """
    Give the names of the queues in what was encoded, by number.

    Raises:
        StoreError: The bytes are of another format.
    """
    return _Decoder(payload).queue_names()


class _Decoder:
    """Goes through the bytes of a state once."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.offset = 0
        self.drafts: list[SubscriptionDraft] = []

    def state(self, settings: BrokerSettings) -> BrokerState:
        state = BrokerState(settings)
        try:
            counters, queue_count, producer_count = self._head(state)
            state.next_queue_number, state.counters_home, state.cleaned_through = counters[:3]
            state.format_level, state.format_home = counters[3:]
            require_known(
                state.format_level, settings.known_format_level, "the log of this cluster"
            )
            for _ in range(queue_count):
                queue = self._queue()
                state.queues[queue.number] = queue
            for subscription in list(joined_all(self.drafts, state.queues)):
                state.queues[subscription.number] = subscription
            name_all(state)
            for _ in range(producer_count):
                length, value = self._take(_PRODUCER)
                state.producers.stored(self._text(length), *unpack_producer(value))
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise StoreError(f"the checkpoint makes no sense: {error}") from error
        if self.offset != len(self.payload):
            raise StoreError(
                f"the checkpoint has {len(self.payload):,} bytes, expected {self.offset:,}"
            )
        state.count_anew()
        return state

    def queue_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        try:
            _, queue_count, _ = self._head(BrokerState(BrokerSettings()))
            for _ in range(queue_count):
                fields = self._take(_QUEUE)
                name = self._text(fields[8])
                flags = fields[7]
                self._seen(flags)
                skip_more(flags, self._take, self._bytes)
                if flags & DECLARED and not flags & SUBSCRIPTION:
                    names[fields[0]] = f"{TOPIC_MARK}{name}" if flags & TOPIC else name
                for _ in range(fields[9]):
                    if flags & SUBSCRIPTION:
                        skip_flags(self._take, self._bytes)
                        continue
                    _, _, length, listed, mask = self._take(_CHUNK)
                    self.offset += listed * _SLOT.size or length * 13
                    self.offset += columns_bytes(mask, listed or length)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise StoreError(f"the checkpoint makes no sense: {error}") from error
        return names

    def _head(self, state: BrokerState) -> tuple[list[int], int, int]:
        magic, form = _MAGIC_AND_FORMAT.unpack_from(self.payload)
        if magic != _MAGIC or form not in _READ:
            raise StoreError(
                f"a checkpoint of another format, {magic!r} {form}; this version reads {FORMAT}"
            )
        _, _, *counters, hold_count, queue_count, producer_count = self._take(_HEAD)
        for _ in range(hold_count):
            length, index, bytes_max, lost_through, home, *times = self._take(_HOLD)
            expiry, loss, renewed_at = times
            name = self._text(length)
            state.holds[name] = HoldRecord(
                name,
                index,
                bytes_max,
                lost_through,
                expiry_seconds=expiry,
                renewed_at=renewed_at,
                loss=HoldLoss(loss),
            )
            state.hold_homes[name] = home
        if form != _WITHOUT_POLICIES:
            self._policies(state.policies)
        if form > _WITHOUT_ACCESS:
            decode_access(state.access, self._take, self._text)
        return counters, queue_count, producer_count

    def _policies(self, policies: Policies) -> None:
        for _ in range(self._take(_POLICIES)[0]):
            revision, pattern, values, home = self._take(_POLICY)
            record = PolicyRecord(self._text(pattern), self._text(values), revision)
            policies.put(key_of(record), record, home)

    def _queue(self) -> LastingQueue:
        (
            number,
            following,
            numbered_term,
            mark,
            home,
            enqueued,
            acknowledged,
            flags,
            length,
            chunks,
        ) = self._take(_QUEUE)
        name = self._text(length)
        seen = self._seen(flags)
        draft: SubscriptionDraft | None = None
        queue: LastingQueue
        if flags & SUBSCRIPTION:
            draft = SubscriptionDraft(number, name, self._take, self._bytes)
            self.drafts.append(draft)
            queue = draft.queue
        elif flags & TOPIC:
            queue = topic = LastingTopic(number, name)
            decode_topic(topic, self._take, self._bytes)
        else:
            queue = LastingQueue(number, name)
        queue.next_sequence = following
        queue.numbered_term = numbered_term
        queue.dispatch_mark = mark
        queue.home = home
        queue.is_declared = bool(flags & DECLARED)
        queue.seen = seen
        queue.enqueued_total, queue.acknowledged_total = enqueued, acknowledged
        for _ in range(chunks):
            if draft is None:
                self._chunk(queue.index)
            else:
                draft.chunk(self._take, self._bytes)
        return queue

    def _seen(self, flags: int) -> tuple[tuple[int, int], ...]:
        """Give what was seen beyond the mark of a queue with these flags."""
        if not flags & _HAS_SEEN:
            return ()
        (count,) = self._take(_COUNT)
        return tuple((first, last) for first, last in (self._take(_RANGE) for _ in range(count)))

    def _chunk(self, index: SequenceIndex) -> None:
        number, start, length, listed, mask = self._take(_CHUNK)
        if not length or start + length > CHUNK_SIZE:
            raise ValueError(f"chunk {number} has slots {start} to {start + length}")
        chunk = index.add_chunk(number, start)
        slots: Sequence[int] = range(start, start + length)
        if listed:
            slots = []
            chunk.record_numbers = array("Q", bytes(8 * length))
            chunk.sizes = array("I", bytes(4 * length))
            chunk.live = bytearray(length)
            for _ in range(listed):
                slot, record_number, size = self._take(_SLOT)
                place = slot - start
                if not 0 <= place < length:
                    raise ValueError(f"slot {slot} is not in chunk {number}")
                chunk.record_numbers[place] = record_number
                chunk.sizes[place] = size
                chunk.live[place] = 1
                slots.append(slot)
        else:
            chunk.record_numbers = array("Q", self._bytes(8 * length))
            chunk.sizes = array("I", self._bytes(4 * length))
            chunk.live = bytearray(self._bytes(length))
        chunk.count = chunk.live.count(1)
        if not chunk.count:
            raise ValueError(f"nothing in chunk {number} lives")
        decode_columns(mask, chunk, slots, self._bytes)
        if chunk.group_hashes is not None:
            index.ordering |= BY_GROUP
        if chunk.priorities is not None:
            index.ordering |= BY_PRIORITY
        if chunk.expires is not None:
            index.note_expiring(number, min(filter(None, chunk.expires)))
        index.live_count += chunk.count
        index.live_bytes += sum(chunk.sizes)

    def _take(self, form: struct.Struct) -> tuple[Any, ...]:
        fields = form.unpack_from(self.payload, self.offset)
        self.offset += form.size
        return fields

    def _bytes(self, length: int) -> bytes:
        found = self.payload[self.offset : self.offset + length]
        if len(found) != length:
            raise ValueError(f"it is cut off at byte {len(self.payload):,}")
        self.offset += length
        return found

    def _text(self, length: int) -> str:
        return self._bytes(length).decode()
