"""
The growing end of a log: what was staged, what of it is stored, and what is being cut.

Nothing is read or written here: whatever changes on disk goes to the writer as a job.

Invariants:
    Indexes and record numbers have no gaps: entry i+1 begins with the record after entry i's last.
    stored_index <= last_index; everything through stored_index is durable.
    Entries after stored_index are in memory.

Owned by the loop thread, except `durable_index` and `durable_chain`, which the writer sets.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from holdfast.errors import RecordNotFoundError
from holdfast.journal.damage import DamageList
from holdfast.journal.entry import Entry, HeaderFields
from holdfast.journal.entry_memory import EntryMemory
from holdfast.journal.filling import Target
from holdfast.journal.found_log import LogScan, TailState
from holdfast.journal.jobs import AppendJob, Claim, Cut, Piece, TruncateJob
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, Segment, SegmentHeader
from holdfast.journal.segment_table import SegmentTable
from holdfast.journal.settings import JournalSettings
from holdfast.journal.terms import TermTable


class LogTail:
    """
    Where one log ends, and its segments.

    `last_index`, `last_term`, `last_chain`, `next_record_number` and `last_timestamp` speak of the
    end of the log with everything staged.
    """

    __slots__ = (
        "_cut_pending",
        "_damage",
        "_directory",
        "_missing_index",
        "_settings",
        "durable_chain",
        "durable_index",
        "last_chain",
        "last_index",
        "last_term",
        "last_timestamp",
        "memory",
        "next_record_number",
        "recovered",
        "segments",
        "terms",
        "truncations",
        "unknown_term",
        "unknown_through",
    )

    def __init__(
        self, directory: Path, settings: JournalSettings, scan: LogScan, damage: DamageList
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._damage = damage
        first = self._first_segment(1, 0, scan.last_chain, 1)
        self.segments = SegmentTable(scan.segments or [first])
        self.terms = TermTable(scan.term_starts, scan.term_values)
        self.memory = EntryMemory(settings, scan.last_index + 1)
        self.last_index = scan.last_index
        self.last_term = scan.last_term
        self.last_chain = scan.last_chain
        self.next_record_number = scan.next_record
        self.last_timestamp = scan.last_timestamp
        self.durable_index = scan.last_index
        self.durable_chain = scan.last_chain
        """The chain value of that entry; the writer's, like the index."""
        self.recovered = scan.tail
        """What recovery found behind the last good entry."""
        self.unknown_through = scan.tail.through if scan.tail.state == "unknown" else 0
        """The highest index this node may have stored and cannot show; 0 if there is none."""
        self.unknown_term = scan.tail.term
        """No entry that was lost here before had a higher term; 0 if no ballot tells."""
        self._missing_index = scan.last_index + 1
        """Damage at this index, behind the end of the log, is not repaired but staged again."""
        self._cut_pending = self.unknown_through > 0
        self.truncations: deque[Cut] = deque()
        """What is being cut, in order; what is done may still stand at its beginning."""

    @property
    def stored_index(self) -> int:
        """Everything through here is durable, truncations under way taken into account."""
        truncations = self.truncations
        if truncations:
            while truncations and truncations[0].is_done:
                truncations.popleft()
            limits = [job.kept_index for job in truncations]
            return min([self.durable_index, *limits])
        return self.durable_index

    @property
    def state(self) -> TailState:
        """How the end of the log was found; "unknown" only until it is resolved."""
        if self.unknown_through:
            return "unknown"
        state = self.recovered.state
        return "clean" if state == "unknown" else state

    def term_at(self, index: int) -> int:
        """Return an entry's term, or that before the first; the least it can be where lost."""
        first = self.segments.first_index
        if index == first - 1:
            return self.segments.first.header.previous_term
        if not first <= index <= self.last_index:
            raise self._not_found(index)
        return self.terms.at(index, self.segments.first.header.previous_term)

    def segment_of(self, index: int) -> Segment:
        """
        Return the segment of an entry.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        if not self.segments.first_index <= index <= self.last_index:
            raise self._not_found(index)
        return self.segments.find(index)

    def place(self, index: int) -> tuple[Segment, int, int]:
        """
        Return segment, first byte and size of an entry.

        Raises:
            RecordNotFoundError: The log does not hold this index.
        """
        segment = self.segment_of(index)
        start, size = segment.place(index)
        return segment, start, size

    def file_names(self) -> tuple[str, ...]:
        """Return the names of the segments of which anything may stand on disk, oldest first."""
        return tuple(it.path.name for it in self.segments if it.offsets or self._cut_pending)

    def stage(self, entries: list[Entry]) -> AppendJob:
        """Put entries behind the last one; the job makes them durable."""
        pieces: list[Piece] = []
        piece: Piece | None = None
        memory = self.memory
        segment = self.segments.last
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
            if entry.term != self.last_term or not self.terms:
                assert entry.term >= self.last_term
                self.terms.begin(entry.index, entry.term)
                self.last_term = entry.term
            self.last_index = entry.index
            self.last_chain = entry.chain
            self.next_record_number += entry.record_count
            memory.add(entry)
        if entries:
            self.last_timestamp = entries[-1].timestamp
        if memory.bytes > self._settings.tail_cache_bytes:
            memory.shrink(self.stored_index)
        if self.unknown_through and self.last_index >= self.unknown_through:
            self.unknown_through = 0
            self._damage.forget(self._missing_index)
        return AppendJob(pieces, self.last_index, cut)

    def need_from(self, index: int) -> None:
        """Keep entries from here on in memory, within limits: somebody is about to ask for them."""
        memory = self.memory
        memory.needed_from = index
        if memory.bytes > self._settings.tail_cache_bytes:
            memory.shrink(self.stored_index)

    def cut_after(self, last: HeaderFields, claim: Claim | None) -> TruncateJob:
        """End the log with the entry of this header. For `claim` see `jobs`."""
        index = last.entry_index
        newest = self.segments.last
        removed = self.segments.cut_after(index)
        segment = self.segments.last
        end = segment.end
        if segment is newest and self._cut_pending:
            end = max(end, self.recovered.end)
        segment.cut_after(index)
        job = TruncateJob(index, last.chain, segment, segment.end, end, removed, claim)
        if self._cut_pending:
            job.keep_in = self._directory / "lost+found"
        self._forget_after(index)
        self.last_term = last.term
        self.last_timestamp = last.timestamp
        self.next_record_number = last.first_record + last.record_count
        self.last_chain = last.chain
        self.truncations.append(job)
        return job

    def begin_anew(self, base: int, term: int, chain: bytes, record: int) -> list[Segment]:
        """Begin with entry `base` and what was before it; return the segments that were here."""
        removed = self.segments.begin_anew(self._first_segment(base, term, chain, record))
        self._forget_after(0)
        self.terms.clear()
        self.memory.first = base
        self.last_index = base - 1
        self.last_term = term
        self.last_chain = chain
        self.next_record_number = record
        self.last_timestamp = 0
        return removed

    def drop_before(self, index: int) -> list[Segment]:
        """Give up the segments that hold only entries before `index`; return them."""
        dropped = self.segments.drop_before(index, self.stored_index)
        if dropped:
            self.memory.forget_before(self.segments.first_index)
        return dropped

    def mend(self, entry: Entry, segment: Segment, start: int) -> None:
        """Take up what the good copy of a damaged entry says, now that it stands there."""
        index, size = entry.index, segment.place(entry.index)[1]
        position = index - segment.base_index
        segment.first_records[position] = entry.first_record
        if index == segment.last_index:
            self.segments.end_at(segment, start + len(entry.raw))
        elif len(entry.raw) < size:
            segment.offsets[position + 1] = start + len(entry.raw)
        is_last = index == self.last_index
        known = self.term_at(index)
        if known != entry.term:
            self.last_term = self.terms.set(index, entry.term, known, is_last=is_last)
        if is_last:
            self.last_chain = entry.chain
            self.last_timestamp = entry.timestamp
            self.next_record_number = entry.next_record

    def end_for_sure(self, *, is_out_of_room: bool) -> Target:
        """Where the log ends, without what waits for room: that is left out if it is begun anew."""
        stored = self.stored_index
        following = self.memory.find(stored + 1) if is_out_of_room else None
        if following is None:
            return Target(
                index=self.last_index, record=self.next_record_number, timestamp=self.last_timestamp
            )
        return Target(
            index=stored, record=following.first_record, timestamp=following.timestamp - 1
        )

    def _first_segment(self, index: int, term: int, chain: bytes, record: int) -> Segment:
        header = SegmentHeader(index, record, term, chain, self._settings.segment_bytes)
        return Segment(self._directory / "journal", header)

    def _begin_segment(self, size: int) -> Segment:
        """Start a segment at the next index; its file is made by the job that is being staged."""
        header = SegmentHeader(
            self.last_index + 1,
            self.next_record_number,
            self.last_term,
            self.last_chain,
            max(self._settings.segment_bytes, SEGMENT_HEADER_BYTES + size),
        )
        segment = Segment(self._directory / "journal", header)
        self.segments.begin(segment)
        return segment

    def _cut_job(self) -> TruncateJob:
        """Return the job that clears what recovery could not judge, so that it is written anew."""
        tail, segment = self.recovered, self.segments.last
        place, claim = (tail.start, tail.end), (self.unknown_term, self.unknown_through)
        job = TruncateJob(self.last_index, self.last_chain, segment, *place, [], claim)
        job.keep_in = self._directory / "lost+found"
        self._cut_pending = False
        return job

    def _forget_after(self, index: int) -> None:
        self.memory.forget_after(index, self.last_index)
        self._damage.forget_after(index)
        self.terms.cut_after(index)
        self.last_index = index
        self.unknown_through = 0
        self._cut_pending = False

    def _not_found(self, index: int) -> RecordNotFoundError:
        return RecordNotFoundError(
            f"entry {index:,} is not in the log, which holds {self.segments.first_index:,}"
            f" to {self.last_index:,}"
        )
