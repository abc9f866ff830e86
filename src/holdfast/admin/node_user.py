"""
Whose file is taken for a node's on this machine, where only who answers says which file that is.

Any user of the machine can listen where a node is stopped, and name a file that he has made. So a
file counts only if it is of the caller's own user, which no other can make: who runs commands as
the node's user has the node's files. Root can read everybody's, and that the process which listens
there has the file's owner shows nothing to him, since both can be a stranger's. He goes by who owns
/var/lib/holdfast, which nobody but root can have made or given to somebody, or by what he says
himself in HOLDFAST_NODE_USER.

Who listens there must then be of that user, too, or root: so what another program of that user has
unpacked somewhere is of no use to whoever knows what stands in it.

Invariants:
    Nothing that a user without rights can make on this machine is taken for a node's.
"""

from __future__ import annotations

import os
import stat

from holdfast.environment.listeners import listeners_users
from holdfast.environment.node_users import (
    ROOT,
    STATE_DIRECTORY,
    VARIABLE,
    name_of,
    named,
    owner_by_root,
)
from holdfast.environment.secret_files import others_of


def why_not_taken(found: os.stat_result, folder: os.stat_result, place: tuple[str, int]) -> str:
    """
    Say why a file is not taken for the one of the node that listens at a place; empty: it is.

    Args:
        found: Of the open file itself.
        folder: Of the open directory that it was opened in.
    """
    owner = found.st_uid
    if owner not in _nodes_users():
        name = name_of(owner)
        return (
            f"it belongs to user {name}, who may be anybody: run this as the node's user, or if"
            f" the node runs as {name}, say so by {VARIABLE}={name}"
        )
    if others_of(found, is_own=True):
        return f"others than its owner may use it (mode {stat.S_IMODE(found.st_mode):04o})"
    if folder.st_uid not in (owner, ROOT):
        return f"its directory belongs to user {name_of(folder.st_uid)}, not to its owner"
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "everybody may write into its directory"
    listening = listeners_users(*place)
    if listening is None or (listening and listening <= {owner, ROOT}):
        return ""
    if not listening:
        return f"no process of this machine is known to listen at {place[0]} port {place[1]}"
    others = ", ".join(sorted(name_of(it) for it in listening - {owner, ROOT}))
    return f"who listens at {place[0]} port {place[1]} is user {others}, not {name_of(owner)}"


def _nodes_users() -> set[int]:
    """As whom a node may run whose files this process believes."""
    caller = os.geteuid()
    known = {caller}
    said = os.environ.get(VARIABLE, "")
    if said:
        known |= named(said)
    elif caller == ROOT:
        known |= owner_by_root(STATE_DIRECTORY)
    return known
