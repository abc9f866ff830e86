"""
What `holdfast mirror` does with the databases of stopped brokers: look at them, or let some go on.

The brokers are stopped, or wait: what is looked at is read like a broker reads it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli.output import (
    EXIT_FAILED,
    confirm,
    write_error,
    write_json,
    write_line,
    write_table,
)
from holdfast.mirrors.mirror_set import newest_of

if TYPE_CHECKING:
    from holdfast.raidb.accepting import FoundDatabases

_CLOSE_SECONDS = 2.0


def tell(urls: Sequence[str], *, as_json: bool, allow_unsafe: bool) -> None:
    """Say how each database is, and whether brokers start with them."""
    with _found(urls, allow_unsafe=allow_unsafe) as found:
        trouble = found.trouble()
        newest = newest_of(found.copies)
        named = found.databases.name
        rows: list[tuple[str, str, str]] = [
            (named(it), state, "" if it in found.copies else found.why_not(it))
            for it, state in newest.states
        ]
        rows += [
            (named(it), "of no set", "") for it, row in found.rows.items() if row.written is None
        ]
    if as_json:
        told = [{"directory": it[0], "state": it[1], "reason": it[2]} for it in rows]
        write_json({"mirrors": told, "starts": not trouble, "reason": trouble or None})
    else:
        write_table(("database", "state", "why"), rows)
        if trouble:
            write_error(trouble)
    if trouble:
        raise typer.Exit(EXIT_FAILED)


def accept(urls: Sequence[str], *, is_stated: bool, allow_unsafe: bool) -> None:
    """
    Let brokers go on with these databases alone, all of which have to answer.

    Raises:
        UnreachableError: One does not: it may be the one that has more.
    """
    with _found(urls, allow_unsafe=allow_unsafe) as found:
        trouble = found.trouble()
        if not trouble:
            write_line("nothing is missing: brokers start with these databases as they are")
            return
        found.require_answers()
        write_error(trouble)
        confirm("Are the others gone, for good?", is_stated=is_stated, must_be_stated=True)
        accepted = found.accept(secrets.token_hex(8), secrets.token_hex(16))
        left = found.databases.named(accepted.active)
    write_line(f"accepted: brokers go on with {left}; what comes back of the others is filled")


@contextmanager
def _found(urls: Sequence[str], *, allow_unsafe: bool) -> Iterator[FoundDatabases]:
    from holdfast.raidb.accepting import look_at
    from holdfast.raidb.opening import open_databases

    databases = open_databases(urls, allow_unsafe_place=allow_unsafe, own_directory=Path.cwd())
    try:
        yield look_at(databases)
    finally:
        databases.close(_CLOSE_SECONDS)
