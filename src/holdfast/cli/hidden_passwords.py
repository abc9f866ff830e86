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

_FLAG: Final = "--store"
VARIABLE: Final = "HOLDFAST_STORE"


def without_passwords(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]] | None:
    """
    Give the same call with its addresses in the environment; None if none of them has a password.

    Args:
        arguments: As the process was started, the interpreter's own included.
    """
    kept: list[str] = []
    addresses: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == _FLAG:
            addresses.append(next(given, ""))
        elif argument.startswith(f"{_FLAG}="):
            addresses.append(argument.partition("=")[2])
        else:
            kept.append(argument)
    if all(hidden(it) == it for it in addresses):
        return None
    return kept, {**environment, VARIABLE: " ".join(addresses)}


def hide_passwords() -> None:
    """Start this process anew if its arguments have a password; does not return then."""
    found = without_passwords(sys.orig_argv, os.environ)
    if found is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, *found)  # noqa: S606 - the very same program
