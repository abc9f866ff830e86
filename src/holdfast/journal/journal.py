"""
The log as the rest of the program sees it: stage entries, read them, drop old ones.

Staging gives an entry its place and makes it readable at once; the writer thread makes it
durable. So reads never wait for a write: what is not durable yet is always in memory.

The one face of its parts: `tail` (what is staged and stored), reading, damage and its repair. What
concerns more than one of them, and the files that are kept of an earlier log, is done here.

Invariants:
    Those of the parts: no gaps, and whatever is not stored is in memory (tail.py).
    A damaged entry keeps its index and place; reading it raises, repairing it mends it.

Owned by the loop thread, except `is_out_of_room` and `failure`, and how far the log is durable,
which the writer sets.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.environment.disk import Disk, DiskLock
from holdfast.errors import BallotLostError, JournalFailedError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.damage import Damage, DamageList
from holdfast.journal.entry import Entry
from holdfast.journal.entry_memory import EntryMemory
from holdfast.journal.filling import Filling, Target, begin_filling
from holdfast.journal.found_log import LogScan, Progress, Tail, TailState
from holdfast.journal.housekeeper import Housekeeper
from holdfast.journal.jobs import AppendJob, Claim, Cut, RepairJob, ResetJob, TruncateJob
from holdfast.journal.kept_log import kept_paths
from holdfast.journal.opening import open_directory
from holdfast.journal.reading import LogReader
from holdfast.journal.repair import LogRepair
from holdfast.journal.segment import EntryPlace, SegmentStatistics
from holdfast.journal.segment_table import SegmentTable
from holdfast.journal.settings import JournalSettings
from holdfast.journal.space import SpaceState, SpaceWatch
from holdfast.journal.tail import LogTail


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
        self.was_empty = not scan.segments
        """No file of the log was there at the start."""
        self.on_damage: Callable[[int], None] = lambda _index: None
        """Told at once of every entry found damaged, whoever looked at it and why."""
        self.filling: Filling | None = None
        """Set while this log was begun anew and does not yet have what the one before had."""
        self._last_origin = 0
        self._lock = lock
        self._damage = DamageList(scan.damage, self._tell_damage)
        self.tail = LogTail(directory, settings, scan, self._damage)
        """Where the log ends; the writer says here how far it is durable."""
        self._reader = LogReader(self.tail, self._damage, disk, settings)
        self._repair = LogRepair(self.tail, self._reader, self._damage)
        self.space_watch = SpaceWatch(
            settings, lambda: disk.free_bytes(directory), lambda: self.table.content_bytes
        )

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
        self._reader.files.close_after(-1)
        self.housekeeper.close()
        self.ballot_file.close()
        self._lock.release()

    # What is in the log.

    @property
    def first_index(self) -> int:
        """The oldest index kept; one above `last_index` if the log is empty."""
        return self.tail.segments.first_index

    @property
    def last_index(self) -> int:
        """The index of the newest entry."""
        return self.tail.last_index

    @property
    def last_term(self) -> int:
        """Its term."""
        return self.tail.last_term

    @property
    def last_chain(self) -> bytes:
        """Its chain value."""
        return self.tail.last_chain

    @property
    def last_timestamp(self) -> int:
        """Its timestamp; 0 if this is not known."""
        return self.tail.last_timestamp

    @property
    def next_record_number(self) -> int:
        """The number of the record that comes next."""
        return self.tail.next_record_number

    @property
    def last_base(self) -> int:
        """The first index of the newest segment."""
        return self.tail.segments.last.base_index

    @property
    def durable_index(self) -> int:
        """How far the log is durable, as the writer says."""
        return self.tail.durable_index

    @property
    def durable_chain(self) -> bytes:
        """The chain value of that entry."""
        return self.tail.durable_chain

    @property
    def stored_index(self) -> int:
        """Everything through here is durable, truncations under way taken into account."""
        tail = self.tail  # Asked in every turn; mostly nothing is being cut.
        return tail.stored_index if tail.truncations else tail.durable_index

    @property
    def memory(self) -> EntryMemory:
        """The entries that are in memory."""
        return self.tail.memory

    @property
    def recovered_tail(self) -> Tail:
        """What recovery found behind the last good entry."""
        return self.tail.recovered

    @property
    def unknown_through(self) -> int:
        """The highest index this node may have stored and cannot show; 0 if there is none."""
        return self.tail.unknown_through

    @property
    def unknown_term(self) -> int:
        """No entry that was lost here before had a higher term; 0 if no ballot tells."""
        return self.tail.unknown_term

    @property
    def tail_state(self) -> TailState:
        """How the end of the log was found; "unknown" only until it is resolved."""
        return self.tail.state

    @property
    def damage(self) -> list[Damage]:
        """Everything known to be damaged, oldest first. `index` 0 is a segment's header."""
        return self._damage.sorted()

    def term_at(self, index: int) -> int:
        """Return an entry's term, or that before `first_index`; the least it can be where lost."""
        return self.tail.term_at(index)

    def chain_at(self, index: int) -> bytes:
        """
        Return the chain value of an entry, or of the one just before `first_index`.

        Raises:
            CorruptEntryError: It stands in a header that is damaged.
        """
        return self._reader.chain_at(index)

    def kind_at(self, index: int) -> int:
        """
        Return the kind of an entry; its header tells, also where its body is damaged.

        Raises:
            CorruptEntryError: The header is damaged.
        """
        return self._reader.kind_at(index)

    def previous(self, first_index: int) -> tuple[int, bytes, int]:
        """
        Return (term, chain) of the entry before `first_index` and its first record number.
        Nobody knows them where the first segment's header is lost: the chain is `FIRST_CHAIN`.
        """
        return self._reader.previous(first_index)

    def entry(self, index: int) -> Entry:
        """
        Return an entry, from memory or verified from disk.

        Raises:
            CorruptEntryError: It is damaged; the error names the place.
            RecordNotFoundError: The log does not hold this index.
        """
        return self._reader.entry(index)

    def entries(self, from_index: int, bytes_max: int, overhead_bytes: int = 0) -> list[Entry]:
        """
        Return entries from `from_index` on, up to `bytes_max` together; at least one if any.

        Each counts `overhead_bytes` more than it has.
        """
        return self._reader.entries(from_index, bytes_max, overhead_bytes)

    def locate_record(self, number: int) -> tuple[Entry, int]:
        """
        Return the entry that holds a record, and which of its records it is, from 0.

        Raises:
            CorruptEntryError: The entry is damaged.
            RecordNotFoundError: The log does not hold this record.
        """
        return self._reader.locate_record(number)

    def standing_at(self, index: int, before: Entry | None = None) -> Entry | None:
        """
        Return the sound entry that stands where this damaged one begins, behind a copy `before` it.

        None if none does. The chain of the one before tells whether it is the entry that was lost.
        """
        return self._reader.standing_at(index, before)

    def place_of(self, index: int) -> EntryPlace:
        """
        Return where an entry is on disk.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        segment, start, size = self.tail.place(index)
        return EntryPlace(segment.path, start, size)

    def span(self, index: int, bytes_max: int, through: int) -> tuple[EntryPlace, int]:
        """
        Return where entries from `index` on are, in one file, and the last of them.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        segment = self.tail.segment_of(index)
        start, size, last = segment.span(index, bytes_max, through)
        return EntryPlace(segment.path, start, size), last

    @property
    def sealed_through(self) -> int:
        """
        The last index of the newest sealed segment; one below `first_index` if none is.

        A segment is sealed once all of it is durable: one that is only staged is still written.
        """
        return self.tail.segments.sealed_through(self.tail.stored_index)

    @property
    def sealed_count(self) -> int:
        """How many segments are sealed."""
        return self.tail.segments.sealed_count(self.tail.stored_index)

    @property
    def table(self) -> SegmentTable:
        """The segments, to be asked how many they are and what they take together."""
        return self.tail.segments

    def oldest_segment(self) -> SegmentStatistics:
        """Return the first of `segments`."""
        segments = self.tail.segments
        first = segments.first
        return first.statistics(self.sealed_through, is_last=first is segments.last)

    def segments(self) -> list[SegmentStatistics]:
        """Return what is kept, oldest first: 30 ms for 160,000 of them."""
        segments = self.tail.segments
        sealed_through = self.sealed_through
        return [it.statistics(sealed_through, is_last=it is segments.last) for it in segments]

    @property
    def bytes_on_disk(self) -> int:
        """The bytes of all segment files, the spare ones too."""
        spare = self.housekeeper.spare_count * self.settings.segment_bytes
        return spare + self.tail.segments.file_bytes

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
        return self.tail.stage(entries)

    def need_from(self, index: int) -> None:
        """Keep entries from here on in memory, within limits: somebody is about to ask for them."""
        self.tail.need_from(index)

    def stage_truncate(self, after_index: int, claim: Claim | None = None) -> Cut:
        """
        Cut everything after `after_index` off, at once for readers; the job makes it so on disk.

        What is cut is zero on disk before anything is written there again. For `claim` see `jobs`.
        """
        if self.failure is not None:
            raise self.failure
        first = self.tail.segments.first
        assert first.base_index - 1 <= after_index <= self.tail.last_index
        if after_index < first.base_index:
            header = first.header
            reset = self.stage_reset(
                header.base_index, header.previous_term, header.previous_chain, header.base_record
            )
            reset.claim = claim
            return reset
        job = self.tail.cut_after(self._reader.header_at(after_index), claim)
        self._forget_after(after_index)
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
        tail = self.tail
        stored = tail.stored_index
        end = tail.end_for_sure(is_out_of_room=self.is_out_of_room)
        names = tail.file_names()
        removed = tail.begin_anew(base_index, previous_term, previous_chain, base_record_number)
        self._forget_after(0)
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
        tail.truncations.append(job)
        return job

    def forget_filling(self, *, is_full: bool = True) -> None:
        """Give up what is kept of the log before this one, once this is begun; its note if full."""
        is_begun = all(isinstance(job, TruncateJob) or job.is_done for job in self.tail.truncations)
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
        tail = self.tail
        dropped = tail.drop_before(index)
        if dropped:
            first = tail.segments.first_index
            self._damage.forget_before(first)
            self._reader.forget_located()
            for segment in dropped:
                self._reader.files.close(segment.base_index)
            self._repair.void_outside(first, tail.last_index)
            self.housekeeper.drop([segment.path for segment in dropped], first)
        return len(dropped)

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
        return self._repair.stage(entry)

    def finish_repair(self, job: RepairJob) -> bool:
        """Take up what a repair that is done has mended; False if the entry is gone meanwhile."""
        return self._repair.finish(job)

    def report_damage(self, damage: Damage) -> None:
        """Note damage that was found elsewhere (scrubbing); ignored if the entry is gone."""
        if self.tail.segments.first_index <= damage.index <= self.tail.last_index:
            self._reader.forget_read(damage.index)
            self._damage.report(damage)

    def is_damaged(self, index: int) -> bool:
        """Return whether an entry has damage that is known and not repaired."""
        return index in self._damage

    def has_damage(self, first_index: int, last_index: int) -> bool:
        """Tell whether any entry from the one to the other is known to be damaged."""
        return self._damage.has_any(first_index, last_index)

    def damaged_run(self, index: int) -> tuple[int, int, int] | None:
        """
        Return what is lost with a damaged entry; None if it is not known to be damaged.

        Neighbours whose bounds are lost cannot be told apart: the last of the damaged entries from
        this one on, the first record that they, or those damaged right before them, may have held,
        and the first behind them.
        """
        return self._repair.damaged_run(index)

    def space_state(self, now: float) -> SpaceState:
        """Tell whether there is room to publish; `now` in seconds of the monotonic clock."""
        is_out = self.is_out_of_room or self.housekeeper.is_out_of_space
        return self.space_watch.state(now, is_out_of_space=is_out)

    def _tell_damage(self, index: int) -> None:
        self.on_damage(index)  # whoever is to be told by now

    def _forget_after(self, index: int) -> None:
        self._reader.forget_located()
        self._repair.void_outside(0, index)
        self._reader.files.close_after(index)
