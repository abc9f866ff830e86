"""A body that comes in pieces gives the very entry that it gives at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import (
    FIRST_CHAIN,
    HEADER_BYTES,
    Entry,
    parse_entry,
    parse_header,
    seal_entry,
    verify_chain,
)
from holdfast.journal.entry_body import BodyDigest, EntryBody

FIELDS = {
    "index": 5,
    "term": 3,
    "kind": 0,
    "timestamp": 1_000,
    "first_record": 17,
    "record_count": 2,
    "previous_chain": FIRST_CHAIN,
}

PIECES = st.lists(
    st.one_of(
        st.binary(max_size=700),
        st.integers(0, 1100).map(bytes),
        st.integers(1, 600).map(lambda count: b"x" * count),
    ),
    max_size=8,
)
"""Zeros in runs that are cut anywhere, among them."""


def gathered(pieces: list[bytes], expected: int) -> EntryBody:
    body = EntryBody(expected)
    for piece in pieces:
        body.add(piece)
    return body


@given(PIECES, st.integers(0, 5000))
def test_the_entry_is_the_same_byte_by_byte(pieces: list[bytes], expected: int) -> None:
    """
    Header, flags for zeros and padding too, whether more or less was expected.
    """
    entry = gathered(pieces, expected).seal(**FIELDS)  # type: ignore[arg-type]
    at_once = seal_entry(parts=pieces, **FIELDS)  # type: ignore[arg-type]
    assert entry.raw == at_once.raw
    assert (entry.chain, entry.body_length) == (at_once.chain, at_once.body_length)
    assert verify_chain(entry, FIRST_CHAIN)


def received(raw: bytes, pieces: list[bytes], padding: bytes) -> Entry:
    body = gathered(pieces, sum(map(len, pieces)))
    return body.take_whole(raw[:HEADER_BYTES], parse_header(raw), padding)


@given(PIECES)
def test_a_received_entry_is_what_was_sent(pieces: list[bytes]) -> None:
    """
    As `parse_entry` gives it, with the hash of its body at hand.
    """
    sent = seal_entry(parts=pieces, **FIELDS)  # type: ignore[arg-type]
    entry = received(sent.raw, pieces, sent.raw[HEADER_BYTES + sent.body_length :])
    assert entry == parse_entry(sent.raw)
    assert entry.body_hash
    assert verify_chain(entry, FIRST_CHAIN)
    assert not verify_chain(entry, b"another chain..!")


def test_what_was_damaged_on_the_way_is_refused() -> None:
    """
    One byte of the body, or of the padding.
    """
    sent = seal_entry(parts=[b"hello"], **FIELDS)  # type: ignore[arg-type]
    with pytest.raises(CorruptEntryError, match="body checksum"):
        received(sent.raw, [b"hellO"], bytes(3))
    with pytest.raises(CorruptEntryError, match="padding"):
        received(sent.raw, [b"hello"], b"\0\0\1")


def test_a_digest_needs_no_memory_for_the_body() -> None:
    """
    Both checksums are those of the entry.
    """
    sent = seal_entry(parts=[b"hello ", b"world"], **FIELDS)  # type: ignore[arg-type]
    digest = BodyDigest()
    for piece in (b"hello", b" world"):
        digest.add(piece)
    assert digest.checksum == parse_header(sent.raw).body_checksum
    assert digest.length == 11
    body = EntryBody(0)
    body.add(b"hello world")
    assert digest.body_hash() == body.seal(**FIELDS).body_hash  # type: ignore[arg-type]
