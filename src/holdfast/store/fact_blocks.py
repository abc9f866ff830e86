"""
A message's facts to bytes and back: the blocks that stand before its headers.

Each kind of fact has a bit in the record's flags and, where that is set, a block; the blocks stand
in the order of their bits, after a producer's id. All integers are little endian. The layouts are
described in docs/reference/journal-format.md.

Invariants:
    decode_facts(encode_facts(facts)) gives equal facts.
    What one encoding of the same facts would not have (nothing set, reserved bits) is refused.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from typing import Any, Final

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

ATTRIBUTES: Final = 4
DUE: Final = 8
PLACES: Final = 16
SKIPS: Final = 32
FORM: Final = 64
HOPS: Final = 128
ORIGIN: Final = 256
FACT_FLAGS: Final = ATTRIBUTES | DUE | PLACES | SKIPS | FORM | HOPS | ORIGIN
"""What a message's flags may say beside how it was written and who numbered it."""

ATTRIBUTES_BLOCK: Final = struct.Struct("<QIBBH")
"""expires, group hash, priority, failures, repeats."""
DUE_BLOCK: Final = struct.Struct("<Q")
COUNT: Final = struct.Struct("<H")
"""Of places, or of bytes of skips."""
PLACE: Final = struct.Struct("<IQ")
FORM_BLOCK: Final = struct.Struct("<B")
HOP_COUNT: Final = struct.Struct("<B")
HOP: Final = struct.Struct("<I")
ORIGIN_HEAD: Final = struct.Struct("<BHH")
"""cause, length of the queue's name, length of the message id."""

_FLAGS: Final = struct.Struct("<H")

_Body = memoryview | bytes


def encode_facts(facts: MessageFacts) -> tuple[int, bytes]:
    """
    Give the flags and the blocks of these facts.

    Raises:
        struct.error: A number is larger than its field.
    """
    flags = 0
    parts: list[bytes] = []
    for bit, encode in _ENCODERS:
        block = encode(facts)
        if block:
            flags |= bit
            parts.append(block)
    return flags, b"".join(parts)


def decode_facts(body: _Body, flags: int, offset: int, end: int) -> tuple[MessageFacts, int]:
    """
    Read the blocks that `flags` tells of, from `offset` on; gives the byte after them too.

    Raises:
        ValueError, struct.error: They make no sense, or go beyond `end`.
    """
    found: dict[str, Any] = {}
    for bit, name, decode in _DECODERS:
        if flags & bit:
            found[name], offset = decode(body, offset)
            if offset > end:
                raise ValueError(f"its {name.removesuffix('_ms')} are cut off")
    return MessageFacts(**found), offset


def pack_facts(facts: MessageFacts) -> bytes:
    """Give the flags and the blocks in one, for whoever keeps facts outside of a record."""
    flags, blocks = encode_facts(facts)
    return _FLAGS.pack(flags) + blocks


def unpack_facts(packed: bytes) -> MessageFacts:
    """
    Read what `pack_facts` gave.

    Raises:
        ValueError, struct.error: It makes no sense.
    """
    (flags,) = _FLAGS.unpack_from(packed)
    if not flags or flags & ~FACT_FLAGS:
        raise ValueError(f"facts have flags {flags:#06x}, some of them unknown")
    facts, end = decode_facts(packed, flags, _FLAGS.size, len(packed))
    if end != len(packed):
        raise ValueError(f"facts of {end:,} bytes have {len(packed):,}")
    return facts


def _encode_attributes(facts: MessageFacts) -> bytes:
    return b"" if facts.attributes is None else ATTRIBUTES_BLOCK.pack(*facts.attributes)


def _encode_due(facts: MessageFacts) -> bytes:
    return b"" if facts.due_ms is None else DUE_BLOCK.pack(facts.due_ms)


def _encode_places(facts: MessageFacts) -> bytes:
    if not facts.places:
        return b""
    return COUNT.pack(len(facts.places)) + b"".join(PLACE.pack(*place) for place in facts.places)


def _encode_skips(facts: MessageFacts) -> bytes:
    return COUNT.pack(len(facts.skips)) + facts.skips if facts.skips else b""


def _encode_form(facts: MessageFacts) -> bytes:
    form = facts.form
    return b"" if form is None else FORM_BLOCK.pack(form.encoding << 4 | form.kind)


def _encode_hops(facts: MessageFacts) -> bytes:
    hops = facts.hops
    if hops is None:
        return b""
    clusters = b"".join(map(HOP.pack, hops.clusters))
    return HOP_COUNT.pack(len(hops.clusters)) + clusters + PLACE.pack(*hops.first)


def _encode_origin(facts: MessageFacts) -> bytes:
    origin = facts.origin
    if origin is None:
        return b""
    queue, message_id = origin.queue.encode(), origin.message_id.encode()
    return ORIGIN_HEAD.pack(origin.cause, len(queue), len(message_id)) + queue + message_id


_ENCODERS: Final[tuple[tuple[int, Callable[[MessageFacts], bytes]], ...]] = (
    (ATTRIBUTES, _encode_attributes),
    (DUE, _encode_due),
    (PLACES, _encode_places),
    (SKIPS, _encode_skips),
    (FORM, _encode_form),
    (HOPS, _encode_hops),
    (ORIGIN, _encode_origin),
)


def _decode_attributes(body: _Body, offset: int) -> tuple[Attributes, int]:
    fields = ATTRIBUTES_BLOCK.unpack_from(body, offset)
    return Attributes(*fields), offset + ATTRIBUTES_BLOCK.size


def _decode_due(body: _Body, offset: int) -> tuple[int, int]:
    (due,) = DUE_BLOCK.unpack_from(body, offset)
    return due, offset + DUE_BLOCK.size


def _decode_places(body: _Body, offset: int) -> tuple[tuple[Place, ...], int]:
    count, start = _count(body, offset, "places")
    end = start + count * PLACE.size
    return tuple(map(Place._make, PLACE.iter_unpack(_cut(body, start, end)))), end


def _decode_skips(body: _Body, offset: int) -> tuple[bytes, int]:
    count, start = _count(body, offset, "skips")
    return _cut(body, start, start + count), start + count


def _count(body: _Body, offset: int, what: str) -> tuple[int, int]:
    (count,) = COUNT.unpack_from(body, offset)
    if not count:
        raise ValueError(f"it says that it has {what}, and has none")
    return count, offset + COUNT.size


def _decode_form(body: _Body, offset: int) -> tuple[Form, int]:
    (form,) = FORM_BLOCK.unpack_from(body, offset)
    return Form(Encoding(form >> 4), BodyKind(form & 15)), offset + FORM_BLOCK.size


def _decode_hops(body: _Body, offset: int) -> tuple[Hops, int]:
    (count,) = HOP_COUNT.unpack_from(body, offset)
    start = offset + HOP_COUNT.size
    end = start + count * HOP.size
    clusters = array("I", _cut(body, start, end))
    return Hops(tuple(clusters), Place(*PLACE.unpack_from(body, end))), end + PLACE.size


def _decode_origin(body: _Body, offset: int) -> tuple[Origin, int]:
    cause, queue_length, id_length = ORIGIN_HEAD.unpack_from(body, offset)
    start = offset + ORIGIN_HEAD.size
    middle = start + queue_length
    end = middle + id_length
    queue, message_id = _cut(body, start, middle), _cut(body, middle, end)
    return Origin(Cause(cause), queue.decode(), message_id.decode()), end


def _cut(body: _Body, start: int, end: int) -> bytes:
    if end > len(body):
        raise ValueError("its facts are cut off")
    return bytes(body[start:end])


_DECODERS: Final[tuple[tuple[int, str, Callable[[_Body, int], tuple[Any, int]]], ...]] = (
    (ATTRIBUTES, "attributes", _decode_attributes),
    (DUE, "due_ms", _decode_due),
    (PLACES, "places", _decode_places),
    (SKIPS, "skips", _decode_skips),
    (FORM, "form", _decode_form),
    (HOPS, "hops", _decode_hops),
    (ORIGIN, "origin", _decode_origin),
)
