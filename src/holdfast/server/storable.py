"""
What the cleaner may write again while the store takes no more than so much at once.

A segment in which something larger lives is kept: to write that again would cost the lease, at once
and in each tenure. It is begun with again later, and later each time.

Owned by the cleaner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import structlog

from holdfast.broker.outputs import size_of
from holdfast.model.records import MessageRecord, Record

SECONDS_MIN: Final = 60.0
SECONDS_MAX: Final = 3600.0

log = structlog.get_logger("holdfast.server")


class NotStorableNowError(Exception):
    """What is to be written again is larger than the store takes now."""

    def __init__(self, size: int, bytes_max: int) -> None:
        super().__init__(f"{size:,} bytes, and the store takes {bytes_max:,} now")
        self.size = size
        self.bytes_max = bytes_max


class Patience:
    """With the oldest segment, if something in it cannot be written again now."""

    __slots__ = ("_base_index", "_seconds", "_until")

    def __init__(self) -> None:
        """Wait for nothing."""
        self._base_index = 0
        self._seconds = self._until = 0.0

    def wait(self, base_index: int, now: float, error: NotStorableNowError) -> None:
        """Leave the segment that begins so alone for a while, twice as long each time."""
        if base_index != self._base_index:
            self._base_index, self._seconds = base_index, SECONDS_MIN / 2
        self._seconds = min(2 * self._seconds, SECONDS_MAX)
        self._until = now + self._seconds
        log.warning(
            "the oldest segment is kept: a message that lives in it is larger than what the store"
            " takes at once now, and would have to be written again; consume it, or see why the"
            " store is slow or full",
            first_index=base_index,
            message_bytes=error.size,
            taken_bytes=error.bytes_max,
            looked_at_again_in_seconds=self._seconds,
        )

    def is_waiting(self, base_index: int, now: float) -> bool:
        """Whether the segment that begins so is left alone still."""
        return base_index == self._base_index and now < self._until


def pieces(records: list[Record], bytes_max: int) -> Iterator[tuple[list[Record], int]]:
    """
    Cut records, in order, into pieces of at most so many bytes; 0: all are one. Gives each's size.

    Raises:
        NotStorableNowError: A message has more by itself; then nothing was given.
    """
    if not records:
        return
    sizes = [size_of(it) for it in records]
    if not bytes_max:
        yield records, sum(sizes)
        return
    for record in records:
        if type(record) is MessageRecord and record.size > bytes_max:
            raise NotStorableNowError(record.size, bytes_max)
    piece: list[Record] = []
    in_piece = 0
    for record, size in zip(records, sizes, strict=True):
        if piece and in_piece + size > bytes_max:
            yield piece, in_piece
            piece, in_piece = [], 0
        piece.append(record)
        in_piece += size
    yield piece, in_piece
