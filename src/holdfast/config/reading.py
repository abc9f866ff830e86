"""
One value as the operator wrote it, to one value of the right type and in its range.

What is plain is read at once (`plain_values`). All else pydantic checks, each value by itself; its
findings are told in our words, with what is allowed. How values fit together is a matter of
`relations` and `proportions`.

Invariants:
    The range in a sentence is the one that was checked.
"""

from __future__ import annotations

import functools
import operator
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from holdfast.config.catalogue import CATALOGUE, Setting
from holdfast.config.plain_values import plain_value
from holdfast.config.read_with import ReadWith
from holdfast.config.sizes import read_size
from holdfast.model.allowed import Allowed

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SHOWN_MAX: Final = 80
"""So much of a wrong value is told again."""

_PATH_SHOWN_MAX: Final = 1024


def read_value(setting: Setting, value: object) -> Any:
    """
    Read what stands for a setting.

    Raises:
        ValueError: It may not stand there; the sentence says why, without the setting's name.
    """
    try:
        found = _read_plain(setting, value)
    except ValueError:
        found = _read_any(setting, value)
    allowed = setting.allowed
    if allowed is not None and not _fits(found, allowed):
        raise ValueError(_out_of_range(value, setting))
    return found


def _read_plain(setting: Setting, value: object) -> Any:
    """
    Read what needs no pydantic.

    Raises:
        ValueError: It does need it, if only to be told what is wrong.
    """
    if setting.unit.startswith("bytes"):
        value = read_size(value)
    return plain_value(setting.hint, value)


def _read_any(setting: Setting, value: object) -> Any:
    from pydantic import ValidationError  # noqa: PLC0415 - not for what is plain

    try:
        return _adapter(setting.path).validate_python(value)
    except ValidationError as error:
        raise ValueError(_sentence(setting, dict(error.errors(include_url=False)[0]))) from None


@functools.cache
def _adapter(path: str) -> TypeAdapter[Any]:
    from pydantic import BeforeValidator, Field, TypeAdapter  # noqa: PLC0415 - see above

    setting = CATALOGUE[path]
    hint: Any = setting.hint
    if setting.unit:
        hint = Annotated[setting.type, BeforeValidator(_refuse_truth)]
        if setting.type is float:
            hint = Annotated[hint, Field(allow_inf_nan=False)]
        if setting.unit.startswith("bytes"):
            hint = Annotated[hint, BeforeValidator(read_size)]
    else:
        hint = _with_validators(hint)
    return TypeAdapter(hint)


def _with_validators(hint: Any) -> Any:
    """The same hint as pydantic takes it; ranges are looked at afterwards."""
    from pydantic import BeforeValidator  # noqa: PLC0415 - see above

    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        return functools.reduce(operator.or_, map(_with_validators, get_args(hint)))
    if get_origin(hint) is not Annotated:
        return hint
    kind, *marks = get_args(hint)
    readers = [BeforeValidator(it.read) for it in marks if isinstance(it, ReadWith)]
    others = [it for it in marks if not isinstance(it, Allowed | ReadWith)]
    return Annotated[(kind, *readers, *others)] if readers or others else kind


def _refuse_truth(value: object) -> object:
    """`connections = true` is a mistake, and not a number."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def _fits(value: object, allowed: Allowed) -> bool:
    if isinstance(value, str):
        value = len(value.encode())
    assert isinstance(value, int | float), "a range is of a number, or of a text's length"
    return value >= allowed.least and (allowed.most is None or value <= allowed.most)


def _out_of_range(value: object, setting: Setting) -> str:
    length = "its length in bytes is " if setting.type is str else ""
    return f"{length}{_shown(value)} is out of range; allowed: {setting.allowed}"


def _sentence(setting: Setting, detail: dict[str, Any]) -> str:
    """One of pydantic's findings in our words: what is wrong, what is allowed."""
    if detail["type"] == "value_error":
        return _cut(str(detail["ctx"]["error"]), 4 * SHOWN_MAX)
    what = "is not a path" if detail["type"] == "path_type" else str(detail["msg"]).lower()
    sentence = f"{_shown(detail['input'], quote=True)}: {what}"
    return sentence + (f"; allowed: {setting.allowed}" if setting.allowed is not None else "")


def _shown(value: object, *, quote: bool = False) -> str:
    """A wrong value, shortened: it may be a whole file."""
    try:
        return _cut(repr(value) if quote else str(value), SHOWN_MAX)
    except ValueError:  # Python writes no number with more than 4,300 digits.
        return "a number of thousands of digits"


def shown_key(key: str) -> str:
    """A key as it can be told: it may be as long as a file, and hold what a terminal obeys."""
    return _cut(key if key.isprintable() else repr(key), SHOWN_MAX)


def shown_path(path: Path) -> str:
    """The same of a path, of which all is told that a system takes."""
    name = str(path)
    return _cut(name if name.isprintable() else repr(name), _PATH_SHOWN_MAX)


def _cut(text: str, length: int) -> str:
    """The beginning and the end: what is wrong with it stands there."""
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-length // 2 :]}"
