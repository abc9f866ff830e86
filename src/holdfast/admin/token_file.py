"""
The token that proves to a node that its own user asks, and the file it lies in.

A node makes a new one at each start and puts it in its data directory, where only the node's user
may read it. A command on the same machine is told the file's place when it is refused, reads it,
and asks again: nobody types anything, and whoever cannot read the node's files cannot act for it.

The file also names the address of the port that it is for. A program that pretends to be a node
can therefore not be sent the token of another: it would have to listen where that one does.
"""

from __future__ import annotations

import os
import secrets
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Final

FILE_NAME: Final = "admin-token"

_FIRST_LINE: Final = "holdfast admin token, version 1"
_BYTES_MAX: Final = 1024
_TOKEN_BYTES: Final = 32


def new_token() -> str:
    """Make a token nobody can guess."""
    return secrets.token_hex(_TOKEN_BYTES)


def write_token(directory: Path, host: str, port: int, token: str) -> Path:
    """
    Put the token of the port at this address into its file, for the own user only.

    Raises:
        OSError: It cannot be written.
    """
    path = directory / FILE_NAME
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{_FIRST_LINE}\n{host} {port}\n{token}\n")
    draft.replace(path)
    return path


def read_token(path: Path, host: str, port: int) -> str:
    """
    Read the token for the port at this address; empty if the file is none of its.

    The path may come from a stranger: nothing is read but a small regular file of that name, and
    nothing of it is given away that is not a token for exactly this address.

    Raises:
        OSError: It cannot be read.
    """
    if path.name != FILE_NAME or not path.is_absolute():
        return ""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        lines = os.read(descriptor, _BYTES_MAX).decode("ascii", "replace").split("\n")
    finally:
        os.close(descriptor)
    if len(lines) != 4 or lines[0] != _FIRST_LINE:
        return ""
    bound, _, bound_port = lines[1].partition(" ")
    return lines[2] if bound_port == str(port) and _is_at(bound, host) else ""


def _is_at(bound: str, host: str) -> bool:
    """Whether a port bound to `bound` is what answers at `host`, both addresses."""
    try:
        listens, asked = ip_address(bound), ip_address(host)
    except ValueError:
        return False
    return listens.is_unspecified or listens == asked
