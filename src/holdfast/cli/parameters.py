"""
What stands on the command line and is plain is read without pydantic.

typer has pydantic read every value, also of the options that nobody gave. Why that is too dear, and
what is plain, stands in `config.plain_values`.

Invariants:
    A value is read here as typer would have read it; `tests/unit/cli/test_parameters.py` compares.
    Whatever is not certain to be right is typer's to read, and to say what is wrong with it. So are
    parameters of which more is asked than a kind and a range.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from holdfast.config.plain_values import UnreadError, plain_decimal, plain_text, plain_whole

_NO_MATTER: Final = frozenset({
    *("default", "default_factory", "param_decls", "metavar", "envvar", "help", "hidden"),
    *("show_default", "show_choices", "show_envvar", "rich_help_panel", "autocompletion"),
    *("callback", "is_eager", "expose_value", "is_flag", "min", "max"),
})  # fmt: skip
"""What may be said of a parameter whose values are read here: all but the range is of other things,
or comes after reading."""

_Read = Callable[[Any], Any]


def read_plainly(command: Any) -> None:
    """Let a command, and all below it, read without pydantic what is plain."""
    parameters_of = command.get_params
    # Not only `params`: --help and what installs completions are added later.
    command.get_params = lambda context: [plain(it) for it in parameters_of(context)]
    for inner in getattr(command, "commands", {}).values():
        read_plainly(inner)


def plain(parameter: Any) -> Any:
    """Let a parameter be read without pydantic where that may be, and return it."""
    # typer before 0.26 has no descriptor, and reads without pydantic.
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is not None and _is_simple(descriptor.parameter_info):
        parameter.get_runtime_param = _Plain(parameter, descriptor).itself
    return parameter


def _is_simple(information: Any) -> bool:
    """Whether nothing was said of a parameter that changes how its values are read."""
    usual = vars(type(information)(default=None))
    return all(
        value == usual.get(name)
        for name, value in vars(information).items()
        if name not in _NO_MATTER
    )


class _Plain:
    """Stands before what typer reads a parameter's values with."""

    def __init__(self, parameter: Any, descriptor: Any) -> None:
        self._typers = functools.partial(type(parameter).get_runtime_param, parameter)
        kind = descriptor.annotation
        self._is_several = parameter.multiple or parameter.nargs == -1
        if self._is_several:
            kind = get_args(kind)[0] if get_origin(kind) is list else None
        self._read = _reader(kind, descriptor.parameter_info)

    def itself(self) -> _Plain:
        """Typer asks for what reads when there is something to read."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read a value as typer would."""
        try:
            if not self._is_several:
                return None if value is None else self._read(value)
            return () if value is None else self._read_all(value)
        except UnreadError:
            return self._typers().coerce(value, param=param, ctx=ctx)

    def _read_all(self, values: Any) -> list[Any]:
        if not isinstance(values, list | tuple):
            raise UnreadError
        return [self._read(it) for it in values]


def _reader(kind: Any, information: Any) -> _Read:
    """Give what reads one value of a kind."""
    if kind is str:
        return plain_text
    if kind is int:
        return lambda value: _in_range(plain_whole(value), information)
    if kind is float:
        return lambda value: _in_range(plain_decimal(value), information)
    if kind is Path:
        return _path
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return lambda value: _one_of(value, kind)
    return _unread


def _unread(value: Any) -> Any:
    raise UnreadError


def _in_range(number: Any, information: Any) -> Any:
    least, most = information.min, information.max
    if (least is not None and number < least) or (most is not None and number > most):
        raise UnreadError
    return number


def _path(value: Any) -> Path:
    path = value if isinstance(value, Path) else Path(plain_text(value))
    # One that is there must be readable; typer says so.
    if os.path.lexists(path) and not os.access(path, os.R_OK):
        raise UnreadError
    return path


def _one_of(value: Any, kind: type[enum.StrEnum]) -> Any:
    found = [it for it in kind if it == value]
    if type(value) not in {str, kind} or not found:
        raise UnreadError
    return found[0]
