"""
Arrow arrays cut out of a buffer in one go: many pieces, one call, one copy.

The pieces are described as binary views (16 bytes each, made with array arithmetic) over the buffer
itself, which costs no copy; Arrow's cast to plain binary then gathers them. That is the one copy.

Pure: knows nothing of the log.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import StoreError

Integers = npt.NDArray[np.int64]

_INLINE_MAX: Final = 12
"""A view holds pieces up to so many bytes itself (Arrow columnar format, variable-size views)."""

_VIEW: Final = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("start", "<i4")])
BUFFER_BYTES_MAX: Final = 2**31 - 1


def cut_binary(buffer: bytes, starts: Integers, ends: Integers) -> pa.BinaryArray:
    """
    Return the pieces `buffer[start:end]` as a binary array.

    Raises:
        StoreError: The buffer is larger than an Arrow array can address.
    """
    count = len(starts)
    size = len(buffer)
    if size > BUFFER_BYTES_MAX:
        raise StoreError(
            f"a piece of the log of {size:,} bytes does not fit into a batch of Arrow, which"
            f" holds {BUFFER_BYTES_MAX:,} at most"
        )
    views = np.zeros(count, dtype=_VIEW)
    lengths = ends - starts
    views["length"] = lengths
    is_short = lengths <= _INLINE_MAX
    long_rows = slice(None) if not is_short.any() else np.flatnonzero(~is_short)
    places = starts[long_rows]
    if len(places):
        prefixes: npt.NDArray[np.void] = np.ndarray(
            (size - 3,), dtype="V4", buffer=buffer, strides=(1,)
        )
        views["prefix"][long_rows] = prefixes[places]
        views["start"][long_rows] = places
    if not isinstance(long_rows, slice):
        _inline(views, buffer, starts, lengths, np.flatnonzero(is_short))
    array = pa.Array.from_buffers(
        pa.binary_view(), count, [None, pa.py_buffer(views), pa.py_buffer(buffer)]
    )
    return array.cast(pa.binary())


def _inline(
    views: npt.NDArray[np.void], buffer: bytes, starts: Integers, lengths: Integers, rows: Integers
) -> None:
    """Put pieces of at most 12 bytes into their views."""
    steps = np.arange(_INLINE_MAX)
    places = np.minimum(starts[rows, None] + steps, len(buffer) - 1)
    data = np.frombuffer(buffer, dtype=np.uint8)[places]
    data *= steps < lengths[rows, None]
    words = np.zeros((len(rows), 16), dtype=np.uint8)
    words[:, 4:] = data
    short = words.view(_VIEW)[:, 0]
    short["length"] = lengths[rows]
    views[rows] = short


def with_nulls(array: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the array with nulls where `valid` is false."""
    if valid.all():
        return array
    if not valid.any():
        return pa.nulls(len(array), array.type)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def integers(
    values: Integers, kind: pa.DataType, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return numbers as an Arrow array of `kind`, null where `valid` is false."""
    width = np.int32 if kind == pa.int32() else np.int64
    data = np.ascontiguousarray(values, dtype=width)
    array = pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)])
    return array if valid is None else with_nulls(array, valid)
