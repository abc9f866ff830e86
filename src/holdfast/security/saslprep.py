"""
Names and passwords as SASL compares them (SASLprep, RFC 4013): one text, however it was typed.

Two keyboards may send the same password as different code points. SCRAM's two sides never see each
other's text, so both bring theirs into one form first.

Pure.
"""

from __future__ import annotations

import stringprep
from typing import Final
from unicodedata import ucd_3_2_0

_PROHIBITED: Final = (
    stringprep.in_table_a1,  # Not assigned in Unicode 3.2: what they will be equal to is not known.
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)
"""RFC 4013, 2.3 and 2.5."""


def prepare(text: str) -> str | None:
    """Give a text in the form in which it is compared; None: there is none of it."""
    if text.isascii():
        return text if text.isprintable() else None
    # RFC 4013, 2.1 and 2.2.
    mapped = "".join(
        " " if stringprep.in_table_c12(it) else it for it in text if not stringprep.in_table_b1(it)
    )
    found = ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_in(it) for it in found for is_in in _PROHIBITED) or not _has_one_direction(found):
        return None
    return found


def _has_one_direction(text: str) -> bool:
    """Whether it is read from one side only (RFC 3454, 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    is_mixed = any(map(stringprep.in_table_d2, text))
    return not is_mixed and all(map(stringprep.in_table_d1, (text[0], text[-1])))
