"""
The values of a selector, and what comes of two of them.

A value is a text, a number, a truth, or None: unknown, which a header is that is not there. The
headers of STOMP are texts, so a text that meets a number is read as one, and a text that meets a
truth as that.

Invariants:
    What is asked of something unknown is unknown.
    Nothing here raises: arithmetic that has no result is unknown.
    No value grows: numbers have 64 bits, and a text joined of parts has a limit.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

Number: TypeAlias = int | float
Value: TypeAlias = str | bool | int | float | None
Truth: TypeAlias = bool | None
Ordering: TypeAlias = Callable[[Number, Number], bool]

INTEGER_MAX: Final = (1 << 63) - 1
INTEGER_MIN: Final = -(1 << 63)

JOINED_CHARACTERS_MAX: Final = 8192
"""A text joined of others that would be longer is unknown: a thousand joins must not be dear."""

_NUMBER_CHARACTERS_MAX: Final = 100
"""No text that is longer is read as a number: the longest that says anything has about 30."""

_CACHED_COUNT: Final = 1024
_is_number = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII
).fullmatch
_TRUTHS: Final = {"true": True, "false": False}


def number_of(text: str) -> Number | None:
    """Give the number that a text says, as an int or a float; None if it says none."""
    return _read_number(text) if len(text) <= _NUMBER_CHARACTERS_MAX else None


@lru_cache(_CACHED_COUNT)
def _read_number(text: str) -> Number | None:
    # Looked at first: Python reads more than numbers, `nan`, `1_000` and other scripts' digits.
    if not _is_number(text):
        return None
    try:
        whole = int(text)
    except ValueError:
        pass
    else:
        if INTEGER_MIN <= whole <= INTEGER_MAX:
            return whole
    decimal = float(text)
    return decimal if math.isfinite(decimal) else None


def truth_of(text: str) -> Truth:
    """Give the truth that a text says, in any case; None if it says none."""
    return _TRUTHS.get(text.lower()) if len(text) <= len("false") else None


def equals(left: Value, right: Value) -> Truth:
    """Whether two values are equal; those of kinds that do not meet are not."""
    if left is None or right is None:
        return None
    if type(left) is type(right):
        return left == right
    if isinstance(left, bool) or isinstance(right, bool):
        return _truth(left) is _truth(right)
    number, other = _number(left), _number(right)
    return number is not None and number == other


def _truth(value: Value) -> Truth | str:
    """Give a value as a truth, or something that is none."""
    if isinstance(value, bool):
        return value
    truth = truth_of(value) if isinstance(value, str) else None
    return "none" if truth is None else truth


def _number(value: Value) -> Number | None:
    if isinstance(value, str):
        return number_of(value)
    return None if isinstance(value, bool) else value


def ordered(test: Ordering, left: Value, right: Value) -> Truth:
    """Whether two numbers stand so; False if they are none, and texts among each other are none."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return False
    first, second = _number(left), _number(right)
    return first is not None and second is not None and test(first, second)


def calculated(sign: str, left: Value, right: Value) -> Value:
    """
    Give a sum, a difference, a product, a quotient or a remainder; None where there is none.

    Of two whole numbers each is a whole number, cut off towards zero, as in Java and SQL. A sum of
    two texts is both, joined.
    """
    if left is None or right is None:
        return None
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > JOINED_CHARACTERS_MAX:
            return None
        return left + right
    first, second = _number(left), _number(right)
    if first is None or second is None:
        return None
    return _calculations[sign](first, second)


def negated(value: Value) -> Value:
    """Give a number with its sign changed; None of what is none."""
    return calculated("-", 0, value) if not isinstance(value, float) else -value


def _bounded(calculate: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Value]:
    def within_bounds(first: Number, second: Number) -> Value:
        result = calculate(first, second)
        if isinstance(result, int):
            return result if INTEGER_MIN <= result <= INTEGER_MAX else None
        return result if math.isfinite(result) else None

    return within_bounds


def _quotient(first: Number, second: Number) -> Number:
    if not second:
        return math.nan
    if isinstance(first, int) and isinstance(second, int):
        whole = abs(first) // abs(second)
        return whole if (first < 0) == (second < 0) else -whole
    return first / second


def _remainder(first: Number, second: Number) -> Number:
    if not second:
        return math.nan
    if isinstance(first, int) and isinstance(second, int):
        rest = abs(first) % abs(second)
        return -rest if first < 0 else rest
    return math.fmod(first, second)


_calculations: dict[str, Callable[[Number, Number], Value]] = {
    "+": _bounded(operator.add),
    "-": _bounded(operator.sub),
    "*": _bounded(operator.mul),
    "/": _bounded(_quotient),
    "%": _bounded(_remainder),
}
"""Python's floats overflow to infinity and raise nothing, and 64 bits fit any float."""
