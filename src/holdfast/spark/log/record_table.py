"""
Where the records of a block of entries are, as arrays: found in one go, not one by one.

A record's place follows from the length of the one before it, so somebody has to walk. Where all
records of an entry are equally long, which a constant producer makes, one comparison of arrays
does it; elsewhere a loop reads one length per record.

Invariants:
    Row r of every array is the same record; rows stand in the order of the log.
    Every record is framed as `journal.record` says and of a type that `record_codec` knows.

Pure: no disk, no clock.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holdfast.errors import CorruptRecordError
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.model.facts import MessageFacts, Origin, Place
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.fact_places import find_facts, structures
from holdfast.store.fact_blocks import FACT_FLAGS, PLACES, decode_facts
from holdfast.store.hold_codec import FLAG_TIMED
from holdfast.store.record_codec import (
    DISPATCH_MARK,
    FLAG_FROM,
    FLAG_PRODUCER,
    HOLD,
    MESSAGE,
    MESSAGE_FLAGS,
    OF_TOPIC,
    PLAIN_FLAGS,
    TYPE_NAMES,
    decode_records,
)
from holdfast.store.topic_codec import FLAG_OF_TOPIC

Mask = npt.NDArray[np.bool_]

_LENGTH: Final = struct.Struct("<I")
_UNIFORM_COUNT_MIN: Final = 8
"""Fewer records than this are walked faster than they are compared."""

_FRAME_TYPE: Final = np.dtype(
    [("type", "u1"), ("flags", "<u2"), ("reserved", "u1"), ("length", "<u4")]
)
MESSAGE_TYPE: Final = np.dtype(
    [
        ("type", "u1"),
        ("flags", "<u2"),
        ("reserved", "u1"),
        ("length", "<u4"),
        ("queue_number", "<u4"),
        ("sequence", "<u8"),
        ("redelivery_count", "<u2"),
        ("producer_id_length", "<u2"),
        ("headers_length", "<u4"),
        ("stored_at", "<u8"),
    ]
)
"""What every message record begins with; a test holds it to `record_codec`."""

_MESSAGE_FIXED: Final = MESSAGE_TYPE.itemsize - RECORD_HEADER_BYTES
_SEQUENCE_BYTES: Final = 8
_KNOWN: Final = np.array(sorted(TYPE_NAMES), dtype=np.uint8)
_OF_TOPIC: Final = np.array(sorted(OF_TOPIC), dtype=np.uint8)
_UNKNOWN_FLAGS: Final = 0xFFFF & ~MESSAGE_FLAGS


class RecordTable:
    """All records of a block."""

    __slots__ = ("block", "entries", "flags", "lengths", "starts", "types")

    def __init__(self, block: EntryBlock) -> None:
        """
        Find the records.

        Raises:
            CorruptRecordError: A record makes no sense; the sentence names entry and byte.
        """
        self.block = block
        places, counts = _walk(block)
        self.entries: Integers = np.repeat(np.arange(len(block)), counts)
        """The position in the block of each record's entry."""
        frames = structures(block.buffer, places, _FRAME_TYPE)
        self.types = frames["type"]
        self.flags = frames["flags"]
        self.lengths: Integers = frames["length"].astype(np.int64)
        self.starts: Integers = places
        """Where each record's frame begins in the buffer."""
        bad = (frames["reserved"] != 0) | ~np.isin(self.types, _KNOWN)
        # Those of messages are looked at with their facts.
        is_flagged = (self.flags != 0) & (self.types != MESSAGE)
        is_known = (self.types == HOLD) & (self.flags == FLAG_TIMED)
        is_known |= (self.types == DISPATCH_MARK) & (self.flags == FLAG_FROM)
        bad |= is_flagged & ~is_known & ~self.is_of_topic
        if bad.any():
            raise self.fault(int(np.argmax(bad)))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ordinals(self) -> Integers:
        """Which record of its entry each one is, from 0."""
        counts = np.bincount(self.entries, minlength=len(self.block))
        firsts = np.cumsum(counts) - counts
        return np.arange(len(self), dtype=np.int64) - firsts[self.entries]

    @property
    def is_message(self) -> Mask:
        """Which records are messages."""
        mask: Mask = self.types == MESSAGE
        return mask

    @property
    def is_of_topic(self) -> Mask:
        """Which records speak of a subscription, and name its topic first."""
        mask: Mask = (self.flags == FLAG_OF_TOPIC) & np.isin(self.types, _OF_TOPIC)
        return mask

    def fault(self, row: int) -> CorruptRecordError:
        """Say what is wrong with a record that makes no sense."""
        position = int(self.entries[row])
        return record_fault(self.block, position)


class MessageRows:
    """Some message records of a table, with the fixed part of each as arrays."""

    __slots__ = (
        "body_ends",
        "body_starts",
        "entries",
        "fact_starts",
        "fixed",
        "has_facts",
        "has_producer",
        "header_starts",
        "moved_by",
        "moves",
        "ordinals",
        "starts",
        "table",
    )

    def __init__(self, table: RecordTable) -> None:
        """
        Cut the fixed parts of all messages of the table.

        Raises:
            CorruptRecordError: A message is cut off or has flags that are not known.
        """
        self.table = table
        mask = table.is_message
        rows = np.flatnonzero(mask)
        if (table.lengths[rows] < _MESSAGE_FIXED).any():
            raise table.fault(int(rows[np.argmax(table.lengths[rows] < _MESSAGE_FIXED)]))
        self.starts: Integers = table.starts[rows]
        self.entries: Integers = table.entries[rows]
        self.ordinals: Integers = table.ordinals[rows]
        self.fixed = structures(table.block.buffer, self.starts, MESSAGE_TYPE)
        self.moves: list[Origin] = []
        """The ways that messages came which were moved."""
        self.moved_by: Integers | None = None
        """Of each row which of them, -1: none; None: no row was moved."""
        self.has_producer: Mask = (self.fixed["flags"] & FLAG_PRODUCER) != 0
        identity = np.where(
            self.has_producer,
            _SEQUENCE_BYTES + self.fixed["producer_id_length"].astype(np.int64),
            0,
        )
        self.fact_starts: Integers = self.starts + MESSAGE_TYPE.itemsize + identity
        """The byte after a producer's id, where facts stand if there are any."""
        self.header_starts: Integers = self.fact_starts
        self.body_ends: Integers = self.starts + RECORD_HEADER_BYTES + table.lengths[rows]
        flags = self.fixed["flags"]
        self.has_facts = bool((flags > PLAIN_FLAGS).any())
        """Whether any of the messages has facts."""
        bad: Mask = np.zeros(0, dtype=np.bool_)
        if self.has_facts:
            buffer = table.block.buffer
            self.header_starts, bad = find_facts(buffer, flags, self.fact_starts, self.body_ends)
            bad |= flags & _UNKNOWN_FLAGS != 0
        self.body_starts: Integers = self.header_starts + self.fixed["headers_length"]
        is_cut: Mask = self.body_starts > self.body_ends
        if self.has_facts:
            is_cut |= bad
        if is_cut.any():
            raise table.fault(int(rows[np.argmax(is_cut)]))

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str) -> Integers:
        """One fixed field of all rows."""
        return self.fixed[name].astype(np.int64)

    @property
    def stored_at(self) -> Integers:
        """When each was taken, in microseconds; for the oldest records their entry's time."""
        stored = self.field("stored_at")
        if stored.all():
            return stored
        return np.where(stored == 0, self.table.block.field("timestamp")[self.entries], stored)

    def facts(self, kinds: int = FACT_FLAGS) -> dict[int, MessageFacts]:
        """
        The facts of those rows that have any of these kinds, read one by one.

        Raises:
            CorruptRecordError: They make no sense; the sentence names entry and byte.
        """
        found = self._written_facts(kinds)
        if self.moved_by is not None:
            for row in np.flatnonzero(self.moved_by >= 0).tolist():
                origin = self.moves[int(self.moved_by[row])]
                known = found.get(row) or MessageFacts()
                found[row] = replace(known, origin=origin, places=(), skips=b"", due_ms=None)
        return found

    def _written_facts(self, kinds: int) -> dict[int, MessageFacts]:
        if not self.has_facts:
            return {}
        flags = self.fixed["flags"].astype(np.int64) & FACT_FLAGS
        rows = np.flatnonzero(flags & kinds)
        buffer = self.table.block.buffer
        found: dict[int, MessageFacts] = {}
        for row, bits, start, end in zip(
            rows.tolist(),
            flags[rows].tolist(),
            self.fact_starts[rows].tolist(),
            self.header_starts[rows].tolist(),
            strict=True,
        ):
            try:
                facts = decode_facts(buffer, bits, start, end)[0]
            except ValueError as error:  # A text that is none: where it ends was right.
                raise record_fault(self.table.block, int(self.entries[row])) from error
            found[row] = self._seen_from(row, facts) if facts.places else facts
        return found

    def _seen_from(self, row: int, facts: MessageFacts) -> MessageFacts:
        """The facts of a row for a place that its record does not name first."""
        here = self._place(self.fixed[row])
        first = self._place(
            structures(self.table.block.buffer, self.starts[row : row + 1], MESSAGE_TYPE)[0]
        )
        if here == first:
            return facts
        return replace(facts, places=(first, *(it for it in facts.places if it != here)))

    def _place(self, fixed: Any) -> Place:
        return Place(int(fixed["queue_number"]), int(fixed["sequence"]))

    def spread(self) -> bool:
        """
        Put a row for each other place behind that of a message that stands on several queues.

        Gives whether there is such a message.
        """
        several = {row: facts.places for row, facts in self.facts(PLACES).items()}
        if not several:
            return False
        counts = np.ones(len(self), dtype=np.int64)
        for row, places in several.items():
            counts[row] += len(places)
        firsts = np.cumsum(counts) - counts
        self._choose(np.repeat(np.arange(len(self)), counts))
        for row, places in several.items():
            for at, place in enumerate(places, int(firsts[row]) + 1):
                self.fixed["queue_number"][at], self.fixed["sequence"][at] = place
        return True

    def place_moved(
        self,
        kept: Integers,
        moved: Integers,
        places: tuple[Integers, Integers],
        moved_by: Integers,
        moves: list[Origin],
    ) -> None:
        """
        Have of the rows those that are kept, and those that were moved where they stand now.

        Args:
            kept: Rows by number, and so in `moved`.
            places: Queue and sequence of each of the moved ones.
            moved_by: Which of the `moves` has put each there.
        """
        which = np.concatenate([kept, moved])
        order = np.argsort(which, kind="stable")
        self._choose(which[order])
        none = np.full(len(kept), -1, dtype=np.int64)
        self.moved_by = np.concatenate([none, moved_by])[order]
        self.moves = moves
        for name, values in zip(("queue_number", "sequence"), places, strict=True):
            there = np.concatenate([self._zeros(kept), values])[order]
            self.fixed[name] = np.where(self.moved_by >= 0, there, self.fixed[name])

    @staticmethod
    def _zeros(rows: Integers) -> Integers:
        return np.zeros(len(rows), dtype=np.int64)

    def keep(self, mask: Mask) -> None:
        """Forget the rows for which `mask` is false."""
        self._choose(mask)

    def _choose(self, which: Mask | Integers) -> None:
        self.starts = self.starts[which]
        self.entries = self.entries[which]
        self.ordinals = self.ordinals[which]
        self.fixed = self.fixed[which]
        self.has_producer = self.has_producer[which]
        self.fact_starts = self.fact_starts[which]
        self.header_starts = self.header_starts[which]
        self.body_starts = self.body_starts[which]
        self.body_ends = self.body_ends[which]
        if self.moved_by is not None:
            self.moved_by = self.moved_by[which]


def record_fault(block: EntryBlock, position: int) -> CorruptRecordError:
    """Say what is wrong in the entry at this position, in the codec's own words."""
    index = block.first_index + position
    start, end = int(block.body_starts[position]), int(block.body_ends[position])
    count = 0
    try:
        for _ in decode_records(block.buffer[start:end], with_content=False):
            count += 1
    except CorruptRecordError as error:
        return CorruptRecordError(f"entry {index:,}: {error}")
    wanted = int(block.field("record_count")[position])
    return CorruptRecordError(f"entry {index:,} holds {count:,} records, it says {wanted:,}")


def _walk(block: EntryBlock) -> tuple[Integers, Integers]:
    """Give the byte where each record begins, and how many each entry has."""
    buffer = block.buffer
    kinds = block.field("kind")
    counts = np.where(kinds == KIND_RECORDS, block.field("record_count"), 0)
    starts, ends = block.body_starts.tolist(), block.body_ends.tolist()
    found: list[Integers] = []
    loose: list[int] = []
    for position, count in enumerate(counts.tolist()):
        if not count:
            continue
        start, end = starts[position], ends[position]
        uniform = _uniform(buffer, start, end, count) if count >= _UNIFORM_COUNT_MIN else None
        if uniform is not None:
            if loose:
                found.append(np.array(loose, dtype=np.int64))
                loose = []
            found.append(uniform)
        elif not _walk_entry(buffer, start, end, count, loose):
            raise record_fault(block, position)
    found.append(np.array(loose, dtype=np.int64))
    return np.concatenate(found), counts


def _uniform(buffer: bytes, start: int, end: int, count: int) -> Integers | None:
    """Give the places of records that are all as long as the first, None if they are not."""
    (length,) = _LENGTH.unpack_from(buffer, start + 4)
    step = RECORD_HEADER_BYTES + length
    if step * count != end - start:
        return None
    lengths: npt.NDArray[np.uint32] = np.ndarray(
        (count,), dtype="<u4", buffer=buffer, offset=start + 4, strides=(step,)
    )
    if not (lengths == length).all():
        return None
    return np.arange(start, end, step, dtype=np.int64)


def _walk_entry(buffer: bytes, start: int, end: int, count: int, places: list[int]) -> bool:
    """Append where each record begins; tell whether the frames fill the body exactly."""
    length_at = _LENGTH.unpack_from
    append = places.append
    place = start
    before = len(places)
    while place + RECORD_HEADER_BYTES <= end:
        append(place)
        place += RECORD_HEADER_BYTES + length_at(buffer, place + 4)[0]
    return place == end and len(places) - before == count
