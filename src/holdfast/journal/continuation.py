"""
Where a log goes on behind a place that cannot be read, and the proof that it does.

Behind a lost header anything may stand, also what a sender put into the body of a message: bytes
that look like entries, checksums, chain and all. So what looks like an entry is only a candidate.
It counts if its chain leads to the log's real continuation: to the chain value that the next
segment's header states, or to the one that the ballot states for the durable floor, or on from it.
Those values cover the body in which the forgery would stand, so no body can hold what leads there.

Behind the floor in the last segment nothing states how the log goes on. There a candidate counts
if its chain leads to the last byte that was written: an entry forged in a body can do so only where
that body is the last one, and a large one of those is announced in the ballot (`LogClaim`).

Invariants:
    Every byte is looked at a bounded number of times, whatever stands there.
    Nothing is read that was not given; nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final

from google_crc32c import value as crc32c

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import (
    HEADER_BYTES,
    MAGIC,
    HeaderFields,
    chain_after,
    chain_of,
    entry_bytes,
    parse_header,
)

_READ_AGAIN_MAX: Final = 4
"""How often over the bytes are verified at most where nothing states where the log ends."""

Found = tuple[int, HeaderFields]
"""Where an entry begins, and its header."""

Proof = Callable[[HeaderFields], bool]
"""Tells whether the header is that of an entry whose chain value is known from elsewhere."""


def headers_in(data: bytes, start: int, end: int) -> Iterator[Found]:
    """Give every good header that begins in this part, whatever follows it."""
    place = data.find(MAGIC, start, end)
    while place >= 0:
        if place % 8 == 0:
            try:
                yield place, parse_header(data, place)
            except CorruptEntryError:
                pass
        place = data.find(MAGIC, place + 1, end)


class Continuation:
    """The candidates of one segment behind a place that cannot be read."""

    __slots__ = ("_by_end", "_data", "_end", "_headers")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._end = end
        self._headers = dict(headers_in(data, start, end))
        self._by_end: dict[int, list[int]] = {}
        for place, fields in self._headers.items():
            self._by_end.setdefault(place + entry_bytes(fields.body_length), []).append(place)

    def proven(self, start: int, is_possible: Proof, is_known: Proof) -> Found | None:
        """
        Return the first entry from `start` on whose chain leads to an entry that is known.

        `is_possible` says whether an entry's index and term are such as could stand there.
        """
        for place, fields in self._headers.items():
            if place >= start and is_possible(fields) and is_known(fields):
                return self._run_to(place, start, is_possible)[0]
        return None

    def after(self, start: int, index: int, chain: bytes) -> Found | None:
        """Return the entry that follows on the one of this index and chain value."""
        headers = self._headers.items()
        found = [
            (it.body_length, place)
            for place, it in headers
            if place >= start and it.entry_index == index + 1
        ]
        budget = _READ_AGAIN_MAX * (self._end - start)
        for size, place in sorted(found):
            budget -= size
            if budget < 0:
                break
            if self._is_next(place, chain):
                return place, self._headers[place]
        return None

    def ending(self, start: int, is_possible: Proof, last_index: int = 0) -> Found | None:
        """
        Return the first entry from `start` on whose chain leads to the last byte written.

        The entry that ends there must be `last_index`, if that is given.
        """
        best: Found | None = None
        budget = _READ_AGAIN_MAX * (self._end - start)
        for place in sorted(self._by_end.get(self._end, ()), reverse=True):
            budget -= self._end - place
            if budget < 0:
                break
            fields = self._headers[place]
            if place < start or not is_possible(fields) or not self._is_good(place):
                continue
            if last_index and fields.entry_index != last_index:
                continue
            found, size = self._run_to(place, start, is_possible)
            budget -= size
            if best is None or found[0] < best[0]:
                best = found
        return best

    def _run_to(self, last: int, start: int, is_possible: Proof) -> tuple[Found, int]:
        """Follow the chain back from an entry; give the first of the run and the bytes read."""
        headers, data = self._headers, self._data
        place = last
        while True:
            fields = headers[place]
            body = data[place + HEADER_BYTES : place + HEADER_BYTES + fields.body_length]
            if len(body) != fields.body_length or crc32c(body) != fields.body_checksum:
                break  # its own body is lost: nothing proves what stood before it
            digest = blake2b(body, digest_size=16).digest()
            for before in self._by_end.get(place, ()):
                known = headers[before]
                if (
                    start <= before < place
                    and known.entry_index == fields.entry_index - 1
                    and is_possible(known)
                    and chain_of(known.chain, fields.entry_index, fields.term, digest)
                    == fields.chain
                ):
                    place = before
                    break
            else:
                break
        return (place, headers[place]), self._end - place

    def _is_next(self, place: int, chain: bytes) -> bool:
        fields = self._headers[place]
        body = self._data[place + HEADER_BYTES : place + HEADER_BYTES + fields.body_length]
        return chain_after(chain, fields.entry_index, fields.term, body) == fields.chain

    def _is_good(self, place: int) -> bool:
        fields = self._headers[place]
        body = self._data[place + HEADER_BYTES : place + HEADER_BYTES + fields.body_length]
        return len(body) == fields.body_length and crc32c(body) == fields.body_checksum
