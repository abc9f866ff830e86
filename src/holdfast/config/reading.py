"""
One value as the operator wrote it, to one value of the right type and in its range.

pydantic checks each value by itself; its findings are told in our words, with what is allowed. How
values fit together is a matter of `relations` and `proportions`.

Invariants:
    The range in a sentence is the one that was checked.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from holdfast.config.catalogue import CATALOGUE, Setting
from holdfast.config.sizes import read_size
from holdfast.model.allowed import Allowed

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
        found = _adapter(setting.path).validate_python(value)
    except ValidationError as error:
        raise ValueError(_sentence(setting, dict(error.errors(include_url=False)[0]))) from None
    allowed = setting.allowed
    if allowed is not None and not _fits(found, allowed):
        raise ValueError(_out_of_range(value, setting))
    return found


@cache
def _adapter(path: str) -> TypeAdapter[Any]:
    setting = CATALOGUE[path]
    hint: Any = setting.hint
    if setting.unit:
        hint = Annotated[setting.type, BeforeValidator(_refuse_truth)]
        if setting.type is float:
            hint = Annotated[hint, Field(allow_inf_nan=False)]
        if setting.unit.startswith("bytes"):
            hint = Annotated[hint, BeforeValidator(read_size)]
    elif get_origin(hint) is Annotated:
        marks = tuple(it for it in get_args(hint)[1:] if not isinstance(it, Allowed))
        hint = Annotated[(setting.type, *marks)] if marks else setting.type
    return TypeAdapter(hint)


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
