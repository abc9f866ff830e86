"""
What a MOVE record has behind its head: which messages go where, and why.

Layout: source and target queue (u32 each, 0: none), cause (u8), flags (u8), when in milliseconds
(u64), lengths of the source's name and of the reason (u16 each), the two texts; where the flags say
so, when the messages expire on the target (u64); the runs. A run is its first sequence (u64), the
first one on the target (u64; 0 where there is none), and how many messages it has (u32).

Invariants:
    decode(encode(record)) gives the same record.
    A record moves no more messages than are applied in a bounded time.
"""

from __future__ import annotations

import struct
from typing import Final

from holdfast.model.facts import Cause
from holdfast.model.records import MOVE_COUNT_MAX, MoveRecord, Run

_STATE = struct.Struct("<IIBBQHH")
_RUN = struct.Struct("<QQI")
_COPY: Final = 1
_CLEARS_EXPIRY: Final = 2
_EXPIRES: Final = 4
_TIME = struct.Struct("<Q")


def encode_move(record: MoveRecord) -> bytes:
    """Give the payload of its record."""
    name, reason = record.queue_name.encode(), record.reason.encode()
    state = _STATE.pack(
        record.queue_number,
        record.target_number,
        record.cause,
        _flags(record),
        record.moved_at,
        len(name),
        len(reason),
    )
    expires = _TIME.pack(record.expires_ms) if record.expires_ms else b""
    return b"".join((state, name, reason, expires, *(_RUN.pack(*run) for run in record.runs)))


def _flags(record: MoveRecord) -> int:
    return (
        record.is_copy * _COPY
        | record.clears_expiry * _CLEARS_EXPIRY
        | bool(record.expires_ms) * _EXPIRES
    )


def decode_move(payload: bytes) -> MoveRecord:
    """
    Give a move by the payload of its record.

    Raises:
        ValueError: It makes no sense. So may struct.error say, and UnicodeDecodeError.
    """
    number, target, cause, what, moved_at, name_length, length = _STATE.unpack_from(payload)
    name_end = _STATE.size + name_length
    end = name_end + length
    if end > len(payload):
        raise ValueError("its texts are cut off")
    if what & ~(_COPY | _CLEARS_EXPIRY | _EXPIRES):
        raise ValueError(f"it has flags {what:#04x}, which are not known")
    expires_ms = _TIME.unpack_from(payload, end)[0] if what & _EXPIRES else 0
    runs_at = end + bool(what & _EXPIRES) * _TIME.size
    runs = [Run(*run) for run in _RUN.iter_unpack(payload[runs_at:])]
    if not 0 < sum(run.length for run in runs) <= MOVE_COUNT_MAX:
        raise ValueError(f"it moves no messages, or more than {MOVE_COUNT_MAX:,}")
    return MoveRecord(
        number,
        target,
        Cause(cause),
        runs,
        queue_name=payload[_STATE.size : name_end].decode(),
        reason=payload[name_end:end].decode(),
        moved_at=moved_at,
        is_copy=bool(what & _COPY),
        clears_expiry=bool(what & _CLEARS_EXPIRY),
        expires_ms=expires_ms,
    )
