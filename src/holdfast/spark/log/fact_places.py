"""
Where the facts of messages stand, as arrays: each kind of block of all messages in one go.

Most messages have no facts; then nothing here is called. Where a block stands follows from the
lengths of those before it, so the kinds are gone through in the order of their flags.

Invariants:
    What `store.fact_blocks` refuses is marked as bad, so that its own words say what is wrong.

Pure: no disk, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from holdfast.model.facts import BodyKind, Cause, Encoding
from holdfast.spark.log.entry_block import Integers
from holdfast.store.fact_blocks import (
    ATTRIBUTES,
    DUE,
    FORM,
    HOP,
    HOPS,
    ORIGIN,
    ORIGIN_HEAD,
    PLACE,
    PLACES,
    SKIPS,
)

Mask = npt.NDArray[np.bool_]
Heads = npt.NDArray[np.void]

HEADS: Final[dict[int, np.dtype[np.void]]] = {
    ATTRIBUTES: np.dtype(
        [
            ("expires_ms", "<u8"),
            ("group_hash", "<u4"),
            ("priority", "u1"),
            ("failures", "u1"),
            ("repeats", "<u2"),
        ]
    ),
    DUE: np.dtype([("due_ms", "<u8")]),
    PLACES: np.dtype([("count", "<u2")]),
    SKIPS: np.dtype([("count", "<u2")]),
    FORM: np.dtype([("form", "u1")]),
    HOPS: np.dtype([("count", "u1")]),
    ORIGIN: np.dtype([("cause", "u1"), ("queue_length", "<u2"), ("id_length", "<u2")]),
}
"""What each block begins with, by its flag; a test holds it to `store.fact_blocks`."""

_FORMS: Final = np.array([it << 4 | kind for it in Encoding for kind in BodyKind], dtype=np.uint8)
_CAUSES: Final = np.array(list(Cause), dtype=np.uint8)


def structures(buffer: bytes, places: Integers, kind: np.dtype[np.void]) -> Heads:
    """Return the structures of type `kind` that stand at these bytes of the buffer."""
    size = len(buffer) - kind.itemsize + 1
    if size <= 0 or not len(places):
        return np.empty(0, dtype=kind)
    everywhere: Heads = np.ndarray((size,), dtype=kind, buffer=buffer, strides=(1,))
    return everywhere[places]


def find_facts(
    buffer: bytes, flags: Integers, starts: Integers, ends: Integers
) -> tuple[Integers, Mask]:
    """
    Give the byte after the last block of each message, and which messages' blocks make no sense.

    The blocks that a message's `flags` tell of stand from `starts` on and do not reach beyond
    `ends`.
    """
    behind = starts.copy()
    bad: Mask = np.zeros(len(flags), dtype=np.bool_)
    for bit, measure in _MEASURES.items():
        having = np.flatnonzero((flags & bit != 0) & ~bad)
        if not len(having):
            continue
        places = behind[having]
        head = HEADS[bit]
        is_cut = places + head.itemsize > ends[having]
        heads = structures(buffer, np.where(is_cut, 0, places), head)
        lengths, is_odd = measure(heads)
        behind[having] = places + lengths
        bad[having] = is_cut | is_odd | (behind[having] > ends[having])
    return behind, bad


def _whole(heads: Heads) -> tuple[Integers, Mask]:
    return np.full(len(heads), heads.itemsize), np.zeros(len(heads), dtype=np.bool_)


def _places(heads: Heads) -> tuple[Integers, Mask]:
    counts = heads["count"].astype(np.int64)
    return heads.itemsize + PLACE.size * counts, counts == 0


def _skips(heads: Heads) -> tuple[Integers, Mask]:
    counts = heads["count"].astype(np.int64)
    return heads.itemsize + counts, counts == 0


def _form(heads: Heads) -> tuple[Integers, Mask]:
    return np.full(len(heads), heads.itemsize), ~np.isin(heads["form"], _FORMS)


def _hops(heads: Heads) -> tuple[Integers, Mask]:
    counts = heads["count"].astype(np.int64)
    fixed = heads.itemsize + PLACE.size
    return fixed + HOP.size * counts, np.zeros(len(heads), dtype=np.bool_)


def _origin(heads: Heads) -> tuple[Integers, Mask]:
    texts = heads["queue_length"].astype(np.int64) + heads["id_length"]
    return ORIGIN_HEAD.size + texts, ~np.isin(heads["cause"], _CAUSES)


_MEASURES: Final[dict[int, Callable[[Heads], tuple[Integers, Mask]]]] = {
    ATTRIBUTES: _whole,
    DUE: _whole,
    PLACES: _places,
    SKIPS: _skips,
    FORM: _form,
    HOPS: _hops,
    ORIGIN: _origin,
}
"""How long each block is and whether it makes no sense, by its flag, in the order of the log."""
