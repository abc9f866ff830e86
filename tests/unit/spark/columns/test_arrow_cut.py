"""
Pieces of a buffer as Arrow arrays, of every length and at every edge.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import StoreError
from holdfast.spark.columns import arrow_cut
from holdfast.spark.columns.arrow_cut import cut_binary, integers, with_nulls


def cut(buffer: bytes, pieces: list[tuple[int, int]]) -> list[bytes]:
    starts = np.array([start for start, _ in pieces], dtype=np.int64)
    ends = np.array([end for _, end in pieces], dtype=np.int64)
    array = cut_binary(buffer, starts, ends)
    array.validate(full=True)
    return array.to_pylist()


@pytest.mark.parametrize("size", [1, 3, 11, 12, 13, 40])
def test_every_piece_of_a_small_buffer(size: int) -> None:
    """Empty ones, short ones that a view holds itself, long ones, up to the very end."""
    buffer = bytes(range(1, size + 1))
    pieces = [(a, b) for a in range(size + 1) for b in range(a, size + 1)]
    assert [buffer[a:b] for a, b in pieces] == cut(buffer, pieces)


def test_pieces_may_overlap_and_come_in_any_order() -> None:
    """Filters leave out rows, and sorting is the caller's business."""
    chance = random.Random(1)
    buffer = chance.randbytes(5_000)
    pieces = [tuple(sorted(chance.choices(range(5_001), k=2))) for _ in range(300)]
    assert [buffer[a:b] for a, b in pieces] == cut(buffer, pieces)
    assert [] == cut(buffer, [])


def test_a_buffer_beyond_arrow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than cut at wrapped-around offsets."""
    monkeypatch.setattr(arrow_cut, "BUFFER_BYTES_MAX", 10)
    with pytest.raises(StoreError, match="11 bytes does not fit"):
        cut(bytes(11), [(0, 5)])


def test_nulls_are_where_they_are_wanted() -> None:
    """For numbers and for bytes; nothing is touched where all are valid."""
    valid = np.array([True, False] * 5 + [True])
    numbers = integers(np.arange(11), pa.int32(), valid)
    assert [n if n % 2 == 0 else None for n in range(11)] == numbers.to_pylist()
    assert numbers.null_count == 5
    words = pa.array([b"a"] * 11, pa.binary())
    assert with_nulls(words, ~valid).to_pylist()[:2] == [None, b"a"]
    assert with_nulls(words, valid | True) is words
    assert with_nulls(words, valid & False).null_count == 11
