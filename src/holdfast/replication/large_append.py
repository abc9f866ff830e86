"""
One append request with one large entry, taken from a link as its parts arrive.

A large entry comes in hundreds of reads. Each is hashed and put in its place at once, so that after
the last one nothing is left to do: to join, check and hash 60 MB then would keep the loop from
everybody else for a quarter of a second. Requests with several entries are short
(`append_bytes_max`) and not taken this way.

Pure: bytes in, a message out.

Invariants:
    It gives the same message, or the same refusal, as decoding the whole frame at once.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import HEADER_BYTES, HeaderFields, entry_bytes, parse_header
from holdfast.journal.entry_body import EntryBody
from holdfast.replication.message_codec import (
    APPEND_FIELDS,
    APPEND_REQUEST,
    FRAME_HEADER,
    no_sense,
    within_bounds,
)
from holdfast.replication.messages import AppendRequest

PREFIX_BYTES: Final = FRAME_HEADER.size + APPEND_FIELDS.size + HEADER_BYTES
"""So much of a frame must be there to tell what it is."""

LARGE_BYTES: Final = 256 * 1024
"""A shorter frame is decoded at once: well under a millisecond."""


class LargeAppend:
    """One entry on its way in."""

    __slots__ = ("_body", "_body_left", "_fields", "_header", "_header_fields", "_padding", "left")

    def __init__(self, fields: list[Any], header: bytes, header_fields: HeaderFields) -> None:
        length = header_fields.body_length
        self._fields = fields
        self._header = header
        self._header_fields = header_fields
        self._body = EntryBody(length)
        self._body_left = length
        self._padding = b""
        self.left = entry_bytes(length) - HEADER_BYTES
        """Bytes of the frame that have not come yet."""

    @staticmethod
    def begin(frame: bytes) -> LargeAppend | None:
        """
        Begin with the first bytes of a frame; None if it is not of this kind.

        Raises:
            RemoteProtocolError: The entry's header is damaged.
        """
        length, kind = FRAME_HEADER.unpack_from(frame)
        if kind != APPEND_REQUEST:
            return None
        *fields, count = APPEND_FIELDS.unpack_from(frame, FRAME_HEADER.size)
        if count != 1:
            return None
        start = FRAME_HEADER.size + APPEND_FIELDS.size
        try:
            header_fields = parse_header(frame, start)
        except CorruptEntryError as error:
            raise no_sense(kind, error) from error
        if 1 + APPEND_FIELDS.size + entry_bytes(header_fields.body_length) != length:
            return None
        large = LargeAppend(fields, frame[start : start + HEADER_BYTES], header_fields)
        large.take(frame[start + HEADER_BYTES :])
        return large

    def take(self, data: bytes) -> None:
        """Take what comes next of the frame, and no more than that."""
        assert len(data) <= self.left, "the rest belongs to the next frame"
        self.left -= len(data)
        of_body = data[: self._body_left]
        self._body_left -= len(of_body)
        self._body.add(of_body)
        self._padding += data[len(of_body) :]

    def message(self) -> AppendRequest:
        """
        Give the message; all of it must have come.

        Raises:
            RemoteProtocolError: The entry is damaged, or not the one that was said.
        """
        assert self.left == 0, "all of the frame has come"
        term, previous_index, previous_term, chain, commit, data_match, sent_at = self._fields
        try:
            entry = self._body.take_whole(self._header, self._header_fields, self._padding)
            if entry.index != previous_index + 1:
                raise ValueError(f"entry {entry.index} instead of {previous_index + 1}")
            within_bounds(term, previous_index, previous_term, commit, data_match)
        except (CorruptEntryError, ValueError) as error:
            raise no_sense(APPEND_REQUEST, error) from error
        return AppendRequest(
            term, previous_index, previous_term, chain, commit, data_match, sent_at, [entry]
        )
