"""
What a command shows a broker as a client, beside a name, by `--passcode-file`, or asked for.

Every command that takes `--passcode` takes these as well; they are added here, to all of them. What
is given on the command line itself does not stay there.

Invariants:
    No passcode stands in the list of processes but for a moment, in a log or in an error.
    Who shows none is asked for one only where he says who he is, and at a terminal.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.hidden_passwords import hide_passcode
from holdfast.environment.secret_files import TooLargeError, read_secret_file
from holdfast.errors import ConfigError
from holdfast.model.limits import KiB

FILE_BYTES_MAX: Final = 16 * KiB
"""A token of an issuer may have some KiB."""

_FILE: Final = "holdfast.passcode_file"


def _say_file(context: typer.Context, path: Path | None) -> None:
    if path is not None:
        context.meta[_FILE] = path


def _find(context: typer.Context, passcode: str | None) -> str | None:
    """Give what is shown, by whichever way it was said; the command line before the environment."""
    if context.resilient_parsing:
        return passcode
    source = context.get_parameter_source("passcode")
    is_argument = source is not None and source.name == "COMMANDLINE"
    if is_argument:
        hide_passcode()
    path = context.meta.get(_FILE)
    if path is not None and passcode and is_argument:
        raise ConfigError(["give --passcode or --passcode-file, not both"])
    if path is not None:
        return read_passcode(path)
    login = context.params.get("login")
    if passcode is None and login and sys.stdin.isatty():
        asked: str = typer.prompt(
            f"Passcode of {login} (empty: none)",
            hide_input=True,
            default="",
            show_default=False,
            err=True,
        )
        return asked or None
    return passcode


def read_passcode(path: Path) -> str:
    """
    Read a passcode from a file.

    Raises:
        ConfigError: It cannot be read, or holds none.
    """
    try:
        content = read_secret_file(path, FILE_BYTES_MAX)
        passcode = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError([f"passcode_file: {path} cannot be read: {error.strerror}"]) from error
    except (TooLargeError, UnicodeDecodeError):
        passcode = ""
    if not passcode or not passcode.isprintable():
        expected = f"one line of 1 to {FILE_BYTES_MAX:,} bytes, in UTF-8"
        raise ConfigError([f"passcode_file: {path} has no passcode; expected: {expected}"])
    return passcode


Passcode = Annotated[
    str | None,
    typer.Option(
        "--passcode",
        envvar="HOLDFAST_PASSCODE",
        callback=_find,
        help="Better from --passcode-file: here others may read it for a moment.",
    ),
]


def _options(
    passcode_file: Annotated[
        Path | None,
        typer.Option(
            "--passcode-file",
            envvar="HOLDFAST_PASSCODE_FILE",
            metavar="FILE",
            is_eager=True,
            callback=_say_file,
            expose_value=False,
            help="A file with the password or token. With --login alone it is asked for.",
        ),
    ] = None,
) -> None:
    """Stand for a command, whose options are taken."""


def add_passcode_file(command: Any) -> None:
    """Let a command, and all below it, take the option where it takes `--passcode`."""
    if "passcode" in {it.name for it in command.params}:
        app = typer.Typer(add_completion=False)
        app.command()(_options)
        command.params.extend(typer.main.get_command(app).params)
    for inner in getattr(command, "commands", {}).values():
        add_passcode_file(inner)
