"""
Read a log: entries from memory or from disk, what their headers say, and where they stand.

Whatever is read is verified. What is found damaged is listed and told of, and refused from then on.

Owned by the loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import Disk, mend_copies
from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.journal.damage import Damage, DamageList
from holdfast.journal.entry import (
    FIRST_CHAIN,
    HEADER_BYTES,
    Entry,
    HeaderFields,
    entry_bytes,
    parse_entry,
    parse_header,
)
from holdfast.journal.open_files import OpenFiles
from holdfast.journal.segment import Segment
from holdfast.journal.settings import JournalSettings
from holdfast.journal.tail import LogTail

logger = logging.getLogger("holdfast.journal")


def is_entry(index: int) -> Callable[[bytes], bool]:
    """Tell of bytes whether they are the sound entry of this index."""

    def is_good(raw: bytes) -> bool:
        try:
            return parse_entry(raw).index == index
        except CorruptEntryError:
            return False

    return is_good


def _is_header(index: int) -> Callable[[bytes], bool]:
    def is_good(raw: bytes) -> bool:
        try:
            return parse_header(raw).entry_index == index
        except CorruptEntryError:
            return False

    return is_good


class LogReader:
    """Reads one log; its errors are those that `Journal` tells of."""

    __slots__ = ("_damage", "_disk", "_located", "_memory", "_tail", "files")

    def __init__(
        self, tail: LogTail, damage: DamageList, disk: Disk, settings: JournalSettings
    ) -> None:
        self._tail = tail
        self._memory = tail.memory
        self._damage = damage
        self._disk = disk
        self._located: Entry | None = None
        self.files = OpenFiles(disk, settings.open_files_max)

    def entry(self, index: int) -> Entry:
        """Return an entry, from memory or verified from disk."""
        entry = self._memory.find(index)
        return entry if entry is not None else self._load(index)

    def entries(self, from_index: int, bytes_max: int, overhead_bytes: int = 0) -> list[Entry]:
        """Return entries from `from_index` on, up to `bytes_max` together; at least one if any."""
        found: list[Entry] = []
        total = 0
        for index in range(from_index, self._tail.last_index + 1):
            try:
                entry = self.entry(index)
            except CorruptEntryError:
                if found:
                    break
                raise
            total += len(entry.raw) + overhead_bytes
            if found and total > bytes_max:
                break
            found.append(entry)
        return found

    def locate_record(self, number: int) -> tuple[Entry, int]:
        """Return the entry that holds a record, and which of its records it is, from 0."""
        entry = self._located
        if entry is None or not (
            entry.first_record <= number < entry.first_record + entry.record_count
        ):
            segments, next_record = self._tail.segments, self._tail.next_record_number
            if not segments.first_record <= number < next_record:
                raise RecordNotFoundError(
                    f"record {number:,} is not in the log, which holds"
                    f" {segments.first_record:,} to {next_record - 1:,}"
                )
            entry = self.entry(segments.find_record(number).index_of_record(number))
            self._located = entry
        return entry, number - entry.first_record

    def chain_at(self, index: int) -> bytes:
        """Return the chain value of an entry, or of the one just before the first."""
        tail = self._tail
        if index == tail.last_index:
            return tail.last_chain
        if index == tail.segments.first_index - 1:
            return tail.segments.first.header.previous_chain
        entry = self._memory.tail.get(index)
        return entry.chain if entry is not None else self.header_at(index).chain

    def kind_at(self, index: int) -> int:
        """Return the kind of an entry; its header tells, also where its body is damaged."""
        entry = self._memory.tail.get(index)
        return entry.kind if entry is not None else self.header_at(index).kind

    def previous(self, first_index: int) -> tuple[int, bytes, int]:
        """Return (term, chain) of the entry before `first_index` and its first record number."""
        tail = self._tail
        if first_index == tail.last_index + 1:
            return tail.last_term, tail.last_chain, tail.next_record_number
        segment = tail.segment_of(first_index)
        header = segment.header
        is_stated = header.previous_chain != FIRST_CHAIN or segment is tail.segments.first
        if first_index == segment.base_index and (is_stated or not segment.first_records):
            return header.previous_term, header.previous_chain, header.base_record
        record = segment.first_records[first_index - segment.base_index]
        return tail.term_at(first_index - 1), self.chain_at(first_index - 1), record

    def standing_at(self, index: int, before: Entry | None) -> Entry | None:
        """Return the sound entry that stands where this damaged one begins, if one does."""
        segment, start, size = self._tail.place(index if before is None else before.index)
        used = 0 if before is None else len(before.raw)
        try:
            file = self.files.get(segment)
            header = parse_header(file.read(HEADER_BYTES, start + used))
            length = entry_bytes(header.body_length)
            entry = parse_entry(file.read(min(max(size - used, 0), length), start + used))
        except (OSError, CorruptEntryError):
            return None
        return entry if entry.index == index else None

    def header_at(self, index: int) -> HeaderFields:
        """Return the header of an entry, whatever its body is like."""
        entry = self._memory.find(index)
        if entry is not None:
            return parse_header(entry.raw)
        segment, start, _ = self._tail.place(index)
        header = self._read(segment, index, start, HEADER_BYTES)
        try:
            fields = parse_header(header)
        except CorruptEntryError as error:
            good = mend_copies(self._disk, segment.path, start, HEADER_BYTES, _is_header(index))
            if good is None:
                raise self._found_damage(segment, start, index, error.reason).error() from None
            fields = parse_header(good)
        if fields.entry_index != index:
            raise self._found_damage(segment, start, index, "another entry stands here").error()
        return fields

    def forget_located(self) -> None:
        """Forget in which entry a record was found last: it may be gone."""
        self._located = None

    def forget_read(self, index: int) -> None:
        """Forget an entry that was read back, so that it is read again."""
        self._memory.forget_read(index)
        if self._located is not None and self._located.index == index:
            self._located = None

    def _load(self, index: int) -> Entry:
        segment, start, size = self._tail.place(index)
        known = self._damage.find(index)
        if known is not None:
            raise known.error()
        raw = self._read(segment, index, start, size)
        try:
            entry = parse_entry(raw)
        except CorruptEntryError as error:
            good = mend_copies(self._disk, segment.path, start, size, is_entry(index))
            if good is None:
                raise self._found_damage(segment, start, index, error.reason).error() from None
            entry = parse_entry(good)
        if entry.index != index:
            raise self._found_damage(segment, start, index, "another entry stands here").error()
        self._memory.keep_read(entry)
        return entry

    def _read(self, segment: Segment, index: int, start: int, size: int) -> bytes:
        try:
            return self.files.get(segment).read(size, start)
        except OSError as error:
            if is_out_of_descriptors(error):
                # The disk said nothing: the entry is not damaged, it cannot be had now.
                raise CorruptEntryError(
                    f"it cannot be read now: {error.strerror}",
                    segment=segment.path.name,
                    byte=start,
                    index=index,
                ) from error
            reason = f"the disk cannot read it: {error}"
            raise self._found_damage(segment, start, index, reason).error() from error

    def _found_damage(self, segment: Segment, start: int, index: int, reason: str) -> Damage:
        damage = Damage(segment.path.name, start, index, reason)
        logger.error("damage found: %s", damage)
        self._damage.report(damage)
        return damage
