"""
Keeps a password that was given on the command line out of the list of processes.

Every user of a machine sees the arguments of every process. A command that was given an address
with a password, or a passcode, starts itself anew, under the same process id, with that in its
environment, which only the same user sees. It stood there for a moment: a file or a variable never
shows it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Mapping, Sequence
from typing import Final

from holdfast.config.store_url import hidden

VARIABLES: Final = {"--store": "HOLDFAST_STORE", "--elector": "HOLDFAST_ELECTOR"}
"""Flags whose values may have a password, and the variable that says the same."""

OF_PIPELINE: Final = {
    "--store": "HOLDFAST_READ_STORE",
    "--to-store": "HOLDFAST_RESTORE_TO_STORE",
}
"""The same of commands on Spark: what is set for a broker names no place to read or to write."""


OF_MIRRORS: Final = {
    "--store": "HOLDFAST_MIRROR_STORE",
    "--without": "HOLDFAST_MIRROR_WITHOUT",
}
"""The same of `holdfast mirror`, which asks a running broker where no databases are named."""

PASSCODE: Final = {"--passcode": "HOLDFAST_PASSCODE"}
"""What clients show is always a password, whatever it looks like."""


def without_passwords(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    variables: Mapping[str, str] = VARIABLES,
) -> tuple[list[str], dict[str, str]] | None:
    """
    Give the same call with its addresses in the environment; None if none of them has a password.

    Args:
        arguments: As the process was started, the interpreter's own included.
    """
    kept, given = _split(arguments, variables)
    if all(hidden(it) == it for each in given.values() for it in each):
        return None
    said = {variables[flag]: " ".join(each) for flag, each in given.items()}
    return kept, {**environment, **said}


def without_passcode(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]] | None:
    """Give the same call with the passcode in the environment; None if none is given."""
    kept, given = _split(arguments, PASSCODE)
    said = {PASSCODE[flag]: each[-1] for flag, each in given.items() if each[-1]}
    return (kept, {**environment, **said}) if said else None


def _split(
    arguments: Sequence[str], flags: Container[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Give the arguments without these flags, and what each of them was given."""
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    given = iter(arguments)
    for argument in given:
        flag, is_one, value = argument.partition("=")
        if argument == "--":  # No flag stands behind it.
            kept += [argument, *given]
        elif flag in flags:
            found.setdefault(flag, []).append(value if is_one else next(given, ""))
        else:
            kept.append(argument)
    return kept, found


def without_places(
    arguments: Sequence[str], environment: Mapping[str, str], places: Mapping[str, str]
) -> tuple[list[str], dict[str, str]] | None:
    """
    Give the same call with its places in the environment; None if no argument shows a password.

    Args:
        places: What stands among the arguments, each only as itself, by the variable for it.
    """
    if all(it not in arguments for it in places.values() if hidden(it) != it):
        return None
    kept = list(arguments)
    for place in places.values():
        if place in kept:
            # The last one: what a place is called may be the name of a program as well.
            del kept[len(kept) - 1 - kept[::-1].index(place)]
    return kept, {**environment, **places}


def hide_passwords(variables: Mapping[str, str] = VARIABLES) -> None:
    """Start this process anew if its arguments have a password; does not return then."""
    _begin_anew(without_passwords(sys.orig_argv, os.environ, variables))


def hide_passcode() -> None:
    """Start this process anew if its arguments have a passcode; does not return then."""
    _begin_anew(without_passcode(sys.orig_argv, os.environ))


def hide_places(places: Mapping[str, str]) -> None:
    """The same where places are arguments by themselves; see `without_places`."""
    _begin_anew(without_places(sys.orig_argv, os.environ, places))


def _begin_anew(found: tuple[list[str], dict[str, str]] | None) -> None:
    if found is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, *found)  # noqa: S606 - the very same program
