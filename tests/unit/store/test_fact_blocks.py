"""
Facts as bytes: what of them makes no sense is refused with a sentence. Round trips: tests/property.
"""

from __future__ import annotations

import struct

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER
from holdfast.model.facts import (
    Attributes,
    BodyKind,
    Cause,
    Encoding,
    Form,
    Hops,
    MessageFacts,
    Origin,
    Place,
)
from holdfast.store.fact_blocks import (
    ATTRIBUTES,
    DUE,
    FACT_FLAGS,
    FORM,
    HOPS,
    ORIGIN,
    PLACES,
    SKIPS,
    decode_facts,
    encode_facts,
)
from holdfast.store.record_codec import MESSAGE, MESSAGE_FLAGS, PLAIN_FLAGS, decode_records

EACH = {
    ATTRIBUTES: MessageFacts(attributes=Attributes(expires_ms=9)),
    DUE: MessageFacts(due_ms=0),
    PLACES: MessageFacts(places=(Place(1, 2),)),
    SKIPS: MessageFacts(skips=b"\0"),
    FORM: MessageFacts(form=Form(Encoding.STOMP, BodyKind.NONE)),
    HOPS: MessageFacts(hops=Hops((), Place(0, 0))),
    ORIGIN: MessageFacts(origin=Origin(Cause.REJECTED, "", "")),
}


@pytest.mark.parametrize("bit", EACH)
def test_each_kind_of_fact_has_one_bit(bit: int) -> None:
    """Also a value of zero is set, and comes back."""
    flags, blocks = encode_facts(EACH[bit])
    assert flags == bit
    assert decode_facts(blocks, flags, 0, len(blocks)) == (EACH[bit], len(blocks))


def test_the_bits_are_apart() -> None:
    """One bit for each kind, none twice, and none that says something else."""
    assert sum(EACH) == FACT_FLAGS
    assert MESSAGE_FLAGS == FACT_FLAGS + PLAIN_FLAGS


@pytest.mark.parametrize("bit", EACH)
def test_a_block_that_is_cut_is_refused(bit: int) -> None:
    """Wherever the record ends inside it, whatever stands behind the record."""
    flags, blocks = encode_facts(EACH[bit])
    for end in range(len(blocks)):
        for behind in (b"", bytes(100)):
            with pytest.raises((ValueError, struct.error)):
                decode_facts(blocks[:end] + behind, flags, 0, end)


@pytest.mark.parametrize(
    ("flags", "blocks", "why"),
    [
        (PLACES, b"\0\0", "it says that it has places, and has none"),
        (SKIPS, b"\0\0", "it says that it has skips, and has none"),
        (FORM, b"\x40", "4 is not a valid Encoding"),
        (FORM, b"\x07", "7 is not a valid BodyKind"),
        (ORIGIN, b"\xff" + bytes(4), "255 is not a valid Cause"),
        (ORIGIN, b"\1\1\0\0\0\xff", "utf-8"),
        (DUE, bytes(7), "message record at byte 8 of its entry"),
    ],
)
def test_blocks_that_make_no_sense_are_named(flags: int, blocks: bytes, why: str) -> None:
    """The sentence says which record, where, and what is wrong with it."""
    payload = struct.pack("<IQHHIQ", 1, 1, 0, 0, 0, 0) + blocks
    record = RECORD_HEADER.pack(MESSAGE, flags, 0, len(payload)) + payload
    with pytest.raises(CorruptRecordError, match=rf"message record at byte 8 .*{why}|^{why}"):
        list(decode_records(record))
