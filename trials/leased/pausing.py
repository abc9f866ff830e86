"""
Pausing the holder of a log as a process, where that is what a story is about.

SQLite has its lock in the process that writes: one that is stopped in the middle of a transaction
keeps all others from writing for as long as it is stopped, and they can only wait (it ends with the
process). So a story about a lease that runs out pauses a holder of SQLite between two transactions.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing

from holdfast.testing.local_cluster import LocalNode

_SQLITE = "sqlite:///"
_TRIES_MAX = 200
_LOCK_SECONDS = 0.2
_PAUSE_SECONDS = 0.02


def pause(holder: LocalNode, flags: Sequence[str]) -> None:
    """
    Stop this broker (SIGSTOP), not in the middle of a transaction of SQLite.

    Args:
        flags: What its brokers were told of where the log is.
    """
    paths = [it.removeprefix(_SQLITE) for it in flags if it.startswith(_SQLITE)]
    for _ in range(_TRIES_MAX):
        holder.signal(signal.SIGSTOP)
        if all(map(_is_free, paths)):
            return
        holder.signal(signal.SIGCONT)
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError(f"{holder.name} was in a transaction each of {_TRIES_MAX} times")


def _is_free(path: str) -> bool:
    """Whether another process can begin to write."""
    with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.execute("ROLLBACK")
    return True
