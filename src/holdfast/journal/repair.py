"""
Mend damaged entries with the copies of peers, and tell what is lost as long as they are not.

Invariants:
    Nothing is written over an entry but a copy that fits between its neighbours, chain and all.
    One repair is under way at a time.

Owned by the loop thread.
"""

from __future__ import annotations

import logging

from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.damage import MISSING, MISSING_FILE, DamageList
from holdfast.journal.entry import FIRST_CHAIN, Entry, verify_chain
from holdfast.journal.jobs import RepairJob
from holdfast.journal.reading import LogReader
from holdfast.journal.segment import Segment
from holdfast.journal.tail import LogTail

logger = logging.getLogger("holdfast.journal")


class LogRepair:
    """The repairs of one log."""

    __slots__ = ("_damage", "_reader", "_tail", "_under_way")

    def __init__(self, tail: LogTail, reader: LogReader, damage: DamageList) -> None:
        self._tail = tail
        self._reader = reader
        self._damage = damage
        self._under_way: RepairJob | None = None

    def stage(self, entry: Entry) -> RepairJob:
        """
        Prepare to overwrite a damaged entry with a peer's copy.

        Raises:
            StoreError: It is not the entry that was here.
        """
        segment, start, size = self._tail.place(entry.index)
        self._check(entry, segment, start, size)
        self._under_way = RepairJob(entry, segment, start)
        return self._under_way

    def finish(self, job: RepairJob) -> bool:
        """Take up what a repair that is done has mended; False if the entry is gone meanwhile."""
        assert job.is_done and job is self._under_way
        self._under_way = None
        if job.is_void:
            return False
        index = job.entry.index
        self._tail.mend(job.entry, job.segment, job.start)
        self._damage.forget(index)
        logger.warning("entry %d in %s was repaired", index, job.segment.path.name)
        return True

    def void_outside(self, first_index: int, last_index: int) -> None:
        """Give up a repair under way of an entry that does not stay."""
        job = self._under_way
        if job is not None and not first_index <= job.entry.index <= last_index:
            job.is_void = True

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        """Return what is lost with a damaged entry; None if it is not known to be damaged."""
        tail, damage = self._tail, self._damage
        oldest, newest = tail.segments.first_index, tail.last_index
        if index not in damage or not oldest <= index <= newest:
            return None
        last = index
        while last < newest and last + 1 in damage:
            last += 1
        begin = index
        while begin > oldest and begin - 1 in damage:
            begin -= 1
        first = 1  # Nothing good before it, and perhaps not even its segment's header, says.
        if begin > oldest:
            segment = tail.segment_of(begin)
            first = segment.first_records[begin - segment.base_index]
        following = last + 1
        if following > newest:
            return last, first, tail.next_record_number
        segment = tail.segment_of(following)
        return last, first, segment.first_records[following - segment.base_index]

    def _check(self, entry: Entry, segment: Segment, start: int, size: int) -> None:
        index, last_index = entry.index, self._tail.last_index
        following, known = self._damage.find(index + 1), self._damage.find(index)
        is_missing = known is not None and known.reason in {MISSING, MISSING_FILE}
        is_open_ended = is_missing or (following is not None and index < segment.last_index)
        fits = len(entry.raw) <= size if is_open_ended else len(entry.raw) == size
        if index == segment.last_index < last_index:
            # Where its header was lost, zeros that it ended in were taken for the empty rest.
            fits |= size < len(entry.raw) <= segment.header.capacity - start
        try:
            before = self._reader.previous(index)[1]
            is_lost = index > 1 and before == FIRST_CHAIN  # as `previous` says
            is_continuing = is_lost or verify_chain(entry, before)
        except CorruptEntryError:
            is_continuing = True  # the one before is damaged too
        if index < last_index and following is None:
            after = self._reader.entry(index + 1)
            is_continuing = is_continuing and verify_chain(after, entry.chain)
        if not (fits and is_continuing):
            raise StoreError(
                f"the copy of entry {index:,} offered for {segment.path.name} byte {start:,}"
                f" is not the entry that was here"
            )
