"""
Tables of a file that have names of their own, `[tls.NAME]`, `[jwt.NAME]`: read one by one.

Invariants:
    Each mistake is told with its line; a table that has one is not there for what asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from holdfast.config.lines import KeyPath
from holdfast.config.members import check_name
from holdfast.config.reading import shown_key

TABLES_MAX: Final = 64

Made = TypeVar("Made")


class Mistakes:
    """Where mistakes in tables are told, each with its line."""

    def __init__(self, lines: Mapping[KeyPath, int], file_name: str, problems: list[str]) -> None:
        """Tell them in `problems`; the lines are those of the keys of the file of that name."""
        self._lines = lines
        self._file_name = file_name
        self._problems = problems

    def report(self, path: KeyPath, sentence: str) -> None:
        """Tell of one, at the nearest place that has a line."""
        found = (self._lines.get(path[:size]) for size in range(len(path), 0, -1))
        line = next((it for it in found if it is not None), None)
        place = self._file_name if line is None else f"{self._file_name} line {line}"
        self._problems.append(f"{shown_key('.'.join(path))}: {sentence} ({place})")


def read_named(
    kind: str,
    table: object,
    mistakes: Mistakes,
    *,
    value: Callable[[str, object], object],
    unfit: Callable[[Mapping[str, Any]], Iterable[str]],
) -> dict[str, dict[str, Any] | None]:
    """
    Read the tables of a kind by their names; one that has a mistake stands as None.

    Args:
        kind: What stands before the dot.
        table: What the file has of it.
        mistakes: Is told of them.
        value: Gives the value of a key as the settings have it, or raises ValueError.
        unfit: Says of a table whose values are right what is missing, or given to no use.
    """
    form = f"is a table: write [{kind}.NAME] and its keys below it"
    made: dict[str, dict[str, Any] | None] = {}
    if not isinstance(table, Mapping):
        mistakes.report((kind,), form)
        return made
    if len(table) > TABLES_MAX:
        mistakes.report((kind,), f"{len(table):,} tables; allowed: at most {TABLES_MAX}")
        return made
    for name, said in table.items():
        if not isinstance(said, Mapping):
            mistakes.report((kind, name), form)
            made[name] = None
            continue
        made[name] = _read((kind, name), said, mistakes, value, unfit)
    return made


def _read(
    path: tuple[str, str],
    said: Mapping[str, object],
    mistakes: Mistakes,
    value: Callable[[str, object], object],
    unfit: Callable[[Mapping[str, Any]], Iterable[str]],
) -> dict[str, Any] | None:
    faults: list[tuple[KeyPath, str]] = []
    values: dict[str, Any] = {}
    try:
        check_name(path[1])
    except ValueError as error:
        faults.append((path, str(error)))
    for key, inner in said.items():
        try:
            values[key] = value(key, inner)
        except ValueError as error:
            faults.append(((*path, key), str(error)))
    if not faults:
        faults += [(path, it) for it in unfit(values)]
    for where, sentence in faults:
        mistakes.report(where, sentence)
    return None if faults else values
