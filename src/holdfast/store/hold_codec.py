"""
What a HOLD record has behind its head: from where on the log is kept for a reader, and how long.

Layout: index, bytes, lost through (u64 each); with flag 1 expiry in seconds (u32), why entries were
lost (u8) and when the reader was last heard of (u64); the reader's name.
"""

from __future__ import annotations

import struct
from typing import Final

from holdfast.model.records import HoldLoss, HoldRecord

FLAG_TIMED: Final = 1
"""It says how old it may become. Those of earlier versions do not."""

_STATE: Final = struct.Struct("<QQQ")
_TIMES: Final = struct.Struct("<IBQ")
"""expiry in seconds, why entries were lost, when the reader was last heard of."""


def encode_hold(record: HoldRecord) -> tuple[int, bytes]:
    """Give the flags and the payload of its record."""
    state = _STATE.pack(record.index, record.bytes_max, record.lost_through)
    flags = 0
    if record.expiry_seconds or record.loss or record.renewed_at:
        flags = FLAG_TIMED
        state += _TIMES.pack(record.expiry_seconds, record.loss, record.renewed_at)
    return flags, state + record.name.encode()


def decode_hold(payload: bytes) -> HoldRecord:
    """
    Give a hold of an earlier version by the payload of its record.

    Raises:
        struct.error, UnicodeDecodeError: It makes no sense.
    """
    index, bytes_max, lost_through = _STATE.unpack_from(payload)
    return HoldRecord(payload[_STATE.size :].decode(), index, bytes_max, lost_through)


def decode_timed_hold(payload: bytes) -> HoldRecord:
    """
    Give a hold that says how old it may become.

    Raises:
        ValueError, struct.error, UnicodeDecodeError: It makes no sense.
    """
    name = _STATE.size + _TIMES.size
    index, bytes_max, lost_through = _STATE.unpack_from(payload)
    expiry, loss, renewed_at = _TIMES.unpack_from(payload, _STATE.size)
    return HoldRecord(
        payload[name:].decode(),
        index,
        bytes_max,
        lost_through,
        expiry_seconds=expiry,
        renewed_at=renewed_at,
        loss=HoldLoss(loss),
    )
