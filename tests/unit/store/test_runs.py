"""
Sequences as runs of neighbours, and back.
"""

from __future__ import annotations

import struct

import pytest

from holdfast.store.runs import decode_runs, encode_runs


@pytest.mark.parametrize(
    ("sequences", "runs"),
    [
        ([], 0),
        ([1], 1),
        ([1, 2, 3], 1),
        ([3, 2, 1], 3),
        ([5, 6, 9, 10, 11, 20], 3),
        ([0, 1], 1),
        ([7, 7], 2),
        ([(1 << 64) - 1], 1),
    ],
)
def test_neighbours_take_no_more_than_one(sequences, runs) -> None:
    """Twelve bytes a run; the order is kept."""
    encoded = encode_runs(sequences)
    assert len(encoded) == 12 * runs
    assert decode_runs(encoded, 1_000) == sequences


@pytest.mark.parametrize(
    "payload",
    [
        b"\0",
        struct.pack("<QI", 1, 0),
        struct.pack("<QI", 1, 11),
        struct.pack("<QIQI", 1, 6, 9, 5),
        struct.pack("<QI", (1 << 64) - 1, 2),
    ],
)
def test_what_is_no_run_is_refused(payload) -> None:
    """A few damaged bytes must not ask for four thousand million numbers."""
    with pytest.raises(ValueError, match=r"cut off|is none, or too long"):
        decode_runs(payload, 10)
