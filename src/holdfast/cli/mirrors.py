"""
`holdfast mirror`: the directories of a node that has several, or the databases that hold its log.

`status` asks a running node, or looks into what a stopped one has; `disable`, `enable` and
`replace` are asked of a running node, that one and no other, and of databases the one that holds
the lease; `accept` is for stopped nodes of which too few directories or databases are left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import databases
from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    YesOption,
    read_status,
    to_ask,
    to_change,
)
from holdfast.cli.hidden_passwords import OF_MIRRORS, hide_passwords, hide_places
from holdfast.cli.output import (
    EXIT_FAILED,
    confirm,
    format_size,
    write_error,
    write_json,
    write_line,
    write_table,
)
from holdfast.config.store_url import hidden
from holdfast.environment.bounded_disk import BoundedDisk
from holdfast.environment.disk import RealDisk
from holdfast.errors import MirrorError
from holdfast.mirrors.found import FoundAll, look, peek
from holdfast.mirrors.lanes import ThreadLanes
from holdfast.mirrors.mirror_set import Start, newest_of
from holdfast.mirrors.opening import accept_found

mirror = typer.Typer(
    no_args_is_help=True, help="The directories or databases of a node that has several."
)

_SECONDS_MORE = 10.0
"""How much longer than for another one a directory is waited for that does not answer."""

_PLACE_VARIABLE = "HOLDFAST_MIRROR_PLACE"
_NEW_VARIABLE = "HOLDFAST_MIRROR_NEW"

_Directories = Annotated[
    list[Path] | None,
    typer.Option("--data", metavar="DIR", help="Of a stopped node; once for each."),
]
_Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=OF_MIRRORS["--store"],
        show_envvar=False,
        help="Of stopped brokers; once for each database.",
    ),
]
_Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="DIR|URL",
        envvar=OF_MIRRORS["--without"],
        show_envvar=False,
        help="One of those given that is gone for good; once for each.",
    ),
]
_Place = Annotated[
    str,
    typer.Argument(
        metavar="DIR|URL",
        envvar=_PLACE_VARIABLE,
        show_envvar=False,
        help="As the node knows it, or a folder from this one.",
    ),
]
_Unsafe = Annotated[
    bool,
    typer.Option("--allow-unsafe", help="Open a file of SQLite also where others may reach it."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(mirror, name="mirror")


@mirror.command("status")
def status(
    data: _Directories = None,
    store: _Stores = None,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    allow_unsafe: _Unsafe = False,
) -> None:
    """Tell how each mirror is; with --data or --store, what stands in those of stopped nodes."""
    hide_passwords(OF_MIRRORS)
    if store:
        databases.tell(store, as_json=json, allow_unsafe=allow_unsafe)
        return
    if data:
        found_all = peek([it.absolute() for it in data], RealDisk(), ThreadLanes(_SECONDS_MORE))
        _tell_found(found_all, as_json=json)
        return
    found = read_status(to_ask(admin)).store.mirrors
    if json:
        write_json({"mirrors": [vars_of(it) for it in found]})
        return
    if not found:
        write_line(
            "this node has one directory: start it with --data for each of several, or with --store"
            " for each of several databases"
        )
        return
    rows = [
        (it.directory, it.state, _progress(it.bytes_filled, it.bytes_to_fill, it.state), it.reason)
        for it in found
    ]
    write_table(("directory", "state", "filled", "why"), rows)


@mirror.command("disable")
def disable(
    directory: _Place,
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Go on without a mirror, until it is enabled."""
    hide_places({_PLACE_VARIABLE: directory})
    _change("disable", directory, admin, secret_file)
    write_line(
        f"{hidden(directory)} is not written any more; 'holdfast mirror enable' fills it again"
    )


@mirror.command("enable")
def enable(
    directory: _Place,
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Fill a mirror that failed or was disabled, or a new and empty directory."""
    hide_places({_PLACE_VARIABLE: directory})
    _change("enable", directory, admin, secret_file)
    write_line(f"{hidden(directory)} is being filled; 'holdfast mirror status' tells how far it is")


@mirror.command("replace")
def replace(
    directory: _Place,
    by: Annotated[
        str,
        typer.Argument(
            metavar="NEW",
            envvar=_NEW_VARIABLE,
            show_envvar=False,
            help="An empty directory, or a database of this broker.",
        ),
    ],
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Take a mirror that failed out of the set for good, and fill another one instead."""
    hide_places({_PLACE_VARIABLE: directory, _NEW_VARIABLE: by})
    _change("replace", directory, admin, secret_file, by=_whole(by))
    write_line(f"{hidden(by)} is filled; name it in place of {hidden(directory)} from now on")


@mirror.command("accept")
def accept(
    data: _Directories = None,
    store: _Stores = None,
    without: _Without = None,
    yes: YesOption = False,
    allow_unsafe: _Unsafe = False,
) -> None:
    """Let stopped nodes go on with these alone; what only others had is given up."""
    hide_passwords(OF_MIRRORS)
    if store:
        left = _left_of(store, without or [], hidden)
        databases.accept(left, is_stated=yes, allow_unsafe=allow_unsafe)
        return
    if not data:
        write_error(
            "holdfast: name each directory that is left with --data, or each database with --store"
        )
        raise typer.Exit(EXIT_FAILED)
    left = _left_of(map(str, data), without or [], _whole)
    _accept_directories([Path(it).absolute() for it in left], is_stated=yes)


def _left_of(
    given: Iterable[str], without: Iterable[str], name_of: Callable[[str], str]
) -> list[str]:
    """
    What is left of what was given.

    Raises:
        MirrorError: What is said to be gone was not given, or nothing is left.
    """
    left = {name_of(it): it for it in given}
    for it in map(name_of, without):
        if left.pop(it, None) is None:
            known = ", ".join(sorted(left)) or "all of them are gone by that"
            raise MirrorError(f"{it} is none of those that were given: {known}")
    if not left:
        raise MirrorError("nothing is left of what was given: there is nothing to go on with")
    return list(left.values())


def _accept_directories(directories: Sequence[Path], *, is_stated: bool) -> None:
    _require_members(_not_there(directories))
    found = look(directories, lambda _path: RealDisk(), ThreadLanes(_SECONDS_MORE))
    try:
        copies = found.copies
        if not copies and not any(it.problem for it in found.each):
            raise MirrorError(
                f"{directories[0]} is no mirror of a set, so nothing is missing: a node starts on"
                f" it alone"
            )
        _require_members({it.directory: it.problem for it in found.each if it.member not in copies})
        try:
            Start(copies)
        except MirrorError as error:
            write_error(str(found.named(error)))
        else:
            write_line("nothing is missing: the node starts with these directories as they are")
            return
        confirm("Are the others gone, for good?", is_stated=is_stated, must_be_stated=True)
        accepted = accept_found(found, secrets.token_hex(8))
    finally:
        found.release()
    places = found.places()
    left = ", ".join(sorted(places.get(it, it) for it in accepted.active))
    write_line(f"accepted: start the node with {left}; what comes back of the others is filled")


def _not_there(directories: Sequence[Path]) -> dict[Path, str]:
    """Those that are not there, or do not answer, and then why; nothing is made."""
    others: dict[Path, str] = {}
    for directory in directories:
        disk = BoundedDisk(RealDisk(), directory)
        disk.seconds = _SECONDS_MORE
        try:
            if not disk.exists(directory):
                others[directory] = ""
        except OSError as error:
            others[directory] = f"{directory} cannot be looked at: {error.strerror or error}"
    return others


def _require_members(others: Mapping[Path, str]) -> None:
    """
    See that each directory that was named can be gone on with: it may be the one that has more.

    Args:
        others: Those that cannot, and why, where that is known.

    Raises:
        MirrorError: There is one.
    """
    if others:
        told = "; ".join(
            problem or f"{directory} holds no mirror: see that its disk is mounted"
            for directory, problem in others.items()
        )
        gone = " ".join(f"--without {it}" for it in others)
        raise MirrorError(
            f"{told}. It may have what the others lack, so nothing was changed: if it is gone for"
            f" good, or is a new one, say so by {gone}"
        )


def _change(action: str, directory: str, admin: str, secret_file: Path | None, **more: str) -> None:
    body: dict[str, Any] = {"action": action, "directory": _whole(directory), **more}
    to_change(admin, secret_file).change("POST", "/mirrors", body)


def _whole(place: str) -> str:
    """A directory by its whole path; a database as it is."""
    return place if "://" in place else str(Path(place).absolute())


def _progress(done: int, total: int, state: str) -> str:
    if state != "joining":
        return ""
    return f"{format_size(done)} of {format_size(total)}"


def vars_of(status: Any) -> dict[str, Any]:
    """The fields of a mirror's status, for programs."""
    return {name: getattr(status, name) for name in type(status).__dataclass_fields__}


def _tell_found(found: FoundAll, *, as_json: bool) -> None:
    """What stands in directories, and whether a node starts with them."""
    copies, trouble = found.copies, ""
    rows: list[tuple[str, str, str]] = []
    try:
        newest = newest_of(copies) if copies else None
        if newest is not None:
            Start(copies)
    except MirrorError as error:
        trouble = str(found.named(error))
        newest = None
    newest = newest or max(copies.values(), key=lambda it: it.number, default=None)
    places = found.places()
    rows += [(str(it.directory), "of no set", it.problem) for it in found.each if not it.member]
    for member, state in newest.states if newest is not None else ():
        why = "" if member in copies else "it was not given"
        rows.append((places.get(member, member), state, why))
    if as_json:
        told = [{"directory": it[0], "state": it[1], "reason": it[2]} for it in rows]
        write_json({"mirrors": told, "starts": not trouble, "reason": trouble or None})
    else:
        write_table(("directory", "state", "why"), rows)
        if trouble:
            write_error(trouble)
    if trouble:
        raise typer.Exit(EXIT_FAILED)
