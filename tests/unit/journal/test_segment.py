"""A segment's header and the places of its entries."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import google_crc32c
import pytest

from holdfast.errors import StoreError
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    base_index_of,
    decode_segment_header,
    file_digest,
    segment_name,
)
from holdfast.journal.settings import MiB
from trials.simulation.simulated_disk import SimulatedDisk

HEADER = SegmentHeader(100, 5_000, 7, b"c" * 16, 65_536)


def test_the_name_carries_the_first_index() -> None:
    """Twenty digits, so that names sort as indexes do."""
    assert segment_name(100) == "00000000000000000100.segment"
    assert base_index_of(segment_name(2**63)) == 2**63
    assert base_index_of("100.segment") is None
    assert base_index_of("00000000000000000100.segment.bak") is None


def test_the_header_block_reads_back() -> None:
    """What a segment says of itself survives encoding; the block is one page."""
    block = HEADER.encode()
    assert len(block) == SEGMENT_HEADER_BYTES == 4096
    assert decode_segment_header(block) == HEADER


def test_any_damage_to_the_block_is_noticed() -> None:
    """A flipped bit anywhere in the block, or a block cut short, gives no header."""
    block = HEADER.encode()
    for bit in range(0, SEGMENT_HEADER_BYTES * 8, 41):
        damaged = bytearray(block)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_segment_header(bytes(damaged)) is None
    assert decode_segment_header(block[:-1]) is None


@pytest.mark.parametrize("capacity", [(8 << 30) + 1, 1 << 40, 1 << 63, (1 << 64) - 1])
def test_a_size_that_no_segment_has_is_damage(capacity: int) -> None:
    """Whatever its checksum says: who reads it would need so much memory."""
    assert decode_segment_header(replace(HEADER, capacity=8 << 30).encode()) is not None
    assert decode_segment_header(replace(HEADER, capacity=capacity).encode()) is None


def test_another_version_is_named_not_taken_for_damage() -> None:
    """A whole header of a later version says that a later program wrote it."""
    block = bytearray(HEADER.encode())
    block[4:6] = (9).to_bytes(2, "little")
    block[8:12] = bytes(4)
    block[8:12] = google_crc32c.value(bytes(block)).to_bytes(4, "little")
    with pytest.raises(StoreError, match=r"version 9.*knows.*version 1"):
        decode_segment_header(bytes(block))


def test_entries_are_found_by_index_and_by_record() -> None:
    """Places follow one another; entries without records never hold one."""
    segment = Segment(Path("/log"), HEADER)
    for first_record, size in ((5_000, 80), (5_003, 72), (5_003, 72), (5_003, 160)):
        segment.add(first_record, size)
    assert segment.last_index == 103
    assert segment.place(100) == (4096, 80)
    assert segment.place(103) == (4096 + 224, 160)
    assert segment.index_of_record(5_002) == 100
    assert segment.index_of_record(5_003) == 103
    assert segment.fits(65_536 - segment.end)
    assert not segment.fits(65_536 - segment.end + 8)


def test_cutting_forgets_only_what_is_after() -> None:
    """After a cut the next entry goes where the first one cut away was."""
    segment = Segment(Path("/log"), HEADER)
    for number in range(4):
        segment.add(5_000 + number, 80)
    segment.cut_after(101)
    assert (segment.last_index, segment.end) == (101, 4096 + 160)
    segment.cut_after(105)
    assert segment.last_index == 101


def test_what_a_sealed_segment_says_is_made_once() -> None:
    """A long log has thousands of them; what changes one changes what it says."""
    segment = Segment(Path("/log"), HEADER)
    for number in range(4):
        segment.add(5_000 + number, 80)
    open_one = segment.statistics(102, is_last=False)
    assert not open_one.sealed
    sealed = segment.statistics(103, is_last=False)
    assert (sealed.sealed, sealed.last_index, sealed.content_bytes) == (True, 103, 320)
    assert segment.statistics(200, is_last=False) is sealed
    assert segment.statistics(103, is_last=True).bytes == 4096 + 320
    segment.end_at(4096 + 316)
    assert segment.statistics(103, is_last=False).content_bytes == 316
    segment.cut_after(101)
    assert segment.statistics(103, is_last=False).last_index == 101
    segment.add(5_002, 72)
    assert segment.statistics(103, is_last=False).last_index == 102


def test_a_span_is_whole_entries_of_one_segment() -> None:
    """
    At least one, even if it is larger than asked; never one after the last wanted.
    """
    segment = Segment(Path("/log"), SegmentHeader(10, 1, 0, bytes(16), 4096 + 800))
    for size in (80, 160, 240):
        segment.add(1, size)

    assert (4096, 80, 10) == segment.span(10, 1, 99)
    assert (4096, 80, 10) == segment.span(10, 239, 99)
    assert (4096, 240, 11) == segment.span(10, 240, 99)
    assert (4176, 400, 12) == segment.span(11, 10_000, 99)
    assert (4096, 240, 11) == segment.span(10, 10_000, 11)
    assert (4336, 240, 12) == segment.span(12, 240, 12)


def test_the_digest_is_of_every_byte_of_the_file() -> None:
    """The zeros behind the last entry count: they are the same on every node."""
    disk = SimulatedDisk()
    disk.make_directory(Path("/d"))
    file = disk.open(Path("/d/f"), create=True)
    file.write(b"entries".ljust(MiB + 5, b"\0"), 0)
    expected = blake2b(b"entries".ljust(MiB + 5, b"\0"), digest_size=32).digest()
    assert file_digest(disk, Path("/d/f")) == expected
