"""
The columns of a chunk that only some have, as bytes and back: a mask says which ones follow.

They come in the order of their bits, each with one value for each slot that the checkpoint names.
A chunk has a column where one of these values is not zero, so equal states give equal bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.broker.lasting.chunk import Chunk
from holdfast.broker.lasting.returns import Returned

MOVES: Final = 1
"""Which records moved messages here (u64)."""
RETURNED: Final = 2
"""How often each came back (u8), then how often it was to blame (u8)."""
DUE: Final = 4
"""Until when each rests (u64)."""
EXPIRES: Final = 8
"""When each expires, or is due if it is scheduled (u64)."""
GROUPS: Final = 16
"""The hash of the message group of each (u32)."""
REPEATS: Final = 32
"""How often each is sent after the next time (u16)."""
PRIORITIES: Final = 64
"""One more than the priority of each (u8), 0 if it has the usual one."""
_SIZES: Final = {MOVES: 8, RETURNED: 2, DUE: 8, EXPIRES: 8, GROUPS: 4, REPEATS: 2, PRIORITIES: 1}
"""How many bytes each has for a slot."""
_KNOWN: Final = sum(_SIZES)


def encode_columns(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    """Give the mask of a chunk's columns, and what they say of these slots."""
    parts = (
        _encode_moves(chunk, slots),
        _encode_returns(chunk, slots),
        _encode_expires(chunk, slots),
        _encode_groups(chunk, slots),
        _encode_repeats(chunk, slots),
        _encode_priorities(chunk, slots),
    )
    return sum(mask for mask, _ in parts), b"".join(columns for _, columns in parts)


def _encode_returns(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    mask, columns = 0, b""
    returns = chunk.returns
    if returns is None:
        return mask, columns
    attempts, failures = _picked(returns.attempts, slots), _picked(returns.failures, slots)
    if any(attempts) or any(failures):
        mask, columns = RETURNED, attempts + failures
    if returns.dues is not None:
        dues = _padded(returns.dues, slots)
        if any(dues):
            mask, columns = mask | DUE, columns + array("Q", dues).tobytes()
    return mask, columns


def _encode_expires(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    if chunk.expires is None:
        return 0, b""
    expires = _padded(chunk.expires, slots)
    return (EXPIRES, array("Q", expires).tobytes()) if any(expires) else (0, b"")


def _encode_groups(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    if chunk.group_hashes is None:
        return 0, b""
    hashes = _padded(chunk.group_hashes, slots)
    return (GROUPS, array("I", hashes).tobytes()) if any(hashes) else (0, b"")


def _encode_repeats(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    if chunk.repeats is None:
        return 0, b""
    repeats = _padded(chunk.repeats, slots)
    return (REPEATS, array("H", repeats).tobytes()) if any(repeats) else (0, b"")


def _encode_priorities(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    if chunk.priorities is None:
        return 0, b""
    priorities = _picked(chunk.priorities, slots)
    return (PRIORITIES, priorities) if any(priorities) else (0, b"")


def _encode_moves(chunk: Chunk, slots: Sequence[int]) -> tuple[int, bytes]:
    if chunk.moves is None:
        return 0, b""
    moves = array("Q", [chunk.moves[slot - chunk.start] for slot in slots])
    return (MOVES, moves.tobytes()) if any(moves) else (0, b"")


def _padded(values: array[int], slots: Sequence[int]) -> list[int]:
    known = len(values)
    return [values[slot] if slot < known else 0 for slot in slots]


def _picked(values: bytearray, slots: Sequence[int]) -> bytes:
    if isinstance(slots, range):
        return bytes(values[slots.start : slots.stop]).ljust(len(slots), b"\0")
    return bytes(values[slot] if slot < len(values) else 0 for slot in slots)


def decode_columns(
    mask: int, chunk: Chunk, slots: Sequence[int], take: Callable[[int], bytes]
) -> None:
    """
    Put what the columns say of these slots into a chunk; `take` gives so many bytes more.

    Raises:
        ValueError: There is a column that is not known.
    """
    _require_known(mask)
    count = len(slots)
    if mask & MOVES:
        for slot, move in zip(slots, array("Q", take(8 * count)), strict=True):
            chunk.put_move(slot, move)
    nothing = bytes(count)
    attempts, failures = (take(count), take(count)) if mask & RETURNED else (nothing, nothing)
    dues = array("Q", take(8 * count) if mask & DUE else bytes(8 * count))
    for slot, *counts in zip(slots, attempts, failures, dues, strict=True):
        if any(counts):
            chunk.put_returned(slot, Returned(*counts))
    if mask & EXPIRES:
        for slot, expires_ms in zip(slots, array("Q", take(8 * count)), strict=True):
            if expires_ms:
                chunk.put_expires(slot, expires_ms)
    if mask & GROUPS:
        for slot, group_hash in zip(slots, array("I", take(4 * count)), strict=True):
            if group_hash:
                chunk.put_group_hash(slot, group_hash)
    if mask & REPEATS:
        for slot, repeats in zip(slots, array("H", take(2 * count)), strict=True):
            chunk.put_repeats(slot, repeats)
    if mask & PRIORITIES:
        for slot, priority in zip(slots, take(count), strict=True):
            if priority:
                chunk.put_priority(slot, priority - 1)


def columns_bytes(mask: int, count: int) -> int:
    """
    Give how many bytes the columns of so many slots have.

    Raises:
        ValueError: There is a column that is not known.
    """
    _require_known(mask)
    return count * sum(size for column, size in _SIZES.items() if mask & column)


def _require_known(mask: int) -> None:
    if mask & ~_KNOWN:
        raise ValueError(f"a chunk has columns {mask:#06x}, which are not known")
