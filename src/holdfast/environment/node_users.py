"""
As which users of this machine brokers run, where only the machine itself can say that.

Any user can listen at a port of loopback where nobody else does just now. Who that is the kernel
tells by his number. Whether it may be a broker's is judged here: by what root alone can have
arranged (a number of the system's range, who owns /var/lib/holdfast), or by what the caller says
himself in HOLDFAST_NODE_USER.

Invariants:
    Nothing that a user without rights can do on this machine makes him one of those.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Final

VARIABLE: Final = "HOLDFAST_NODE_USER"
"""Under this name it is said as which user the node runs."""

STATE_DIRECTORY: Final = Path("/var/lib/holdfast")
LOGIN_DEFINITIONS: Final = Path("/etc/login.defs")

ROOT: Final = 0
_OTHERS_WRITE: Final = 0o022

_UID_MIN: Final = 1_000
"""Where login.defs(5) does not say from which number on people are."""

_MADE_UP: Final = range(61_184, 65_520)
"""Of services to which systemd gives a user of their own (systemd.io/UIDS-GIDS)."""

_OVERFLOW: Final = 65_534
"""Nobody's, and of all who are not in our namespace of users."""


def ordinary_of(
    uids: frozenset[int], *, state: Path = STATE_DIRECTORY, definitions: Path = LOGIN_DEFINITIONS
) -> frozenset[int]:
    """
    Give which of them are people of this machine, and neither the caller nor a node's user.

    Root, users of the system and of its services are none; whoever runs as one of those has been
    let in by root. So are not those whom the kernel shows as one, as they are in another namespace.
    """
    others = uids - {ROOT, os.geteuid()}
    others = frozenset(it for it in others if it not in _MADE_UP and it != _OVERFLOW)
    if others and min(others) < (least := _uid_min(definitions)):
        others = frozenset(it for it in others if it >= least)
    if others:
        others -= named(os.environ.get(VARIABLE, ""))
    return others - owner_by_root(state) if others else others


def name_of(uid: int) -> str:
    """Give the name of a user, or his number if he has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def named(user: str) -> set[int]:
    """Give the number of a user who is said by name or number; nobody's if there is none."""
    if user.isascii() and user.isdecimal():
        return {int(user)}
    try:
        return {pwd.getpwnam(user).pw_uid}
    except (KeyError, ValueError):
        return set()


def owner_by_root(directory: Path) -> set[int]:
    """Give to whom root has given a directory; to nobody, where others could have made it."""
    try:
        real = directory.resolve(strict=True)
        above = [it.stat() for it in {*directory.parents, *real.parents}]
        found = real.stat()
    except (OSError, RuntimeError):
        return set()
    is_by_root = all(it.st_uid == ROOT and not it.st_mode & _OTHERS_WRITE for it in above)
    return {found.st_uid} if is_by_root and stat.S_ISDIR(found.st_mode) else set()


def _uid_min(definitions: Path) -> int:
    """Read from which number on people are."""
    try:
        text = definitions.read_text("utf-8", "replace")
    except OSError:
        return _UID_MIN
    for line in text.splitlines():
        key, _, value = line.strip().partition("UID_MIN")
        said = value.strip()
        if not key and value[:1].isspace() and said.isascii() and said.isdecimal():
            return int(said)
    return _UID_MIN
