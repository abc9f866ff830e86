"""
Which machine has a shared directory on a local file system, so that a second one does not mount it.

What tells machines apart, and what cannot be known, stands in `environment.machine`.
"""

from __future__ import annotations

import logging

from holdfast.environment.machine import Machine, judge
from holdfast.environment.shared_disk import SharedDisk
from holdfast.shared.lease_files import read_page
from holdfast.shared.page import HOST
from holdfast.shared.places import Places

logger = logging.getLogger("holdfast.shared")


def why_foreign(disk: SharedDisk, places: Places, here: Machine) -> str:
    """
    Say why this machine may not use the directory, nothing if it may; then it is noted there.

    Raises:
        OSError: It cannot be reached.
    """
    try:
        fields = read_page(disk, places.host, HOST)
    except FileNotFoundError:
        fields = None
    found = judge(here, None if fields is None else Machine.of(fields), places.host)
    if found.doubt:
        logger.warning("%s: %s", places.root, found.doubt)
    if found.note is not None:
        _note(disk, places, found.note)
    return found.refusal


def _note(disk: SharedDisk, places: Places, machine: Machine) -> None:
    file = disk.open(places.host, create=True)
    try:
        file.write(HOST.encode(machine.fields()), 0)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(places.root)
