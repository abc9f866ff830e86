"""
Directories of a node of which what is stored goes with a restart of the machine, or a container.

A volume that was forgotten is the commonest mistake with containers. It is told at the start, in
/status and by `holdfast status`, and refused to nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from holdfast.environment.mounts import MOUNTINFO, mount_of, why_fleeting

log = structlog.get_logger("holdfast.server")


def fleeting_places(
    directories: Iterable[Path], mountinfo: Callable[[], str] = MOUNTINFO.read_text
) -> tuple[str, ...]:
    """
    Give a sentence on each of these directories that does not last, and log it.

    They answer: each is looked at. Where there is no table of mounts nothing is known.
    """
    try:
        table = mountinfo()
    except (OSError, ValueError):
        return ()
    told = []
    for directory in directories:
        why = why_fleeting(mount_of(Path(os.path.realpath(directory)), table))
        if why:
            log.warning("what is stored does not last", data=str(directory), why=why)
            told.append(f"{directory} does not last: {why}")
    return tuple(told)
