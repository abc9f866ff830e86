"""
Entries cut from a buffer: all good ones in order, none that is not.
"""

from __future__ import annotations

import pytest

from holdfast.journal.entry import FIRST_CHAIN, KIND_NOOP, KIND_RECORDS, seal_entry
from holdfast.spark.log.entry_block import cut_entries, problem, skip_entries


def entries(count: int, first: int = 5) -> list[bytes]:
    found, chain = [], FIRST_CHAIN
    for index in range(first, first + count):
        entry = seal_entry(
            index=index,
            term=2,
            kind=KIND_RECORDS if index % 2 else KIND_NOOP,
            timestamp=index * 10,
            first_record=index,
            record_count=1,
            parts=[b"b" * index],
            previous_chain=chain,
        )
        chain = entry.chain
        found.append(entry.raw)
    return found


def test_a_block_has_the_headers_as_arrays() -> None:
    """Fields, places and bytes of every entry."""
    raws = entries(4)
    block = cut_entries(b"".join(raws), 5)
    assert [5, 6, 7, 8] == block.indexes.tolist()
    assert [50, 60, 70, 80] == block.field("timestamp").tolist()
    assert [5, 6, 7, 8] == (block.body_ends - block.body_starts).tolist()
    assert raws == [block.raw(position) for position in range(4)]
    assert b"".join(raw[56:72] for raw in raws) == block.chains
    assert len(b"".join(raws)) == block.end


def test_a_part_of_a_block_is_a_block() -> None:
    """Whatever end lies outside is simply not there."""
    block = cut_entries(b"".join(entries(4)), 5)
    part = block.between(6, 7)
    assert ([6, 7], [block.raw(1), block.raw(2)]) == (
        part.indexes.tolist(),
        [part.raw(0), part.raw(1)],
    )
    assert [7, 8] == block.between(7, 99).indexes.tolist()
    assert 0 == len(block.between(9, 12))
    assert block is block.between(1, 99)


def test_cutting_stops_at_what_is_not_whole() -> None:
    """The rest of the buffer is read again together with what follows it."""
    data = b"".join(entries(3))
    for size in (len(data) - 1, len(data) - 60, len(data) - 75):
        block = cut_entries(data[:size], 5)
        assert 6 == block.last_index
        assert problem(data[:size], block.end, 7) is None
    assert 5 == cut_entries(data, 5, through_index=5).last_index


@pytest.mark.parametrize(
    ("byte", "reason"),
    [(20, "header checksum"), (74, "body checksum"), (0, "there is no entry")],
)
def test_cutting_stops_before_damage_and_says_what_it_is(byte: int, reason: str) -> None:
    """Both checksums are looked at; the place is given."""
    first, second = entries(2)
    damaged = bytearray(first + second)
    damaged[len(first) + byte] ^= 1
    block = cut_entries(bytes(damaged), 5)
    assert (5, len(first)) == (block.last_index, block.end)
    fault = problem(bytes(damaged), block.end, 6)
    assert fault is not None
    assert reason in fault.reason
    assert (len(first), 6) == (fault.byte, fault.index)


def test_another_entry_is_not_taken_for_the_next() -> None:
    """A good entry in the wrong place is damage too."""
    first, _, third = entries(3)
    block = cut_entries(first + third, 5)
    fault = problem(first + third, block.end, 6)
    assert 5 == block.last_index
    assert fault is not None
    assert "entry 7 stands where 6 belongs" in fault.reason


def test_entries_are_passed_over_by_their_lengths() -> None:
    """Up to the one that is wanted, or to the last that begins in the buffer."""
    raws = entries(4)
    data = b"".join(raws)
    assert (7, len(raws[0] + raws[1])) == skip_entries(data, 5, 7)
    assert (9, len(data)) == skip_entries(data, 5, 9)
    assert (8, len(b"".join(raws[:3]))) == skip_entries(data[:-1], 5, 12)
    assert (5, 0) == skip_entries(bytes(500), 5, 9)
