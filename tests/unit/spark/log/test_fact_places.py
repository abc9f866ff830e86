"""The layouts of facts as arrays are the codec's; what it refuses is refused here."""

from __future__ import annotations

import struct

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.record import RECORD_HEADER
from holdfast.spark.log.fact_places import _MEASURES, HEADS
from holdfast.spark.log.record_table import MessageRows, RecordTable
from holdfast.store import fact_blocks
from holdfast.store.fact_blocks import (
    ATTRIBUTES,
    DUE,
    FACT_FLAGS,
    FORM,
    HOPS,
    ORIGIN,
    PLACES,
    SKIPS,
)
from holdfast.store.record_codec import MESSAGE
from trials.pipeline.written_log import EACH_FACT, block_of, knowing, message


def test_the_heads_are_the_codecs() -> None:
    """A change of a layout must change both; each kind is in both, in the same order."""
    codecs = {
        ATTRIBUTES: fact_blocks.ATTRIBUTES_BLOCK,
        DUE: fact_blocks.DUE_BLOCK,
        PLACES: fact_blocks.COUNT,
        SKIPS: fact_blocks.COUNT,
        FORM: fact_blocks.FORM_BLOCK,
        HOPS: fact_blocks.HOP_COUNT,
        ORIGIN: fact_blocks.ORIGIN_HEAD,
    }
    assert {bit: it.size for bit, it in codecs.items()} == {
        bit: head.itemsize for bit, head in HEADS.items()
    }
    assert sorted(_MEASURES) == list(_MEASURES) == list(HEADS)
    assert sum(HEADS) == FACT_FLAGS


@pytest.mark.parametrize(
    ("flags", "blocks"),
    [
        (PLACES, b"\0\0"),
        (PLACES, b"\2\0" + bytes(12)),
        (SKIPS, b"\0\0"),
        (SKIPS, b"\xff\xff\0"),
        (FORM, b"\x40"),
        (FORM, b"\x07"),
        (HOPS, b"\3" + bytes(12)),
        (ORIGIN, b"\xff" + bytes(4)),
        (ORIGIN, b"\1\xff\xff\0\0"),
        (DUE, bytes(7)),
        (0x200, b""),
        (0x8000 | DUE, bytes(8)),
    ],
)
@pytest.mark.parametrize("is_last", [True, False])
def test_what_the_codec_refuses_is_refused(flags: int, blocks: bytes, is_last: bool) -> None:
    """In its words, with the entry; wherever the buffer ends."""
    payload = struct.pack("<IQHHIQ", 1, 1, 0, 0, 0, 0) + blocks
    bad = RECORD_HEADER.pack(MESSAGE, flags, 0, len(payload)) + payload
    block = block_of((KIND_RECORDS, bad), *([] if is_last else [[message(1, 2, bytes(99))]]))
    block._headers = block._headers.copy()
    block._headers["record_count"][0] = 1
    with pytest.raises(CorruptRecordError, match="entry 1: message record at byte 8"):
        MessageRows(RecordTable(block))


def test_one_bad_message_among_good_ones_is_found() -> None:
    """Its facts must not shift those of the others."""
    good = block_of([knowing(message(1, n), *EACH_FACT) for n in range(1, 5)])
    rows = MessageRows(RecordTable(good))
    buffer = bytearray(good.buffer)
    buffer[int(rows.fact_starts[2]) + 24] = 0  # Behind attributes and due: how many places.
    good.buffer = bytes(buffer)
    with pytest.raises(CorruptRecordError, match="it says that it has places, and has none"):
        MessageRows(RecordTable(good))
