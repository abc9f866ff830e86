"""
Reading a database by the only connection that it lets in, between two appends.

What is late there is ended by closing its connection, and then others may have its place: the
database would be left out for having been read. So what is read by the way that appends go is
bounded by bytes and not by time: an entry comes in pieces, each no larger than that way carries in
a moment, as it was seen to. A piece holds up an append for that moment, and a large entry takes as
many of them as it needs.

Invariants:
    Nothing is asked for of which it is not known before that it is no more than a piece.
    What is put together of pieces has its checksums verified.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from holdfast.errors import CorruptEntryError, MissingEntriesError, UnreachableError
from holdfast.journal.entry import (
    HEADER_BYTES,
    Entry,
    HeaderFields,
    bytes_of,
    entry_bytes,
    parse_entry,
    parse_header,
)
from holdfast.model.limits import KiB, MiB
from holdfast.raidb.member import ActOf, Member

PIECE_SECONDS: Final = 0.3
"""So long an append waits for a piece at most, as fast as the way was seen to be."""
CLOSING_SECONDS: Final = 5.0
"""A piece that takes so long is of a database that hangs: appends would find it so as well."""
PIECE_BYTES_MIN: Final = 4 * KiB
PIECE_BYTES_FIRST: Final = 16 * KiB
"""Of a way of which nothing is known yet."""
PIECE_BYTES_MAX: Final = MiB
_GROWTH_MAX: Final = 4

Pieces = Generator[ActOf, Any, list[Entry]]
"""One act after the other; each is to be sent what came of it, and the last gives the entries."""


class Between:
    """Knows how fast the way to each member is, and asks for no more at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing is known of any."""
        self._clock = clock
        self._sizes: dict[str, int] = {}

    def entries(
        self,
        member: str,
        name: str,
        index: int,
        reading: Callable[[int], ActOf],
        reaching: Callable[[Member], AbstractContextManager[None]],
    ) -> Pieces:
        """
        Read entries of a member from this one on, at least one.

        Args:
            member: Its id.
            name: What people call it.
            reading: Gives what reads some of them, of so many bytes together, at once.
            reaching: Lets what is asked inside be asked of this member only.

        Raises:
            MissingEntriesError: It has not the first one.
            CorruptEntryError: That one is damaged there.
        """
        measured = partial(self._measured, member, reaching)
        header: bytes = yield measured(_piece(index, 0, HEADER_BYTES), HEADER_BYTES)
        size = entry_bytes(header_in(header, index, name).body_length)
        at_once = self.piece_bytes(member)
        if size <= at_once:
            found: list[Entry] = yield measured(reading(at_once), at_once)
            return found
        raw = bytearray(header)
        while len(raw) < size:
            count = min(self.piece_bytes(member), size - len(raw))
            piece: bytes = yield measured(_piece(index, len(raw), count), count)
            if not piece:
                raise CorruptEntryError("the entry is cut short", segment=f"of {name}", index=index)
            raw += piece
        return [_whole(bytes(raw), index, name)]

    def piece_bytes(self, member: str) -> int:
        """How much goes the way to a member in a moment, for all that is known."""
        return self._sizes.get(member, PIECE_BYTES_FIRST)

    def _measured(
        self,
        member: str,
        reaching: Callable[[Member], AbstractContextManager[None]],
        act: ActOf,
        count: int,
    ) -> ActOf:
        def measured(it: Member, seconds: float) -> Any:
            began = self._clock()
            try:
                with reaching(it):
                    found = act(it, seconds)
            except UnreachableError:
                self._sizes[member] = PIECE_BYTES_MIN
                raise
            got = len(found) if isinstance(found, bytes) else bytes_of(found)
            self._came(member, got, count, self._clock() - began)
            return found

        return measured

    def _came(self, member: str, got: int, asked: int, took: float) -> None:
        """So many bytes came, of so many that might have; few of them say nothing of many."""
        before = self.piece_bytes(member)
        in_a_moment = int(got / max(took, 1e-3) * PIECE_SECONDS)
        if took > PIECE_SECONDS:
            size = min(before, in_a_moment)
        elif asked >= before and 2 * got >= asked:
            size = min(in_a_moment, _GROWTH_MAX * before)
        else:
            return
        self._sizes[member] = max(PIECE_BYTES_MIN, min(size, PIECE_BYTES_MAX))


def _piece(index: int, start: int, count: int) -> ActOf:
    return lambda it, seconds: it.piece(index, start, count, seconds)


def header_in(raw: bytes, index: int, name: str) -> HeaderFields:
    """
    Give the header of this entry, of what was read from its beginning on.

    Raises:
        MissingEntriesError: Nothing was there to read.
        CorruptEntryError: It is no good header, or another one's.
    """
    if not raw:
        raise MissingEntriesError(index, index, name)
    try:
        header = parse_header(raw)
    except CorruptEntryError as error:
        raise CorruptEntryError(error.reason, segment=f"of {name}", index=index) from None
    if header.entry_index != index:
        reason = f"the row holds entry {header.entry_index:,}"
        raise CorruptEntryError(reason, segment=f"of {name}", index=index)
    return header


def _whole(raw: bytes, index: int, name: str) -> Entry:
    try:
        return parse_entry(raw)
    except CorruptEntryError as error:
        raise CorruptEntryError(error.reason, segment=f"of {name}", index=index) from None
