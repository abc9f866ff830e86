"""
The columns that come out of a message's header lines.

A constant producer's messages all have the same header bytes, so a block of lines is decoded once
per distinct value and the columns are looked up from there.

Invariants:
    Every column has one row per message, in the order of the messages.
    Lines that are no STOMP headers give an error, never a missing header.

Pure: no disk, no clock.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from holdfast.errors import CorruptRecordError, RemoteProtocolError
from holdfast.protocols.stomp.codec import parse_headers
from holdfast.spark.columns.schema import STRING_MAP

PRIORITY_DEFAULT: Final = 4
_KEPT_MAX: Final = 4096
"""Distinct header blocks remembered; when there are more they are not worth remembering."""

_NAMES: Final = {
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "group_id": "JMSXGroupID",
}
HEADER_COLUMNS: Final = frozenset({*_NAMES, "persistent", "priority", "headers"})


class HeaderReader:
    """Decodes header blocks, each distinct one once. One per reading task; not thread-safe."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, str]] = {}

    def columns(self, blocks: pa.BinaryArray, names: set[str]) -> dict[str, pa.Array]:
        """
        Return the wanted columns for messages with these header blocks.

        Raises:
            CorruptRecordError: A block is not made of header lines.
        """
        encoded = blocks.dictionary_encode()
        distinct = [self._decode(lines) for lines in encoded.dictionary.to_pylist()]
        rows = encoded.indices
        is_all_distinct = len(distinct) == len(rows)
        found: dict[str, pa.Array] = {}
        for name in names:
            values = _column(name, distinct)
            found[name] = values if is_all_distinct else values.take(rows)
        return found

    def _decode(self, lines: bytes) -> dict[str, str]:
        headers = self._known.get(lines)
        if headers is None:
            try:
                # The codec takes a whole head: a command first, then the lines.
                headers = parse_headers(b"\n" + lines, "1.2")
            except RemoteProtocolError as error:
                raise CorruptRecordError(f"the headers of a message: {error}") from error
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[lines] = headers
        return headers


def _column(name: str, distinct: list[dict[str, str]]) -> pa.Array:
    if name == "headers":
        return _map(distinct)
    if name == "persistent":
        return pa.array([it.get("persistent") != "false" for it in distinct], pa.bool_())
    if name == "priority":
        return pa.array([_priority(it.get("priority")) for it in distinct], pa.int32())
    header = _NAMES[name]
    return pa.array([it.get(header) for it in distinct], pa.string())


def _priority(text: str | None) -> int:
    if text is None or len(text) != 1 or not "0" <= text <= "9":
        return PRIORITY_DEFAULT
    return int(text)


def _map(distinct: list[dict[str, str]]) -> pa.Array:
    offsets = [0]
    keys: list[str] = []
    values: list[str] = []
    for headers in distinct:
        keys += headers.keys()
        values += headers.values()
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(keys, pa.string()),
        pa.array(values, pa.string()),
        type=STRING_MAP,
    )
