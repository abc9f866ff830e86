"""
Sequences as runs of neighbours: 12 bytes a run, however long.

Invariants:
    Equal sequences in equal order give equal bytes; their order is kept.
"""

from __future__ import annotations

import struct
from typing import Final

_RUN: Final = struct.Struct("<QI")
"""First sequence, and how many there are."""
_SEQUENCE_MAX: Final = (1 << 64) - 1


def encode_runs(sequences: list[int]) -> bytes:
    """Give sequences as runs."""
    parts: list[bytes] = []
    first = following = 0
    for sequence in sequences:
        if sequence != following or following == first:
            if following > first:
                parts.append(_RUN.pack(first, following - first))
            first = sequence
        following = sequence + 1
    if following > first:
        parts.append(_RUN.pack(first, following - first))
    return b"".join(parts)


def decode_runs(payload: bytes, count_max: int) -> list[int]:
    """
    Give the sequences of runs.

    Raises:
        ValueError: A run is cut off or empty, or there are more than so many sequences.
    """
    if len(payload) % _RUN.size:
        raise ValueError("its last run is cut off")
    sequences: list[int] = []
    for first, count in _RUN.iter_unpack(payload):
        if not count or len(sequences) + count > count_max or first + count - 1 > _SEQUENCE_MAX:
            raise ValueError(f"a run of {count:,} from {first:,} is none, or too long")
        sequences += range(first, first + count)
    return sequences
