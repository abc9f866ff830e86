"""
Files that hold a secret: how they are read, and who else of this machine can read them.

Passwords, tokens, private keys and the cluster's secret lie in files that an operator has put
there. One rule says who may read such a file: its owner, and its group where the file is root's, as
`root:holdfast 0640` lets a service read what it cannot change. A file that others cannot get at,
as nobody else may pass one of the directories above it, is as good.

What an operator has put there is used all the same, and told of: a node that does not start again
after an upgrade, at night, is worse than a warning. What Holdfast has made itself is refused, by
the same bits, where it is read (`pepper`, `node_user`): somebody has changed it.

Invariants:
    No sentence repeats what stands in a file.
    A file is told of once by a process for each mode that it is found with.
"""

from __future__ import annotations

import grp
import logging
import os
import stat
from pathlib import Path
from typing import Final

logger = logging.getLogger("holdfast.secrets")

_ROOT: Final = 0
_TOLD_MAX: Final = 1_000
"""Files are named by operators and programs, which may name ever others."""

_told: set[str] = set()


class TooLargeError(Exception):
    """It is another file than the one that was meant, or has no end."""


def read_secret_file(path: Path, bytes_max: int) -> bytes:
    """
    Give what such a file holds, and tell who else can read it. A pipe is read as well.

    Raises:
        OSError: It cannot be read.
        TooLargeError: It holds more.
    """
    with path.open("rb") as file:
        tell_of_readers(path, os.fstat(file.fileno()))
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise TooLargeError
    return content


def tell_of_readers(path: Path, found: os.stat_result | None = None) -> None:
    """
    Log it where others can read a file whose secret somebody else reads for us, as OpenSSL does.

    Args:
        path: Where it is; nothing is said of one that is not there.
        found: Of the open file, where it is open.
    """
    sentence = why_exposed(path, found)
    if sentence and sentence not in _told and len(_told) < _TOLD_MAX:
        _told.add(sentence)
        logger.warning("%s", sentence)


def why_exposed(path: Path, found: os.stat_result | None = None) -> str:
    """Say that others of this machine can read a secret or put another in its place; or nothing."""
    try:
        found = found or path.stat()
        if not stat.S_ISREG(found.st_mode) or not (who := others_of(found)):
            return ""
        if not is_in_reach(path, is_of_all=is_for_all(found)):
            return ""
    except (OSError, RuntimeError):  # Whoever reads it says so; links may lead round in a circle.
        return ""
    return (
        f"{path} holds a secret, and {who} can get at it (mode {stat.S_IMODE(found.st_mode):04o}):"
        f" {_mend(path, found)}, and put another secret in its place if somebody may have read it"
    )


def _mend(path: Path, found: os.stat_result) -> str:
    """Say what keeps it from others, and not from who reads it now."""
    if found.st_uid == os.geteuid():
        return f"chmod 600 {path}"
    return f"chown root:{_group(os.getegid())} {path} && chmod 640 {path}"


def others_of(found: os.stat_result, *, is_own: bool = False) -> str:
    """
    Say who beside its owner may read or change a file by its mode; empty: nobody who must not.

    Args:
        found: Of the file.
        is_own: Holdfast has made it, so that no group has a part in it.
    """
    if is_for_all(found):
        return "every user of this machine"
    by_group = stat.S_IRGRP | stat.S_IWGRP
    if found.st_uid == _ROOT and not is_own:
        by_group = stat.S_IWGRP
    return f"its group {_group(found.st_gid)}" if found.st_mode & by_group else ""


def is_for_all(found: os.stat_result) -> bool:
    """Whether a file's mode lets everybody read or change it."""
    return bool(found.st_mode & (stat.S_IROTH | stat.S_IWOTH))


def is_in_reach(path: Path, *, is_of_all: bool) -> bool:
    """
    Whether others may pass all directories above a file: everybody, or at least some group.

    Raises:
        OSError: It is not there.
        RuntimeError: Its links lead round in a circle.
    """
    passing = stat.S_IXOTH if is_of_all else stat.S_IXGRP | stat.S_IXOTH
    return all(_mode_of(it) & passing for it in path.resolve(strict=True).parents)


def _mode_of(path: Path) -> int:
    return path.stat().st_mode


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
