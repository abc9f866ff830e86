"""
Go through the segments of a log in order, and say of every byte what it is.

A bad place is damage, a write that was torn, or an end of which nobody here can tell: see `scan`
for the rules, and for why they hold.

Invariants:
    What was durable is never taken for an end: it is damaged, and keeps its index and place.
    An entry counts only where it continues the log, or is proven (see `continuation`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.continuation import Continuation, Found
from holdfast.journal.damage import MISSING, MISSING_FILE, Damage
from holdfast.journal.entry import (
    FIRST_CHAIN,
    HEADER_BYTES,
    HeaderFields,
    chain_after,
    entry_bytes,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.found_log import LogScan
from holdfast.journal.jobs import RUN_BYTES_MAX
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, Segment, SegmentHeader, segment_name
from holdfast.journal.traces import (
    decode_segment_block,
    find_header,
    first_header,
    headers_possible,
    shows_torn,
    used_end,
)

_TERM_MAX: Final = (1 << 64) - 1


class _BadFrame(NamedTuple):
    """What can be said about a place where no good entry stands."""

    reason: str
    header: HeaderFields | None
    later: Found | None


class Following(NamedTuple):
    """What the next segment says of the end of this one; an empty chain if that is lost."""

    base: int
    chain: bytes
    is_scanned: bool


class LogScanner:
    """Goes through the segments in order and keeps what the next entry must look like."""

    __slots__ = (
        "_chain",
        "_claim",
        "_continuation",
        "_directory",
        "_floor",
        "_record",
        "_scan",
        "_stop_reason",
    )

    def __init__(self, scan: LogScan, directory: Path, claim: LogClaim) -> None:
        self._scan = scan
        self._directory = directory
        self._claim = claim
        self._floor = claim.floor
        self._continuation: Continuation | None = None
        self._chain: bytes | None = None
        self._record: int | None = None
        self._stop_reason = ""

    def claim_through(self, index: int) -> None:
        """Look no further than this index, which was durable."""
        self._claim = self._claim._replace(floor=index, floor_chain=b"")
        self._floor = index

    def add_segment(self, base: int, data: bytes, following: Following | None) -> None:
        """Scan one segment; `following` is None for the last."""
        scan = self._scan
        self._continuation = None
        header = decode_segment_block(self._directory / segment_name(base), data)
        if header is None:
            segment = self._without_header(base, data, following)
        else:
            segment = Segment(self._directory, header)
            self._take_header(segment)
            data = data.ljust(header.capacity, b"\0")  # what was cut off reads as zeros
        scan.segments.append(segment)
        scan.last_index = base - 1
        offset = SEGMENT_HEADER_BYTES
        end = used_end(data)
        while True:
            offset = self._good_entries(segment, data, offset)
            if offset >= end:
                break
            if following is not None and following.base == scan.last_index + 1:
                self._stray_bytes(segment, end)
                break
            bad = self._examine(data, offset, following)
            if following is None and self._is_tail(bad, data, offset, end):
                return
            past = self._damaged_entries(segment, bad, offset, end, following)
            if past is None:
                break
            offset = past
        if following is None or not following.is_scanned:
            return  # what is missing at its end, `finish` tells
        if scan.last_index + 1 < following.base:
            self._missing_end(segment, data, following.base)

    def finish(self) -> None:
        """Work out the end of the log once every segment is read."""
        scan = self._scan
        if self._chain is not None:
            scan.last_chain = self._chain
        if self._record is not None:
            scan.next_record = self._record
        tail = scan.tail
        if self._floor > max(scan.last_index, tail.through):
            if not scan.segments:
                if self._floor < self._claim.first_index:
                    return  # begun anew, and nothing of it was stored yet
                if not self._claim.floor_chain:
                    # The same, of a log whose end was lost before: it still answers for that.
                    tail.state, tail.through = "unknown", self._floor
                    tail.reason = f"entries up to {self._floor:,} were stored once and are gone"
                    return
                raise StoreError(
                    f"{self._directory} holds no log, but this node had stored"
                    f" {self._floor:,} entries: restore the files, or empty the whole data"
                    f" directory so that the node rejoins as a new one"
                )
            segment = scan.segments[-1]
            missing = scan.last_index + 1
            reason = f"entries {missing:,} to {self._floor:,} were stored once and are missing"
            scan.damage.append(Damage(segment.path.name, segment.end, missing, reason))
            tail.state, tail.through, tail.reason = "unknown", self._floor, reason
            tail.start, tail.end = segment.end, max(segment.end, tail.end)

    def _take_header(self, segment: Segment) -> None:
        """Compare a good header with the log so far."""
        header = segment.header
        scan = self._scan
        if not scan.segments:
            scan.last_term = header.previous_term
        elif self._chain is None and header.previous_term > scan.last_term:
            # Of the entries before whose headers are lost, only the last one's term is known.
            scan.note_term(scan.last_index, header.previous_term)
        if self._chain is None:
            self._chain = header.previous_chain
        elif self._chain != header.previous_chain:
            raise StoreError(
                f"{segment.path} does not continue the log before it: it belongs to another log"
            )
        if self._record is None:
            self._record = header.base_record

    def _without_header(self, base: int, data: bytes, following: Following | None) -> Segment:
        """Work out a damaged header from what is before it and in it."""
        scan = self._scan
        path = self._directory / segment_name(base)
        found = first_header(data, base)
        if found is None:
            scan.last_index, known = base - 1, scan.last_index
            later = self._find_later(data, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES, following)
            found = later[1] if later is not None else None
            scan.last_index = known
        if found is None and (self._chain is None or base != scan.last_index + 1):
            raise StoreError(f"{path} is not a segment of a journal: no header and no entries")
        if base == 1:
            self._chain, self._record = FIRST_CHAIN, 1
        elif self._record is None and found is not None:
            self._record = found.first_record
        chain = self._chain or FIRST_CHAIN
        header = SegmentHeader(base, self._record or 1, scan.last_term, chain, len(data))
        segment = Segment(self._directory, header)
        if self._chain is not None:
            scan.headers_worked_out.append(segment)
        scan.damage.append(Damage(path.name, 0, 0, "the segment's header block is damaged"))
        return segment

    def _good_entries(self, segment: Segment, data: bytes, offset: int) -> int:
        """Take entries while they are good and in order; return where that ended."""
        scan = self._scan
        index = scan.last_index
        chain, record = self._chain, self._record
        while True:
            try:
                entry = parse_entry(data, offset)
            except CorruptEntryError as error:
                self._stop_reason = error.reason
                break
            if entry.index != index + 1:
                self._stop_reason = f"entry {entry.index:,} stands where {index + 1:,} belongs"
                break
            if chain is not None:
                end = offset + HEADER_BYTES + entry.body_length
                body = data[offset + HEADER_BYTES : end]
                if chain_after(chain, entry.index, entry.term, body) != entry.chain:
                    self._stop_reason = "the chain hash does not continue the log"
                    break
            if (record is not None and entry.first_record != record) or entry.term < scan.last_term:
                self._stop_reason = "term or record number do not continue the log"
                break
            index += 1
            segment.add(entry.first_record, len(entry.raw))
            if entry.term != scan.last_term or not scan.term_starts:
                scan.note_term(index, entry.term)
            chain = entry.chain
            record = entry.first_record + entry.record_count
            scan.last_timestamp = entry.timestamp
            offset += len(entry.raw)
        scan.last_index = index
        self._chain, self._record = chain, record
        return offset

    def _examine(self, data: bytes, offset: int, following: Following | None) -> _BadFrame:
        """Find out what is known about the bad entry at `offset` and what comes after it."""
        expected = self._scan.last_index + 1
        try:
            header = parse_header(data, offset)
        except CorruptEntryError:
            header = None
        if header is None or header.entry_index != expected:
            later = self._find_later(data, offset + 8, offset, following)
            return _BadFrame(self._stop_reason, None, later)
        if following is not None:
            return _BadFrame(self._stop_reason, header, None)  # where the next begins is known
        after = offset + entry_bytes(header.body_length)
        try:
            entry = parse_entry(data, after)
        except CorruptEntryError:
            pass
        else:
            if entry.index == expected + 1 and verify_chain(entry, header.chain):
                return _BadFrame(self._stop_reason, header, (after, parse_header(data, after)))
        later = self._find_later(data, after, offset, following)
        return _BadFrame(self._stop_reason, header, later)

    def _find_later(
        self, data: bytes, start: int, origin: int, following: Following | None
    ) -> Found | None:
        """Return the first entry from `start` on that is proven, later than the one expected."""
        scan, claim = self._scan, self._claim
        expected = scan.last_index + 1
        continuation = self._continuation
        if continuation is None:
            continuation = Continuation(data, start, used_end(data))
            self._continuation = continuation
        # As many entries as fit in; those at the end say for themselves how many there were.
        possible = expected + (len(data) - origin) // HEADER_BYTES
        least, most = scan.last_term, max(claim.term_max, scan.last_term)

        def is_possible(fields: HeaderFields) -> bool:
            is_term_possible = least <= fields.term and (not claim.term_max or fields.term <= most)
            return expected < fields.entry_index <= possible and is_term_possible

        if following is not None and following.chain:
            last = following.base - 1
            return continuation.proven(
                start,
                is_possible,
                lambda it: it.entry_index == last and it.chain == following.chain,
            )
        if following is None and claim.floor_chain and expected <= claim.floor:
            known = claim.floor, claim.floor_chain
            return continuation.proven(
                start, is_possible, lambda it: (it.entry_index, it.chain) == known
            ) or continuation.after(start, *known)
        last = 0 if following is None else following.base - 1
        return continuation.ending(start, is_possible, last)

    def _is_tail(self, bad: _BadFrame, data: bytes, offset: int, end: int) -> bool:
        """Decide whether the bad bytes are the end of the log; if so describe it."""
        expected = self._scan.last_index + 1
        if expected <= self._floor or self._is_whole(bad, data, offset):
            return False
        # A large entry was announced: it was the last one, and all that follows is its body.
        is_last = expected == self._claim.large_index
        # What was written between two syncs: of nothing larger a part alone can be missing.
        is_one_run = is_last or end - offset <= RUN_BYTES_MAX
        is_torn = is_one_run and shows_torn(data, offset, bad.header)
        if bad.later is not None and not (is_torn or is_last):
            return False
        tail = self._scan.tail
        tail.state = "torn" if is_torn else "unknown"
        tail.start, tail.end, tail.reason = offset, end, bad.reason
        if not is_torn and is_last:
            tail.through = expected
        elif not is_torn:
            tail.through, tail.term = self._unknown_entries(data, offset, end)
        return True

    def _unknown_entries(self, data: bytes, offset: int, end: int) -> tuple[int, int]:
        """
        Return the highest index that the bad bytes may have held, and its term (0: not known).

        Too low a guess would let this node help a candidate that lacks what it stored. So entries
        whose headers are good count by their index; of what no header explains, every byte that
        the disk cannot read may belong to the smallest of entries.
        """
        through, term = self._scan.last_index, 0
        while offset < end:
            least = max(term, self._scan.last_term)
            most = max(self._claim.term_max, least) if self._claim.term_max else _TERM_MAX
            found = find_header(data, offset, end, through, (least, most))
            if found is None:
                return through + headers_possible(data, offset, end), 0
            place, fields = found
            through, term = fields.entry_index, fields.term
            offset = place + entry_bytes(fields.body_length)
        return through, term

    @staticmethod
    def _is_whole(bad: _BadFrame, data: bytes, offset: int) -> bool:
        """Tell whether both checksums are good, so that this was written to the end."""
        if bad.header is None:
            return False
        try:
            parse_entry(data, offset)
        except CorruptEntryError:
            return False
        return True

    def _damaged_entries(
        self,
        segment: Segment,
        bad: _BadFrame,
        offset: int,
        end: int,
        following: Following | None,
    ) -> int | None:
        """Give the damaged entries at `offset` their places; return where to go on, if known."""
        scan = self._scan
        first = scan.last_index + 1
        if bad.header is not None:
            fields = bad.header
            size = entry_bytes(fields.body_length)
            self._damaged(segment, first, offset, bad.reason)
            segment.add(fields.first_record, size)
            scan.last_index = first
            scan.note_term(first, fields.term)
            scan.last_timestamp = fields.timestamp
            self._chain, self._record = fields.chain, fields.first_record + fields.record_count
            return offset + size
        if bad.later is None and following is None:
            # At or below the floor, and nothing good behind it: `finish` tells how much is gone.
            scan.tail.end = end
            return None
        if bad.later is not None:
            past, header = bad.later
            stop, record = header.entry_index, header.first_record
        else:
            assert following is not None
            past, stop, record = end, following.base, self._record or 0
        if stop - first > (past - offset) // HEADER_BYTES:
            # More are gone than could stand here: the caller names the missing file.
            return None
        # Their bounds are unknown: the first gets all the bytes until repairs tell the sizes.
        for index in range(first, stop):
            self._damaged(segment, index, offset, bad.reason)
            number = self._record if index == first and self._record is not None else record
            segment.add(number, past - offset if index == first else 0)
            scan.last_index = index
        self._chain = None
        self._record = None
        return past

    def _missing_end(self, segment: Segment, data: bytes, following: int) -> None:
        """Entries are missing at the end of a sealed segment: damage, or a file that is gone."""
        first = self._scan.last_index + 1
        room = max(segment.header.capacity, len(data)) - segment.end
        known = len(segment.offsets)
        average = (segment.end - SEGMENT_HEADER_BYTES) // known if known else HEADER_BYTES
        if (following - first) * HEADER_BYTES > room:
            raise StoreError(
                f"a segment file is missing: {segment.path} ends with entry {first - 1:,}, the"
                f" next file begins with {following:,}; restore it, or let this node rejoin as"
                f" a new one"
            )
        # They may have stood here. Where nothing is left of them and they would have had to be far
        # smaller than the others, a file may be gone instead: a peer's copies will tell.
        is_file = not any(data[segment.end :]) and (following - first) * average > 4 * room
        reason = MISSING_FILE if is_file else MISSING
        place = segment.end
        for index in range(first, following):
            # The first gets all the room until repairs tell the sizes.
            self._damaged(segment, index, place, reason)
            segment.add(self._record or 0, room if index == first else 0)
            self._scan.last_index = index
        self._chain = None
        self._record = None

    def _stray_bytes(self, segment: Segment, end: int) -> None:
        """Bytes behind the last entry of a sealed segment: harmless, but no longer identical."""
        reason = "the bytes behind the last entry are not zero"
        self._scan.damage.append(Damage(segment.path.name, segment.end, 0, reason))
        self._scan.stray_bytes.append((segment, end))

    def _damaged(self, segment: Segment, index: int, offset: int, reason: str) -> None:
        self._scan.damage.append(Damage(segment.path.name, offset, index, reason))
