"""
Values that say by themselves what they are, read without pydantic.

To import pydantic, and to have it make ready for each setting, each flag or each answer of a node,
takes a node a tenth of its start and a command two fifths. Nearly all that is ever written needs
nothing of it: `7`, `0.5`, `info`, a name, a path, an answer that has what it should.

Invariants:
    What is read here is what pydantic would have made of it.
    Whatever is not certain to be right is not read here: pydantic reads it, or says what is wrong.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from holdfast.config.read_with import ReadWith

_WHOLE: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_WHOLE_MAX: Final = 10**15


class UnreadError(ValueError):
    """It is not certain what this means."""


def plain_text(value: object) -> str:
    """
    A text as it is.

    Raises:
        UnreadError: It is none, or was made of bytes that are none.
    """
    if type(value) is not str:
        raise UnreadError
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnreadError from None
    return value


def plain_whole(value: object) -> int:
    """
    A whole number, or one that is written as such.

    Raises:
        UnreadError: It is none, or is written in another way.
    """
    if type(value) is int:
        return value
    if type(value) is not str or _WHOLE.fullmatch(value) is None:
        raise UnreadError
    return int(value)


def plain_decimal(value: object) -> float:
    """
    The same of a number with or without a fraction.

    Raises:
        UnreadError: It is none, or is written in another way.
    """
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and -_WHOLE_MAX < value < _WHOLE_MAX:
        return float(value)
    if type(value) is not str or _DECIMAL.fullmatch(value) is None:
        raise UnreadError
    return float(value)


def plain_value(kind: Any, value: object) -> Any:
    """
    A value of a kind that a setting, or a field of an answer, may have.

    Raises:
        ValueError: What it is read by refuses it, or it is not certain that it is one.
    """
    single = _SINGLE.get(kind)
    if single is not None:
        return single(value)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return plain_value(parts[0], _read_with(parts[1:], value))
    if origin in {types.UnionType, Union}:
        return _one_or_none(parts, value)
    if origin is Literal:
        return _listed(parts, value)
    if origin is tuple:
        return _several(parts, value)
    if origin is list and type(value) is list:
        return [plain_value(parts[0], it) for it in value]
    if origin in {dict, Mapping} and type(value) is dict:
        return {plain_value(parts[0], k): plain_value(parts[1], it) for k, it in value.items()}
    if isinstance(kind, type) and type(value) is kind:
        return value
    if is_dataclass(kind) and type(value) is dict:
        return _record(kind, value)
    raise UnreadError


def _truth(value: object) -> bool:
    if type(value) is not bool:
        raise UnreadError
    return value


def _path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(plain_text(value))


_SINGLE: Final[dict[Any, Callable[[object], Any]]] = {
    str: plain_text,
    int: plain_whole,
    float: plain_decimal,
    bool: _truth,
    Path: _path,
}


def _record(kind: Any, values: dict[str, Any]) -> Any:
    """An object with fields, which has what it should; what a later version adds is left out."""
    hints = _hints(kind)
    found = {
        name: plain_value(hint, values[name]) for name, hint in hints.items() if name in values
    }
    try:
        return kind(**found)
    except TypeError:  # a field is missing
        raise UnreadError from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {it.name: hints[it.name] for it in fields(kind) if it.init}


def _read_with(marks: tuple[Any, ...], value: object) -> object:
    for mark in marks:
        if isinstance(mark, ReadWith):
            value = mark.read(value)
    return value


def _one_or_none(kinds: tuple[Any, ...], value: object) -> Any:
    others = [it for it in kinds if it is not types.NoneType]
    if value is None and len(others) < len(kinds):
        return None
    if len(others) != 1:
        raise UnreadError
    return plain_value(others[0], value)


def _listed(words: tuple[Any, ...], value: object) -> Any:
    if type(value) is not str or value not in words:
        raise UnreadError
    return value


def _several(kinds: tuple[Any, ...], value: object) -> Any:
    if not isinstance(value, tuple | list):
        raise UnreadError
    if kinds[1:] == (...,):
        return tuple(plain_value(kinds[0], it) for it in value)
    if len(kinds) != len(value):
        raise UnreadError
    return tuple(plain_value(kind, it) for kind, it in zip(kinds, value, strict=True))
