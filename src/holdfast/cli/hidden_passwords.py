"""
Keeps a password that was given on the command line out of the list of processes.

Every user of a machine sees the arguments of every process. A command that was given an address
with a password starts itself anew, under the same process id, with the address in its environment,
which only the same user sees. It stood there for a moment: a file or a variable never shows it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.config.store_url import hidden

VARIABLES: Final = {"--store": "HOLDFAST_STORE", "--elector": "HOLDFAST_ELECTOR"}
"""Flags whose values may have a password, and the variable that says the same."""

OF_PIPELINE: Final = {
    "--store": "HOLDFAST_READ_STORE",
    "--to-store": "HOLDFAST_RESTORE_TO_STORE",
}
"""The same of commands on Spark: what is set for a broker names no place to read or to write."""


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
    kept: list[str] = []
    addresses: dict[str, list[str]] = {}
    given = iter(arguments)
    for argument in given:
        flag, is_one, value = argument.partition("=")
        if flag in variables:
            addresses.setdefault(flag, []).append(value if is_one else next(given, ""))
        else:
            kept.append(argument)
    if all(hidden(it) == it for each in addresses.values() for it in each):
        return None
    said = {variables[flag]: " ".join(each) for flag, each in addresses.items()}
    return kept, {**environment, **said}


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


def hide_places(places: Mapping[str, str]) -> None:
    """The same where places are arguments by themselves; see `without_places`."""
    _begin_anew(without_places(sys.orig_argv, os.environ, places))


def _begin_anew(found: tuple[list[str], dict[str, str]] | None) -> None:
    if found is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, *found)  # noqa: S606 - the very same program
