"""
On which line of a TOML file each key stands.

`tomllib` reads what a file says and not where. This finds the lines of keys again in a text that it
has read: tables, keys with dots and quotes, and what lies within strings and lists of several lines
is no key.

Invariants:
    Used on a text that is TOML; of anything else what it finds means nothing, and nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

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


def key_lines(text: str) -> dict[str, int]:
    """The line, from 1 on, on which each key is given first, by its path with dots."""
    found: dict[str, int] = {}
    table = ""
    for line, start in _statements(text):
        header = _HEADER.match(text, start)
        if header is not None:
            table = _path(header[1])
            found.setdefault(table, line)
            continue
        assignment = _ASSIGNMENT.match(text, start)
        if assignment is not None:
            key = _path(assignment[1])
            found.setdefault(f"{table}.{key}" if table else key, line)
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


def _path(key: str) -> str:
    return ".".join(part[1:-1] if part[0] in "\"'" else part for part in _PART.findall(key))
