"""
Which machine has a SQLite database on a local file system: FILE-host, beside the database.

A volume that is attached to two machines, and mounted by both, has a cache and locks on each: both
brokers would confirm, and destroy the file system. So who serves writes down on which machine, and
another machine is refused before it opens anything. What tells machines apart, and what cannot be
known, stands in `environment.machine`.

Invariants:
    What cannot be written down keeps nobody from serving: a full disk has to let go on who had it.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Final

from holdfast.environment.machine import Machine, judge, this_machine
from holdfast.environment.mounts import why_fleeting
from holdfast.sql.session import Surroundings
from holdfast.sql.sqlite_file import MODE, mount_at, real_path, why_readable, why_shared

PAGE_BYTES: Final = 4096
"""It is written over at its place, which takes no room that is not there."""


def around(path: str, *, may_note: bool) -> Surroundings:
    """
    Look at where a database is, before anything is opened there.

    Raises:
        OSError: It cannot be seen.
        StoreError: The path leads nowhere.
    """
    readable = why_readable(path) if may_note else ""
    found = _where(path, may_note=may_note)
    return found._replace(told=(*found.told, readable)) if readable else found


def _where(path: str, *, may_note: bool) -> Surroundings:
    mount = mount_at(path)
    if mount is None:  # Where there is no table of mounts nothing is known.
        return Surroundings()
    if not mount.is_local:
        return Surroundings(unsafe=(why_shared(path, mount),))
    found = look_at_host(real_path(path), here(), may_note=may_note)
    fleeting = why_fleeting(mount)
    if fleeting and may_note:
        return found._replace(told=(*found.told, f"{path} does not last: {fleeting}"))
    return found


def here() -> Machine:
    """Return the machine that this process runs on."""
    return this_machine(Path.read_text, socket.gethostname())


def look_at_host(database: Path, machine: Machine, *, may_note: bool) -> Surroundings:
    """
    Hold this machine against the one that has the database, and note it if it is to have it.

    `may_note`: of who serves; a command goes as it came.

    Raises:
        OSError: What stands there cannot be read.
    """
    file = database.with_name(f"{database.name}-host")
    found = judge(machine, _read(file), file)
    if found.refusal:
        return Surroundings(unsafe=(f"{database}: {found.refusal}",))
    told = [f"{database}: {found.doubt}"] if found.doubt else []
    if found.note is not None and may_note:
        try:
            _write(file, found.note)
        except OSError as error:
            told.append(
                f"{file}: which machine has the database cannot be noted there"
                f" ({error.strerror}), so another one that mounts its disk would not be refused"
            )
    return Surroundings(told=tuple(told))


def _read(file: Path) -> Machine | None:
    """What stands there; what is not whole says nothing, as one that was torn by a crash."""
    try:
        fields = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return Machine.of(fields) if isinstance(fields, dict) else None


def _write(file: Path, machine: Machine) -> None:
    page = json.dumps(machine.fields()).encode().ljust(PAGE_BYTES - 1) + b"\n"
    is_new = not file.exists()
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        os.pwrite(opened, page, 0)
        os.fsync(opened)
    finally:
        os.close(opened)
    if is_new:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
