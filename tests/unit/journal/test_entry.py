"""The entry's bytes: exact, checked, and the same on every node."""

from __future__ import annotations

import struct
from hashlib import blake2b

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptEntryError, TruncatedEntryError
from holdfast.journal.entry import (
    FIRST_CHAIN,
    FLAG_ZERO_END,
    FLAG_ZEROS,
    HEADER_BYTES,
    KIND_NOOP,
    Entry,
    chain_after,
    entry_bytes,
    parse_entry,
    parse_header,
    seal_entry,
    verify_chain,
)


def seal(*parts: bytes, index: int = 5, previous_chain: bytes = FIRST_CHAIN) -> Entry:
    return seal_entry(
        index=index,
        term=3,
        kind=KIND_NOOP,
        timestamp=1_000,
        first_record=17,
        record_count=len(parts),
        parts=list(parts),
        previous_chain=previous_chain,
    )


def test_the_layout_is_the_documented_one() -> None:
    """Every field stands where docs and other programs expect it, little endian."""
    body = b"hello world"
    entry = seal(b"hello ", b"world")
    body_hash = blake2b(body, digest_size=16).digest()
    linked = FIRST_CHAIN + struct.pack("<QQ", 5, 3) + body_hash
    chain = blake2b(linked, digest_size=16).digest()
    header = struct.pack("<4sHBBI", b"HFE1", 1, 1, 0, 0)
    header += struct.pack("<IQQQQII", google_crc32c.value(body), 5, 3, 1_000, 17, 2, 11) + chain
    checksum = struct.pack("<I", google_crc32c.value(header))
    assert entry.raw == header[:8] + checksum + header[12:] + body + bytes(5)
    assert len(entry.raw) == entry_bytes(11) == 88
    assert HEADER_BYTES == 72


def test_crc32c_is_the_hardware_implementation() -> None:
    """The checksum must not fall back to pure Python: it is on the hot path."""
    assert google_crc32c.implementation == "c"


def test_an_entry_tells_what_it_was_made_of() -> None:
    """Fields, body and the next record number read back."""
    entry = seal(b"ab", b"c")
    assert bytes(entry.body) == b"abc"
    assert entry.next_record == 19
    assert entry.flags == FLAG_ZERO_END
    assert "index=5" in repr(entry)
    assert entry == parse_entry(entry.raw)
    assert hash(entry) == hash(parse_entry(entry.raw))
    assert entry != "something else"


@pytest.mark.parametrize(
    ("body", "flags"),
    [
        (b"", FLAG_ZERO_END),
        (b"x" * 7, FLAG_ZERO_END),
        (b"x" * 8, 0),
        (b"x" + bytes(8), FLAG_ZERO_END),
        (b"x" + bytes(7), 0),
        (b"x" + bytes(511) + b"x" * 8, 0),
        (b"x" + bytes(512) + b"x" * 8, FLAG_ZEROS),
        (bytes(512), FLAG_ZEROS | FLAG_ZERO_END),
    ],
)
def test_the_flags_tell_recovery_about_zeros(body: bytes, flags: int) -> None:
    """512 zeros in a row, and zeros at the end, are announced: recovery relies on it."""
    assert seal(body).flags == flags


@given(st.lists(st.binary(max_size=700), max_size=5), st.binary(max_size=40))
def test_sealing_and_parsing_are_inverse(parts: list[bytes], before: bytes) -> None:
    """What is sealed is parsed to the same, wherever it stands in a buffer."""
    entry = seal(*parts)
    parsed = parse_entry(before + entry.raw + b"after", len(before))
    assert parsed == entry
    for name in Entry.__slots__:
        assert getattr(parsed, name) == getattr(entry, name)
    assert bytes(parsed.body) == b"".join(parts)
    assert parse_entry(memoryview(entry.raw)) == entry


@given(st.binary(max_size=100), st.data())
def test_any_flipped_bit_is_found(body: bytes, data: st.DataObject) -> None:
    """No single bit of an entry can change without an error, the padding included."""
    raw = bytearray(seal(body).raw)
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptEntryError):
        parse_entry(bytes(raw))


@given(st.binary(max_size=100), st.data())
def test_any_cut_is_found(body: bytes, data: st.DataObject) -> None:
    """An entry that is not there to its end is reported as cut short."""
    raw = seal(body).raw
    length = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(TruncatedEntryError):
        parse_entry(raw[:length])


def test_errors_name_reason_place_and_index() -> None:
    """With a good header the error tells which entry it is; without one, only where."""
    raw = bytearray(b"12345678" + seal(b"x" * 20).raw)
    raw[-5] ^= 1
    with pytest.raises(CorruptEntryError, match="body checksum is wrong at byte 8") as caught:
        parse_entry(bytes(raw), 8)
    assert (caught.value.index, caught.value.byte) == (5, 8)
    raw[20] ^= 1
    with pytest.raises(CorruptEntryError, match="header checksum") as caught:
        parse_entry(bytes(raw), 8)
    assert caught.value.index == 0
    with pytest.raises(CorruptEntryError, match="there is no entry"):
        parse_entry(bytes(100))


def test_an_unknown_version_is_refused_by_name() -> None:
    """A good checksum over a format that is not ours is no entry of ours."""
    raw = bytearray(seal(b"x").raw)
    raw[4:6] = (2).to_bytes(2, "little")
    raw[8:12] = bytes(4)
    raw[8:12] = google_crc32c.value(bytes(raw[:72])).to_bytes(4, "little")
    with pytest.raises(CorruptEntryError, match="version 2 is not known"):
        parse_header(bytes(raw))


def test_the_chain_tells_logs_apart() -> None:
    """Index, term, body and everything before change the chain value."""
    entry = seal(b"body")
    assert verify_chain(entry, FIRST_CHAIN)
    assert not verify_chain(entry, b"x" * 16)
    values = {
        chain_after(FIRST_CHAIN, 1, 1, b"a"),
        chain_after(FIRST_CHAIN, 2, 1, b"a"),
        chain_after(FIRST_CHAIN, 1, 2, b"a"),
        chain_after(FIRST_CHAIN, 1, 1, b"b"),
        chain_after(b"y" * 16, 1, 1, b"a"),
    }
    assert len(values) == 5


@pytest.mark.parametrize("length", [(1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3 << 18, 800_001])
def test_a_large_entry_is_checked_to_its_last_byte(length: int) -> None:
    """Its checksum is worked out in parts, as a copy of all of it would take longer than that."""
    entry = seal(b"x" * length)
    assert parse_entry(entry.raw) == entry
    for place in (0, (1 << 18) - 2, length // 2, length - 1):
        spoilt = bytearray(entry.raw)
        spoilt[HEADER_BYTES + place] ^= 1
        with pytest.raises(CorruptEntryError, match="body checksum"):
            parse_entry(spoilt)
