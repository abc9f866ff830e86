"""
On which line of a TOML file each key stands.

`tomllib` reads what a file says and not where. This finds the lines of keys again in a text that it
has read: tables, keys with dots and quotes, and what lies within strings and lists of several lines
is no key.

A path is a tuple of names: a name may have dots in it, where it is quoted, and is then another key
than that of the same letters in a section.

Invariants:
    Used on a text that is TOML; of anything else what it finds means nothing, and nothing raises.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

_KEY_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY: Final = rf"{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*"
_HEADER: Final = re.compile(rf"[ \t]*\[\[?[ \t]*({_KEY})[ \t]*\]\]?")
_ASSIGNMENT: Final = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_PART: Final = re.compile(_KEY_PART)
_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|'
    r"'''.*?'''|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'|"
    r"\#[^\n]*|"
    r"[\[\]{}]|\n",
    re.DOTALL,
)

_NAMES_MAX: Final = 4
"""So many names of a path are told apart: settings have two, a path may be as long as a file."""

KeyPath: TypeAlias = tuple[str, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1 on, on which each key and table is given first, by its path."""
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for line, start in _statements(text):
        header = _HEADER.match(text, start)
        if header is not None:
            path = table = _names(header[1])
        else:
            assignment = _ASSIGNMENT.match(text, start)
            if assignment is None:
                continue
            path = (*table, *_names(assignment[1]))[:_NAMES_MAX]
        for length in range(len(path), len(table) if header is None else 0, -1):
            found.setdefault(path[:length], line)
    return found


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Line and place of each line that begins outside of strings and lists."""
    line, depth = 1, 0
    yield 1, 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "[{":
            depth += 1
        elif word in "]}":
            depth = max(0, depth - 1)
        line += word.count("\n")
        if word == "\n" and depth == 0:
            yield line, token.end()


def _names(key: str) -> KeyPath:
    return tuple(_name(part[0]) for part in islice(_PART.finditer(key), _NAMES_MAX))


def _name(part: str) -> str:
    if part[0] not in "\"'":
        return part
    if part[0] == '"' and "\\" in part:
        try:
            return str(tomllib.loads(f"k = {part}")["k"])
        except tomllib.TOMLDecodeError:
            pass  # Then the text is no TOML either.
    return part[1:-1]
