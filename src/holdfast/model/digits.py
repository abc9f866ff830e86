"""
Numbers that others write, in digits or in JSON, read strictly.

`int()` takes more than a protocol means: signs, spaces, underscores, the digits of any script, and
so many of them that it fails. What can be written in two ways may be understood in two ways, so
whatever comes from outside is read here.
"""

from __future__ import annotations

from typing import Final

DIGITS_MAX: Final = 19
"""Of 2^63-1."""

NAME_DIGITS: Final = 20
"""A file that is named for an entry of the log has so many in its name, with zeros in front."""

WHOLE_END: Final = 1 << 63
"""A ballot, a record and a message have room for whole numbers below this one."""


def read_digits(text: str | bytes, digits_max: int = DIGITS_MAX) -> int | None:
    """The number that these digits from 0 to 9 say; None if there is anything else, or nothing."""
    if text.isascii() and text.isdigit() and len(text) <= digits_max:
        return int(text)
    return None


def read_count(text: str | bytes) -> int | None:
    """The number from 1 on that these digits say, and that a record has room for; else None."""
    number = read_digits(text)
    return number if number and number < WHOLE_END else None


def read_whole(value: object, *, least: int = 0) -> int:
    """
    A whole number out of JSON, for which a ballot and a message have room.

    Raises:
        TypeError: It is something else: a text, a number with a fraction, true.
        ValueError: It is out of all bounds.
    """
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    if not least <= value < WHOLE_END:
        raise ValueError(f"a number of {value.bit_length()} bits is out of all bounds")
    return value
