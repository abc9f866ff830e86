"""
The log as the rest of the program sees it: stage entries, read them, drop old ones.

Staging gives an entry its place and makes it readable at once; the writer thread makes it
durable. So reads never wait for a write: what is not durable yet is always in memory.

Invariants:
    Indexes and record numbers have no gaps: entry i+1 begins with the record after entry i's last.
    stored_index <= last_index; everything through stored_index is durable.
    Entries after stored_index are in memory.
    A damaged entry keeps its index and place; reading it raises, repairing it mends it.

Owned by the loop thread, except `durable_index`, `is_out_of_room` and `failure`, which the writer
sets.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from pathlib import Path

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import Disk, DiskLock
from holdfast.errors import (
    BallotLostError,
    CorruptEntryError,
    JournalFailedError,
    RecordNotFoundError,
    StoreError,
)
from holdfast.journal.ballot import BallotFile
from holdfast.journal.damage import MISSING, MISSING_FILE, Damage
from holdfast.journal.entry import (
    FIRST_CHAIN,
    HEADER_BYTES,
    Entry,
    HeaderFields,
    entry_bytes,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.entry_memory import EntryMemory
from holdfast.journal.filling import Filling, Target, begin_filling
from holdfast.journal.housekeeper import Housekeeper
from holdfast.journal.jobs import AppendJob, Claim, Cut, Piece, RepairJob, ResetJob, TruncateJob
from holdfast.journal.kept_log import kept_paths
from holdfast.journal.open_files import OpenFiles
from holdfast.journal.opening import open_directory
from holdfast.journal.scan import LogScan, Progress, TailState
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    EntryPlace,
    Segment,
    SegmentHeader,
    SegmentStatistics,
)
from holdfast.journal.settings import JournalSettings
from holdfast.journal.space import SpaceState, SpaceWatch
from holdfast.journal.terms import TermTable

logger = logging.getLogger("holdfast.journal")


class Journal:
    """
    One data directory's log. Use `Journal.open`.

    `last_index`, `last_term`, `last_chain`, `next_record_number` and `last_timestamp` speak of the
    end of the log with everything staged.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        settings: JournalSettings,
        scan: LogScan,
        ballot_file: BallotFile,
        lock: DiskLock,
    ) -> None:
        self.directory = directory
        self.disk = disk
        self.settings = settings
        self.ballot_file = ballot_file
        self.housekeeper = Housekeeper(directory / "journal", disk, settings)
        self.failure: JournalFailedError | None = None
        """Set by the writer once a write failed; staging raises it from then on."""
        self.is_out_of_room = False
        """Set by the writer while there is no room for what is staged."""
        self.ballot_error: BallotLostError | None = None
        """Why the ballot could not be read, if so."""
        self.recovered_tail = scan.tail
        """What recovery found behind the last good entry."""
        self._lock = lock
        self._segments = scan.segments or [self._first_segment(1, 0, scan.last_chain, 1)]
        self.was_empty = not scan.segments
        """No file of the log was there at the start."""
        self._bases = array("Q", [segment.base_index for segment in self._segments])
        self._record_bases = array("Q", [it.header.base_record for it in self._segments])
        self._terms = TermTable(scan.term_starts, scan.term_values)
        self.last_index = scan.last_index
        self.last_term = scan.last_term
        self.last_chain = scan.last_chain
        self.next_record_number = scan.next_record
        self.last_timestamp = scan.last_timestamp
        self.durable_index = scan.last_index
        self.durable_chain = scan.last_chain
        """The chain value of that entry; the writer's, like the index."""
        self.unknown_through = scan.tail.through if scan.tail.state == "unknown" else 0
        """The highest index this node may have stored and cannot show; 0 if there is none."""
        self.unknown_term = scan.tail.term
        """No entry that was lost here before had a higher term; 0 if no ballot tells."""
        self._damage: dict[int, Damage] = {it.index: it for it in scan.damage}
        self.on_damage: Callable[[int], None] = lambda _index: None
        """Told at once of every entry found damaged, whoever looked at it and why."""
        self._missing_index = scan.last_index + 1
        """Damage at this index, behind the end of the log, is not repaired but staged again."""
        self._cut_pending = self.unknown_through > 0
        self._truncations: deque[Cut] = deque()
        self._repair: RepairJob | None = None
        self.filling: Filling | None = None
        """Set while this log was begun anew and does not yet have what the one before had."""
        self._last_origin = 0
        self.memory = EntryMemory(settings, scan.last_index + 1)
        self._located: Entry | None = None
        self._files = OpenFiles(disk, settings.open_files_max)
        self._space = SpaceWatch(settings, lambda: disk.free_bytes(directory))

    @classmethod
    def open(
        cls,
        directory: Path,
        disk: Disk,
        settings: JournalSettings,
        *,
        resolve_unknown_tail: bool = False,
        progress: Progress | None = None,
    ) -> Journal:
        """
        Take the directory, read and verify the whole log, and mend what a crash left.

        Damage does not keep it from opening: see `damage` and `tail_state`. A node that can ask
        nobody sets `resolve_unknown_tail`, so that an end of which nobody can tell whether it was
        stored is cut, its bytes kept in lost+found.

        Raises:
            StoreLockedError: Another process has the directory.
            SegmentsMissingError: Files are missing at the log's beginning.
            StoreError: A file is missing, foreign, or of another version.
            JournalFailedError: The disk refused to be written.
        """
        opened = open_directory(
            directory, disk, resolve_unknown_tail=resolve_unknown_tail, progress=progress
        )
        journal = cls(directory, disk, settings, opened.scan, opened.ballot_file, opened.lock)
        journal.housekeeper.note_first = opened.ballot_file.save_first
        journal.ballot_error = opened.ballot_error
        journal.filling = opened.filling
        journal._last_origin = opened.last_origin
        for full in opened.full:
            journal.housekeeper.drop(full.paths, 0, note=full.note)
        journal.housekeeper.drop(opened.left_over, journal.first_index)
        error = journal.housekeeper.failure
        if error is not None:
            journal.close()
            raise JournalFailedError(f"{directory} could not be recovered: {error}") from error
        return journal

    def close(self) -> None:
        """Close every file and let the directory go. The writer must be closed before."""
        self._files.close_after(-1)
        self.housekeeper.close()
        self.ballot_file.close()
        self._lock.release()

    # What is in the log.

    @property
    def first_index(self) -> int:
        """The oldest index kept; one above `last_index` if the log is empty."""
        return self._bases[0]

    @property
    def last_base(self) -> int:
        """The first index of the newest segment."""
        return self._bases[-1]

    @property
    def stored_index(self) -> int:
        """Everything through here is durable, truncations under way taken into account."""
        truncations = self._truncations
        if truncations:
            while truncations and truncations[0].is_done:
                truncations.popleft()
            limits = [job.kept_index for job in truncations]
            return min([self.durable_index, *limits])
        return self.durable_index

    @property
    def damage(self) -> list[Damage]:
        """Everything known to be damaged, oldest first. `index` 0 is a segment's header."""
        return [self._damage[index] for index in sorted(self._damage)]

    @property
    def tail_state(self) -> TailState:
        """How the end of the log was found; "unknown" only until it is resolved."""
        if self.unknown_through:
            return "unknown"
        state = self.recovered_tail.state
        return "clean" if state == "unknown" else state

    def term_at(self, index: int) -> int:
        """Return an entry's term, or that before `first_index`; the least it can be where lost."""
        first = self._bases[0]
        if index == first - 1:
            return self._segments[0].header.previous_term
        if not first <= index <= self.last_index:
            raise self._not_found(index)
        return self._terms.at(index, self._segments[0].header.previous_term)

    def chain_at(self, index: int) -> bytes:
        """
        Return the chain value of an entry, or of the one just before `first_index`.

        Raises:
            CorruptEntryError: It stands in a header that is damaged.
        """
        if index == self.last_index:
            return self.last_chain
        if index == self._bases[0] - 1:
            return self._segments[0].header.previous_chain
        entry = self.memory.tail.get(index)
        return entry.chain if entry is not None else self._header_at(index).chain

    def kind_at(self, index: int) -> int:
        """
        Return the kind of an entry; its header tells, also where its body is damaged.

        Raises:
            CorruptEntryError: The header is damaged.
        """
        entry = self.memory.tail.get(index)
        return entry.kind if entry is not None else self._header_at(index).kind

    def previous(self, first_index: int) -> tuple[int, bytes, int]:
        """
        Return (term, chain) of the entry before `first_index` and its first record number.
        Nobody knows them where the first segment's header is lost: the chain is `FIRST_CHAIN`.
        """
        if first_index == self.last_index + 1:
            return self.last_term, self.last_chain, self.next_record_number
        segment = self._segment_of(first_index)
        header = segment.header
        is_stated = header.previous_chain != FIRST_CHAIN or segment is self._segments[0]
        if first_index == segment.base_index and (is_stated or not segment.first_records):
            return header.previous_term, header.previous_chain, header.base_record
        record = segment.first_records[first_index - segment.base_index]
        return self.term_at(first_index - 1), self.chain_at(first_index - 1), record

    def entry(self, index: int) -> Entry:
        """
        Return an entry, from memory or verified from disk.

        Raises:
            CorruptEntryError: It is damaged; the error names the place.
            RecordNotFoundError: The log does not hold this index.
        """
        entry = self.memory.find(index)
        return entry if entry is not None else self._load(index)

    def entries(self, from_index: int, bytes_max: int, overhead_bytes: int = 0) -> list[Entry]:
        """
        Return entries from `from_index` on, up to `bytes_max` together; at least one if any.

        Each counts `overhead_bytes` more than it has.
        """
        found: list[Entry] = []
        total = 0
        for index in range(from_index, self.last_index + 1):
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
        """
        Return the entry that holds a record, and which of its records it is, from 0.

        Raises:
            CorruptEntryError: The entry is damaged.
            RecordNotFoundError: The log does not hold this record.
        """
        entry = self._located
        if entry is None or not (
            entry.first_record <= number < entry.first_record + entry.record_count
        ):
            if not self._record_bases[0] <= number < self.next_record_number:
                raise RecordNotFoundError(
                    f"record {number:,} is not in the log, which holds"
                    f" {self._record_bases[0]:,} to {self.next_record_number - 1:,}"
                )
            segment = self._segments[bisect_right(self._record_bases, number) - 1]
            entry = self.entry(segment.index_of_record(number))
            self._located = entry
        return entry, number - entry.first_record

    def place_of(self, index: int) -> EntryPlace:
        """
        Return where an entry is on disk.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        segment, start, size = self._place(index)
        return EntryPlace(segment.path, start, size)

    def span(self, index: int, bytes_max: int, through: int) -> tuple[EntryPlace, int]:
        """
        Return where entries from `index` on are, in one file, and the last of them.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        segment = self._segment_of(index)
        start, size, last = segment.span(index, bytes_max, through)
        return EntryPlace(segment.path, start, size), last

    @property
    def sealed_through(self) -> int:
        """
        The last index of the newest sealed segment; one below `first_index` if none is.

        A segment is sealed once all of it is durable: one that is only staged is still written.
        """
        newest = bisect_right(self._bases, self.stored_index + 1) - 1
        return self._bases[max(newest, 0)] - 1

    def segments(self) -> list[SegmentStatistics]:
        """Return what is kept, oldest first."""
        last = self._segments[-1]
        sealed_through = self.sealed_through
        return [
            segment.statistics(sealed_through, is_last=segment is last)
            for segment in self._segments
        ]

    @property
    def bytes_on_disk(self) -> int:
        """The bytes of all segment files, the spare ones too."""
        spare = self.housekeeper.spare_count * self.settings.segment_bytes
        return spare + sum(segment.header.capacity for segment in self._segments)

    # Changing it. Every job goes to the writer, in the order made here.

    def stage(self, entries: list[Entry]) -> AppendJob:
        """
        Put entries behind the last one, readable at once; the job makes them durable.

        The caller has verified that they continue the log (index, chain, record numbers).

        Raises:
            JournalFailedError: A write failed before.
        """
        if self.failure is not None:
            raise self.failure
        pieces: list[Piece] = []
        piece: Piece | None = None
        memory = self.memory
        segment = self._segments[-1]
        cut = self._cut_job() if self._cut_pending else None
        for entry in entries:
            raw = entry.raw
            size = len(raw)
            assert entry.index == self.last_index + 1, "an entry is missing or staged twice"
            assert entry.first_record == self.next_record_number
            if not segment.offsets or not segment.fits(size):
                segment = self._begin_segment(size)
                piece = None
            if piece is None or not piece.add(entry, size):
                piece = Piece(segment, segment.end, opens=not segment.offsets)
                piece.add(entry, size)
                pieces.append(piece)
            segment.add(entry.first_record, size)
            if entry.term != self.last_term or not self._terms:
                assert entry.term >= self.last_term
                self._terms.begin(entry.index, entry.term)
                self.last_term = entry.term
            self.last_index = entry.index
            self.last_chain = entry.chain
            self.next_record_number += entry.record_count
            memory.add(entry)
        if entries:
            self.last_timestamp = entries[-1].timestamp
        if memory.bytes > self.settings.tail_cache_bytes:
            memory.shrink(self.stored_index)
        if self.unknown_through and self.last_index >= self.unknown_through:
            self.unknown_through = 0
            self._damage.pop(self._missing_index, None)
        return AppendJob(pieces, self.last_index, cut)

    def need_from(self, index: int) -> None:
        """Keep entries from here on in memory, within limits: somebody is about to ask for them."""
        memory = self.memory
        memory.needed_from = index
        if memory.bytes > self.settings.tail_cache_bytes:
            memory.shrink(self.stored_index)

    def stage_truncate(self, after_index: int, claim: Claim | None = None) -> Cut:
        """
        Cut everything after `after_index` off, at once for readers; the job makes it so on disk.

        What is cut is zero on disk before anything is written there again. For `claim` see `jobs`.
        """
        if self.failure is not None:
            raise self.failure
        assert self._bases[0] - 1 <= after_index <= self.last_index
        if after_index < self._bases[0]:
            header = self._segments[0].header
            reset = self.stage_reset(
                header.base_index, header.previous_term, header.previous_chain, header.base_record
            )
            reset.claim = claim
            return reset
        last = self._segments[-1]
        fields = self._header_at(after_index)
        removed: list[Segment] = []
        while self._segments[-1].base_index > after_index:
            removed.insert(0, self._segments.pop())
            self._bases.pop()
            self._record_bases.pop()
        segment = self._segments[-1]
        end = segment.end
        if segment is last and self._cut_pending:
            end = max(end, self.recovered_tail.end)
        segment.cut_after(after_index)
        job = TruncateJob(after_index, fields.chain, segment, segment.end, end, removed, claim)
        if self._cut_pending:
            job.keep_in = self.directory / "lost+found"
        self._forget_after(after_index)
        self.last_term = fields.term
        self.last_timestamp = fields.timestamp
        self.next_record_number = fields.first_record + fields.record_count
        self.last_chain = fields.chain
        self._truncations.append(job)
        return job

    def stage_reset(
        self,
        base_index: int,
        previous_term: int,
        previous_chain: bytes,
        base_record_number: int,
        target: Target | None = None,
        *,
        is_of_voter: bool = False,
    ) -> ResetJob:
        """
        Begin anew with `base_index`; with `target` the files stay until `forget_filling`.

        If a log that is not full, durably, is begun anew itself, what is kept already stays.
        """
        if self.failure is not None:
            raise self.failure
        stored = self.stored_index
        end = self._end_for_sure(stored)
        names = tuple(it.path.name for it in self._segments if it.offsets or self._cut_pending)
        removed = self._segments
        first = self._first_segment(base_index, previous_term, previous_chain, base_record_number)
        self._segments = [first]
        self._bases = array("Q", [base_index])
        self._record_bases = array("Q", [base_record_number])
        self._forget_after(0)
        self._terms.clear()
        self.memory.first = base_index
        self.last_index = base_index - 1
        self.last_term = previous_term
        self.last_chain = previous_chain
        self.next_record_number = base_record_number
        self.last_timestamp = 0
        job = ResetJob(base_index, previous_chain, removed)
        if target is not None:
            if self.filling is not None and self.filling.is_reached(stored):
                self.forget_filling()
            job.is_set_aside = self.filling is None
            origin = max(base_index, self._last_origin + 1)
            self.filling = job.filling = begin_filling(
                self.filling, base_index, target, end, names, origin, is_of_voter=is_of_voter
            )
            self._last_origin = self.filling.origin
        self._truncations.append(job)
        return job

    def forget_filling(self, *, is_full: bool = True) -> None:
        """Give up what is kept of the log before this one, once this is begun; its note if full."""
        is_begun = all(isinstance(job, TruncateJob) or job.is_done for job in self._truncations)
        if self.filling is not None and is_begun:
            paths, note = kept_paths(self.directory, self.filling)
            self.housekeeper.drop(paths, 0, note=note if is_full else None)
            self.filling = None if is_full else self.filling.without_kept()

    def drop_before(self, index: int) -> int:
        """
        Remove the segments that hold only entries before `index`; return how many.

        The files go in the background, oldest first. The newest segment always stays, and so does
        the one before it until the newest is a file with a durable entry: a directory without any
        segment has forgotten where its log was.
        """
        durable = self.stored_index
        count = 0
        while (
            count + 1 < len(self._segments)
            and self._segments[count].last_index < index
            and self._segments[count + 1].base_index <= durable
        ):
            count += 1
        if count:
            dropped = self._segments[:count]
            del self._segments[:count]
            del self._bases[:count]
            del self._record_bases[:count]
            first = self._bases[0]
            self._damage = {key: it for key, it in self._damage.items() if key >= first}
            self.memory.forget_before(first)
            self._located = None
            for segment in dropped:
                self._files.close(segment.base_index)
            self._void_repair(first, self.last_index)
            self.housekeeper.drop([segment.path for segment in dropped], first)
        return count

    def stage_repair(self, entry: Entry) -> RepairJob:
        """
        Prepare to overwrite a damaged entry with a peer's copy; one at a time.

        It stays damaged until `finish_repair`. Of damaged neighbours repair the first one first.

        Raises:
            StoreError: It is not the entry that was here.
            JournalFailedError: A write failed before.
        """
        if self.failure is not None:
            raise self.failure
        segment, start, size = self._place(entry.index)
        self._check_repair(entry, segment, start, size)
        self._repair = RepairJob(entry, segment, start)
        return self._repair

    def finish_repair(self, job: RepairJob) -> bool:
        """Take up what a repair that is done has mended; False if the entry is gone meanwhile."""
        assert job.is_done and job is self._repair
        self._repair = None
        if job.is_void:
            return False
        entry, segment, start = job.entry, job.segment, job.start
        index, size = entry.index, segment.place(entry.index)[1]
        position = index - segment.base_index
        segment.first_records[position] = entry.first_record
        if index == segment.last_index:
            segment.end_at(start + len(entry.raw))
        elif len(entry.raw) < size:
            segment.offsets[position + 1] = start + len(entry.raw)
        if self.term_at(index) != entry.term:
            self.last_term = self._terms.set(
                index, entry.term, self.term_at(index), is_last=index == self.last_index
            )
        if index == self.last_index:
            self.last_chain = entry.chain
            self.last_timestamp = entry.timestamp
            self.next_record_number = entry.next_record
        self._damage.pop(index, None)
        logger.warning("entry %d in %s was repaired", index, segment.path.name)
        return True

    def report_damage(self, damage: Damage) -> None:
        """Note damage that was found elsewhere (scrubbing); ignored if the entry is gone."""
        if self._bases[0] <= damage.index <= self.last_index:
            self._damage.setdefault(damage.index, damage)
            self._forget_read(damage.index)
            self.on_damage(damage.index)

    def is_damaged(self, index: int) -> bool:
        """Return whether an entry has damage that is known and not repaired."""
        return index in self._damage

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        """
        Return what is lost with a damaged entry; None if it is not known to be damaged.

        Neighbours whose bounds are lost cannot be told apart: the last of the damaged entries from
        this one on, the first record that they, or those damaged right before them, may have held,
        and the first behind them.
        """
        if index not in self._damage or not self._bases[0] <= index <= self.last_index:
            return None
        last = index
        while last < self.last_index and last + 1 in self._damage:
            last += 1
        begin = index
        while begin > self._bases[0] and begin - 1 in self._damage:
            begin -= 1
        segment = self._segment_of(begin)
        first = segment.first_records[begin - segment.base_index]
        if begin == self._bases[0]:
            first = 1  # Nothing good before it, and perhaps not even its segment's header, says.
        following = last + 1
        if following > self.last_index:
            return last, first, self.next_record_number
        segment = self._segment_of(following)
        return last, first, segment.first_records[following - segment.base_index]

    def space_state(self, now: float) -> SpaceState:
        """Tell whether there is room to publish; `now` in seconds of the monotonic clock."""
        is_out = self.is_out_of_room or self.housekeeper.is_out_of_space
        return self._space.state(now, is_out_of_space=is_out)

    def _first_segment(self, index: int, term: int, chain: bytes, record: int) -> Segment:
        header = SegmentHeader(index, record, term, chain, self.settings.segment_bytes)
        return Segment(self.directory / "journal", header)

    def _end_for_sure(self, stored: int) -> Target:
        """Where the log ends, without what waits for room: that is left out if it is begun anew."""
        following = self.memory.find(stored + 1) if self.is_out_of_room else None
        if following is None:
            return Target(
                index=self.last_index, record=self.next_record_number, timestamp=self.last_timestamp
            )
        return Target(
            index=stored, record=following.first_record, timestamp=following.timestamp - 1
        )

    def _begin_segment(self, size: int) -> Segment:
        """Start a segment at the next index; its file is made by the job that is being staged."""
        header = SegmentHeader(
            self.last_index + 1,
            self.next_record_number,
            self.last_term,
            self.last_chain,
            max(self.settings.segment_bytes, SEGMENT_HEADER_BYTES + size),
        )
        segment = Segment(self.directory / "journal", header)
        if self._segments[-1].offsets:
            self._segments.append(segment)
            self._bases.append(header.base_index)
            self._record_bases.append(header.base_record)
        else:
            self._segments[-1] = segment
        return segment

    def _cut_job(self) -> TruncateJob:
        """Return the job that clears what recovery could not judge, so that it is written anew."""
        tail, segment = self.recovered_tail, self._segments[-1]
        place, claim = (tail.start, tail.end), (self.unknown_term, self.unknown_through)
        job = TruncateJob(self.last_index, self.last_chain, segment, *place, [], claim)
        job.keep_in = self.directory / "lost+found"
        self._cut_pending = False
        return job

    def _forget_after(self, index: int) -> None:
        self.memory.forget_after(index, self.last_index)
        self._located = None
        self._void_repair(0, index)
        self._damage = {key: it for key, it in self._damage.items() if key <= index}
        self._terms.cut_after(index)
        self._files.close_after(index)
        self.last_index = index
        self.unknown_through = 0
        self._cut_pending = False

    def _forget_read(self, index: int) -> None:
        self.memory.forget_read(index)
        if self._located is not None and self._located.index == index:
            self._located = None

    def _segment_of(self, index: int) -> Segment:
        if not self._bases[0] <= index <= self.last_index:
            raise self._not_found(index)
        return self._segments[bisect_right(self._bases, index) - 1]

    def _place(self, index: int) -> tuple[Segment, int, int]:
        segment = self._segment_of(index)
        start, size = segment.place(index)
        return segment, start, size

    def _not_found(self, index: int) -> RecordNotFoundError:
        return RecordNotFoundError(
            f"entry {index:,} is not in the log, which holds {self._bases[0]:,}"
            f" to {self.last_index:,}"
        )

    def _load(self, index: int) -> Entry:
        segment, start, size = self._place(index)
        known = self._damage.get(index)
        if known is not None:
            raise known.error()
        raw = self._read(segment, index, start, size)
        try:
            entry = parse_entry(raw)
        except CorruptEntryError as error:
            raise self._found_damage(segment, start, index, error.reason).error() from None
        if entry.index != index:
            raise self._found_damage(segment, start, index, "another entry stands here").error()
        self.memory.keep_read(entry)
        return entry

    def standing_at(self, index: int, before: Entry | None = None) -> Entry | None:
        """
        Return the sound entry that stands where this damaged one begins, behind a copy `before` it.

        None if none does. The chain of the one before tells whether it is the entry that was lost.
        """
        segment, start, size = self._place(index if before is None else before.index)
        used = 0 if before is None else len(before.raw)
        try:
            file = self._files.get(segment)
            length = entry_bytes(parse_header(file.read(HEADER_BYTES, start + used)).body_length)
            entry = parse_entry(file.read(min(max(size - used, 0), length), start + used))
        except (OSError, CorruptEntryError):
            return None
        return entry if entry.index == index else None

    def _header_at(self, index: int) -> HeaderFields:
        entry = self.memory.find(index)
        if entry is not None:
            return parse_header(entry.raw)
        segment, start, _ = self._place(index)
        header = self._read(segment, index, start, HEADER_BYTES)
        try:
            fields = parse_header(header)
        except CorruptEntryError as error:
            raise self._found_damage(segment, start, index, error.reason).error() from None
        if fields.entry_index != index:
            raise self._found_damage(segment, start, index, "another entry stands here").error()
        return fields

    def _read(self, segment: Segment, index: int, start: int, size: int) -> bytes:
        try:
            return self._files.get(segment).read(size, start)
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
        self._damage.setdefault(index, damage)
        logger.error("damage found: %s", damage)
        self.on_damage(index)
        return damage

    def _check_repair(self, entry: Entry, segment: Segment, start: int, size: int) -> None:
        index = entry.index
        following, known = self._damage.get(index + 1), self._damage.get(index)
        is_missing = known is not None and known.reason in {MISSING, MISSING_FILE}
        is_open_ended = is_missing or (following is not None and index < segment.last_index)
        fits = len(entry.raw) <= size if is_open_ended else len(entry.raw) == size
        try:
            before = self.previous(index)[1]
            is_lost = index > 1 and before == FIRST_CHAIN  # as `previous` says
            is_continuing = is_lost or verify_chain(entry, before)
        except CorruptEntryError:
            is_continuing = True  # the one before is damaged too
        if index < self.last_index and following is None:
            is_continuing = is_continuing and verify_chain(self.entry(index + 1), entry.chain)
        if not (fits and is_continuing):
            raise StoreError(
                f"the copy of entry {index:,} offered for {segment.path.name} byte {start:,}"
                f" is not the entry that was here"
            )

    def _void_repair(self, first_index: int, last_index: int) -> None:
        """Give up a repair under way of an entry that does not stay."""
        job = self._repair
        if job is not None and not first_index <= job.entry.index <= last_index:
            job.is_void = True
