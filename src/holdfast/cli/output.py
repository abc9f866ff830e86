"""
What the commands write: tables for people, JSON for programs.

Standard output carries the result and nothing else, so that it can be piped; questions and errors
go to standard error. A table in a pipe is as wide as it needs to be and has no colours.

Names and headers are what clients and files say, and may hold what a terminal obeys, or bytes that
are no text. Whatever is written for people goes through `printable`.

What draws is imported when there is something to draw: it takes longer than most commands.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_FAILED = 1
"""The exit code of a command that has not done what it was asked for."""

PIPE_COLUMNS = 240

_TERMINAL_VARIABLES: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""By these rich may be told that what is none is a terminal."""

_TO_LOOK_AT: Final = re.compile(r"[^\n\t\x20-\x7e]")
"""What may be no character to be seen; a line's end and a tab may stand in what is written."""

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def console() -> Console:
    """Standard output, wide enough not to fold a table when nobody watches."""
    from rich.console import Console

    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def error_console() -> Console:
    """Standard error, for progress."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def watched_console(*, is_quiet: bool = False) -> Console | None:
    """Standard error, to draw progress on; None where nobody watches, or nobody wants to."""
    if is_quiet or not (sys.stderr.isatty() or any(map(os.environ.get, _TERMINAL_VARIABLES))):
        return None
    found = error_console()
    return found if found.is_terminal else None


def printable(text: str) -> str:
    """The same in one line, with an escape for each character that is not there to be seen."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() else _escaped(it) for it in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _echo(text: str, *, err: bool = False) -> None:
    """Write lines for people."""
    typer.echo(_TO_LOOK_AT.sub(lambda found: printable(found[0]), text), err=err)


def write_json(value: object) -> None:
    """One JSON document, indented for people who look at it anyway."""
    typer.echo(json.dumps(value, indent=2))


def write_lines(lines: Iterable[str]) -> None:
    """Several lines at once: each call flushes, which is slow for a line."""
    if text := "\n".join(lines):
        _echo(text)


def json_line(value: object) -> str:
    """One JSON document in one line."""
    return json.dumps(value, separators=(",", ":"))


def write_line(text: str) -> None:
    """One line of the result."""
    _echo(text)


def write_error(text: str) -> None:
    """One line that is not the result."""
    _echo(text, err=True)


def tell_own_view(answer: Mapping[str, Any]) -> None:
    """Tell that a node answered what its leader should have, by what it knows itself, and why."""
    if why := answer.get("own_view"):
        write_error(
            f"note: this is what {answer.get('node', 'the node')} knows by itself, which may be"
            f" behind: {why}"
        )


def confirm(question: str, *, is_stated: bool, must_be_stated: bool = False) -> None:
    """
    Ask a person whether what cannot be undone is meant; a script has nobody to ask.

    Args:
        must_be_stated: A script has to state it, and is refused where it does not.

    Raises:
        Exit: With EXIT_FAILED, if it is not.
        Abort: Nobody could be asked, and it must be stated.
    """
    is_asked = not is_stated and (must_be_stated or sys.stdin.isatty())
    if is_asked and not typer.confirm(question, err=True):
        raise typer.Exit(EXIT_FAILED)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns whose name ends in `#` hold numbers and are set flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        is_number = column.endswith("#")
        table.add_column(column.removesuffix("#"), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(Text(format_cell(cell)) for cell in row))
    return table


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, see `make_table`."""
    console().print(make_table(columns, rows))


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair per line, values aligned."""
    pairs = [(name, format_cell(value)) for name, value in fields]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        typer.echo(f"{name:<{width}}  {value}".rstrip())


def format_cell(value: object) -> str:
    """A value as people read it: unknown is a hyphen, whole numbers have separators."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def format_size(count: int | None) -> str:
    """A number of bytes in powers of 1024."""
    if count is None:
        return "-"
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_SIZE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count:,} B" if unit == 0 else f"{size:,.1f} {_SIZE_UNITS[unit]}"


def format_seconds(seconds: float | None) -> str:
    """A duration in the two units that matter."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
