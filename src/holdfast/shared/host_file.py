"""
Which machine has a local file system, so that a second one does not mount it as well.

ext4 or xfs on a drive that two machines reach is destroyed once both have mounted it. The directory
remembers the machine: its id, which outlives a start, and the id of its start, which containers on
it share. One of them is enough to be the same. A container whose image has no id of a machine has
nothing that outlives a start: where either side lacks it nothing is known, and nobody is refused.
Images may have ids of their own, each with another build: ids that were seen within one start are
of one machine, and each of them is it after the next start as well.

A drive that was really moved is handed over by a person: no program can know that the other machine
has let go of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from holdfast.environment.shared_disk import SharedDisk
from holdfast.shared.lease_files import read_page
from holdfast.shared.page import HOST
from holdfast.shared.places import Places

logger = logging.getLogger("holdfast.shared")

_ALSO_MAX: Final = 8
"""Builds of images that are remembered."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, as it can be told from others; empty where it does not say."""

    name: str
    machine: str
    start: str
    also: tuple[str, ...] = ()
    """Other ids that it has in containers on it, the one that was seen last first."""

    @property
    def ids(self) -> tuple[str, ...]:
        """All that it is known by and that outlives a start."""
        return tuple(it for it in (self.machine, *self.also) if it)

    def is_same(self, other: Host) -> bool:
        """Whether both are one machine."""
        is_one_start = bool(self.start) and self.start == other.start
        return is_one_start or not set(self.ids).isdisjoint(other.ids)


def this_host(read: Callable[[Path], str], name: str) -> Host:
    """Return the machine that this process runs on; `read` gives a file's text or raises."""
    return Host(
        name,
        _text(read, Path("/etc/machine-id")),
        _text(read, Path("/proc/sys/kernel/random/boot_id")),
    )


def _text(read: Callable[[Path], str], path: Path) -> str:
    try:
        return read(path).strip()
    except OSError:
        return ""


def why_foreign(disk: SharedDisk, places: Places, host: Host) -> str | None:
    """
    Say why this machine may not use the directory, None if it may; then it is noted there.

    Raises:
        OSError: It cannot be reached.
    """
    try:
        fields = read_page(disk, places.host, HOST)
    except FileNotFoundError:
        fields = None
    if fields is not None:
        also = tuple(fields.get("also", ()))
        other = Host(fields["name"], fields["machine"], fields["start"], also)
        if not host.is_same(other) and host.ids and other.ids:
            return (
                f"machine '{other.name}' has it on a file system that only one machine may mount;"
                f" its /etc/machine-id is {', '.join(other.ids)}, and this is '{host.name}' with"
                f" {host.machine}; if it was moved here for good, or is the same machine with"
                f" another image, remove {places.host}"
            )
        if not host.is_same(other):
            logger.warning(
                "%s was used by a machine called '%s', and whether it is this one cannot be known:"
                " one has no /etc/machine-id, as in a container; see that only one mounts it",
                places.root,
                other.name,
            )
        # What one knows of the machine that the other cannot tell stays known.
        ids = dict.fromkeys((*host.ids, *other.ids))
        machine = host.machine or other.machine
        also = tuple(it for it in ids if it != machine)[:_ALSO_MAX]
        host = replace(host, machine=machine, also=also)
        if other == host:
            return None
    file = disk.open(places.host, create=True)
    try:
        fields = {"name": host.name, "machine": host.machine, "start": host.start}
        if host.also:
            fields["also"] = list(host.also)
        file.write(HOST.encode(fields), 0)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(places.root)
    return None
