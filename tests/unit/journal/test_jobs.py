"""Which entries may share a run, that is one write and one sync."""

from __future__ import annotations

from pathlib import Path

from holdfast.journal.entry import FIRST_CHAIN, Entry, seal_entry
from holdfast.journal.jobs import RUN_BYTES_MAX, RUN_ENTRIES_MAX, AppendJob, Piece, WriteResult
from holdfast.journal.segment import Segment, SegmentHeader

SEGMENT = Segment(Path("/log"), SegmentHeader(1, 1, 0, FIRST_CHAIN, 1 << 30))


def entry(index: int, body: bytes = b"x" * 8) -> Entry:
    return seal_entry(
        index=index,
        term=1,
        kind=0,
        timestamp=index,
        first_record=index,
        record_count=1,
        parts=[body],
        previous_chain=FIRST_CHAIN,
    )


def piece_of(*entries: Entry, offset: int = 4096, opens: bool = False) -> Piece:
    piece = Piece(SEGMENT, offset, opens=opens)
    for it in entries:
        assert piece.add(it, len(it.raw))
    return piece


def test_small_neighbours_share_a_run() -> None:
    """Pieces that follow each other become one write."""
    first = piece_of(entry(1), entry(2))
    second = piece_of(entry(3), offset=4096 + first.bytes)
    assert first.join(second)
    assert (len(first.buffers), first.last_index, first.bytes) == (3, 3, 240)


def test_an_entry_with_a_row_of_zeros_ends_its_run() -> None:
    """If it tears, no sector of zeros may tell; so nothing may follow it unsynced."""
    piece = piece_of(entry(1, bytes(512)))
    assert not piece.add(entry(2), 80)
    assert not piece.join(piece_of(entry(2), offset=4096 + piece.bytes))


def test_a_run_is_bounded_in_bytes_and_entries() -> None:
    """Recovery counts on the bounds; only a single entry may be larger."""
    large = entry(1, b"x" * (RUN_BYTES_MAX - 300))
    piece = piece_of(large)
    assert piece.add(entry(2), 80)
    assert not piece.add(entry(3, b"x" * 300), 376)
    assert not piece.join(piece_of(entry(3, b"x" * 300), offset=4096 + piece.bytes))
    huge = entry(1, b"x" * RUN_BYTES_MAX)
    assert piece_of(huge).bytes > RUN_BYTES_MAX
    many = piece_of(*[entry(i) for i in range(1, RUN_ENTRIES_MAX + 1)])
    assert not many.add(entry(RUN_ENTRIES_MAX + 1), 80)
    assert not many.join(piece_of(entry(RUN_ENTRIES_MAX + 1), offset=4096 + many.bytes))


def test_a_new_segment_or_a_gap_starts_a_new_run() -> None:
    """What goes to another file or another place is synced apart."""
    first = piece_of(entry(1))
    assert not first.join(piece_of(entry(2), offset=4096 + first.bytes, opens=True))
    assert not first.join(piece_of(entry(2), offset=4096 + first.bytes + 8))


def test_a_job_is_done_only_when_told() -> None:
    """A fresh job claims nothing, and neither does a result without failure."""
    assert not AppendJob([], 0).is_done
    assert WriteResult(3, []).failure is None
