"""
The `holdfast` command: its groups, and how a failure ends.

Exit codes: 0 done, 1 refused or failed (for `store verify`: damage found), 2 used or configured
wrongly. A failure that Holdfast names is one line on standard error, a wrong configuration one line
per mistake. So is an answer of an admin port that is of another form than was asked for: whoever
listens there answers as he likes. A traceback is always a mistake of ours.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from holdfast import __version__
from holdfast.cli.commands import Commands
from holdfast.cli.login import forget
from holdfast.cli.output import EXIT_FAILED, write_error, write_line
from holdfast.cli.variables import unknown_variables
from holdfast.errors import ConfigError, HoldfastError

EXIT_USAGE = 2

_LAST_ANSWER = "holdfast.admin.last_answer"
"""Brought by whoever asks a node; most commands of clients ask none."""

_OF_ANOTHER_FORM = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of an answer without what is looked for in it, or with something else."""

app = typer.Typer(
    name="holdfast",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A message broker whose messages outlive the process, the disk and the machine.",
)


def main(arguments: list[str] | None = None) -> int:
    """
    Run one command and return its exit code.

    Raises:
        SystemExit: The command line ended the program itself, as after --help.
    """
    try:
        app(args=arguments)
    except ConfigError as error:
        for problem in error.problems:
            write_error(f"holdfast: {problem}")
        return EXIT_USAGE
    except (HoldfastError, OSError) as error:
        write_error(f"holdfast: {error}")
        return EXIT_FAILED
    except _OF_ANOTHER_FORM as error:
        reason = _unread(error)
        if not reason:
            raise
        write_error(f"holdfast: {reason}")
        return EXIT_FAILED
    finally:
        forget()
        if (answers := sys.modules.get(_LAST_ANSWER)) is not None:  # Else nobody was asked.
            answers.note_answer("")
    return 0


def _unread(error: Exception) -> str:
    """Say who answered what was not understood; empty: nobody was asked."""
    answers = sys.modules.get(_LAST_ANSWER)
    address = answers.last_answered() if answers is not None else ""
    if not address:
        return ""
    *_, innermost = traceback.extract_tb(error.__traceback__)
    where = f"{Path(innermost.filename).name}, line {innermost.lineno}"
    return (
        f"{address} does not answer like a Holdfast node of this version: look who listens there,"
        f" or use the node's own version ({type(error).__name__}: {error}; {where})"
    )


def _write_version(wanted: bool) -> None:
    if wanted:
        write_line(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_write_version, is_eager=True, help="And exit."),
    ] = False,
) -> None:
    """A message broker whose messages outlive the process, the disk and the machine."""
    forget()  # Whoever runs two commands in one process says for each who asks.
    if context.invoked_subcommand != "serve":  # which tells it in its log
        for variable in unknown_variables(os.environ, context):
            write_error(f"holdfast: warning: {variable}")
