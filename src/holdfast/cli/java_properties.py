r"""
Files of Java's properties, as ActiveMQ has users, groups and passwords in them.

    name=value      name: value      name value      # and ! begin comments

A backslash at the end of a line joins it with the next, `\u00e9` and its like stand for
characters, and the bytes are Latin-1 (java.util.Properties, `load`).

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACES: Final = " \t\f"
_ENTRY: Final = re.compile(
    r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL
)


class Property(NamedTuple):
    """One entry, and the line where it begins."""

    name: str
    value: str
    line: int


def read_properties(data: bytes) -> dict[str, Property]:
    """Read all entries by their names; of a name that comes again the last one counts."""
    found: dict[str, Property] = {}
    for number, line in _logical_lines(data.decode("latin-1")):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "it matches whatever there is"
        name = _unescaped(entry["name"])
        found[name] = Property(name, _unescaped(entry["value"]), number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Give what is neither empty nor a comment, joined, with the number of its first line."""
    gathered, begun_at = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_SPACES)
        if not begun_at and (not line or line[0] in "#!"):
            continue
        begun_at = begun_at or number
        behind = len(line) - len(line.rstrip("\\"))
        if behind % 2:
            gathered += line[:-1]
            continue
        yield begun_at, gathered + line
        gathered, begun_at = "", 0
    if begun_at:
        yield begun_at, gathered


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    escaped = found[1]
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _NAMED.get(escaped, escaped)
