"""
What a database's errors mean to a log, whatever its driver calls them.

Each dialect says which fault an error of its driver is; here a fault becomes the error that the
contract names, with its one sentence. What is not known is taken as an unknown outcome: the same is
sent again, and the fence judges it.
"""

from __future__ import annotations

from enum import Enum

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError


class Fault(Enum):
    """What is wrong, as far as a log is concerned."""

    LOST = "cannot be reached"
    """The connection is gone, or was never made; what was sent may have been done."""

    READ_ONLY = "is read-only there now"
    """A host that was demoted: the next one may be the right one."""

    CROWDED = "lets no more connections in"
    """It may later; what has a connection keeps it."""

    UNWRITABLE = "lets nothing be written"
    """Its file system is read-only, or its files are somebody else's: an operator may mend that."""

    BUSY = "is kept busy by others"
    """A lock was waited for in vain, or lost; nothing was stored."""

    FULL = "has no room"
    DUPLICATE = "has a row of this number already"
    CREDENTIALS = "does not let this user in"
    FORBIDDEN = "does not let this user do that"
    """It was let in, and lacks a right: to a table, or to make one. Nothing was stored."""

    NO_DATABASE = "does not exist"
    NO_TABLE = "has lost a table"
    NO_COLUMN = "has a table of another shape"
    DAMAGED = "is damaged"
    FAILING = "could not be read, written or synced by its file system"
    """Nobody knows what is on the disk now, and it may be whole."""

    UNKNOWN = "answers with an error"


ROTATES = frozenset({Fault.LOST, Fault.READ_ONLY, Fault.CROWDED})
"""After these the next host is tried."""

_ADVICE = {
    Fault.CREDENTIALS: "give the user that owns the tables, and its password by the URL,"
    " ?password_file= or HOLDFAST_STORE_PASSWORD",
    Fault.FORBIDDEN: "give it the rights of the owner of the tables holdfast_... on all of them",
    Fault.NO_DATABASE: "create it, and give its user the right to create tables",
    Fault.NO_TABLE: "bring back a backup of it; nothing was changed by this broker",
    Fault.NO_COLUMN: "its tables holdfast_... are not this version's: use another database, or the"
    " version of Holdfast that made them",
    Fault.DAMAGED: "stop, look at the disk, and bring back a copy",
    Fault.FAILING: "look at the disk and its file system (dmesg), and start the broker again; bring"
    " back a copy only if 'holdfast store verify' finds it damaged",
    Fault.DUPLICATE: "it was changed by hand, or restored in part: bring back a whole copy",
}


_ADVICE_MEANWHILE = {
    Fault.CROWDED: "it is tried again; raise its limit of connections, or end some of others",
    Fault.UNWRITABLE: "it is tried again; see whether its file system is mounted read-only, and"
    " whether its files and their folder belong to the user it runs as",
    Fault.READ_ONLY: "it is tried again; name the host that may be written in the URL as well",
}


def error_of(fault: Fault, place: str, said: str) -> StoreError:
    """Give the error to raise; `said` is what the database itself says."""
    said = " ".join(said.split()).rstrip(".")
    sentence = f"{place} {fault.value}: {said}"
    if fault is Fault.FULL:
        return AppendRefusedError(f"{sentence}; make room where its files are, or let it grow")
    if fault in _ADVICE:
        return StoreError(f"{sentence}; {_ADVICE[fault]}")
    advice = _ADVICE_MEANWHILE.get(fault, "")
    return UnreachableError(f"{sentence}; {advice}" if advice else sentence)
