"""
What a POLICY record has behind its head: whose word it is, of which destinations, and what it says.

Layout: revision (u64), length of the pattern (u16), pattern, values.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from holdfast.model.records import PolicyRecord

_STATE: Final = struct.Struct("<QH")
"""revision, length of the pattern."""


def encode_policy(record: PolicyRecord) -> bytes:
    """Give the payload of its record."""
    pattern = record.pattern.encode()
    return _STATE.pack(record.revision, len(pattern)) + pattern + record.values.encode()


def decode_policy(payload: bytes) -> PolicyRecord:
    """
    Give a policy by the payload of its record.

    Raises:
        ValueError, struct.error, UnicodeDecodeError: It makes no sense.
    """
    revision, length = _STATE.unpack_from(payload)
    end = _STATE.size + length
    if end > len(payload):
        raise ValueError("its pattern is cut off")
    pattern, values = payload[_STATE.size : end].decode(), payload[end:].decode()
    if not pattern and (values or not revision):
        raise ValueError("it has no pattern")
    if values and not is_json_object(values):
        raise ValueError("its values are no object in JSON")
    return PolicyRecord(pattern, values, revision)


def is_json_object(text: str) -> bool:
    """Whether a text is an object in JSON."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
