"""Tables with names of their own: each mistake with its line, and what is right stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.config.named_tables import TABLES_MAX, Mistakes, read_named

LINES = {("kind",): 1, ("kind", "a"): 2, ("kind", "a", "key"): 3}


def read(table: object) -> tuple[dict[str, dict[str, Any] | None], list[str]]:
    """What is read of a table whose values are whole numbers, and what is told."""

    def value(key: str, inner: object) -> object:
        if not isinstance(inner, int):
            raise ValueError(f"{key} is no number")
        return inner

    def unfit(values: Mapping[str, Any]) -> list[str]:
        return [] if "key" in values else ["key is missing"]

    problems: list[str] = []
    mistakes = Mistakes(LINES, "h.toml", problems)
    return read_named("kind", table, mistakes, value=value, unfit=unfit), problems


def test_tables_are_read_by_their_names() -> None:
    """What has a mistake stands as nothing, so that who names it is not told again."""
    made, problems = read({"a": {"key": "x"}, "b": {"key": 7}, "c": {}, "d": 3})
    assert made == {"a": None, "b": {"key": 7}, "c": None, "d": None}
    assert problems == [
        "kind.a.key: key is no number (h.toml line 3)",
        "kind.c: key is missing (h.toml line 1)",
        "kind.d: is a table: write [kind.NAME] and its keys below it (h.toml line 1)",
    ]


def test_what_is_no_table_of_tables_is_told_once() -> None:
    """Also where it has more than anybody means."""
    assert read(3)[1] == [
        "kind: is a table: write [kind.NAME] and its keys below it (h.toml line 1)"
    ]
    made, problems = read({f"n{number}": {} for number in range(TABLES_MAX + 1)})
    assert not made
    assert problems == ["kind: 65 tables; allowed: at most 64 (h.toml line 1)"]


def test_a_name_is_a_name() -> None:
    """What could not be said on a line is told of."""
    made, problems = read({"x y": {"key": 1}})
    assert made == {"x y": None}
    assert "a name has 1 to 63 letters" in problems[0]
