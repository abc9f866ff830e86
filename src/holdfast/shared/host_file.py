"""
Which machine has a local file system, so that a second one does not mount it as well.

ext4 or xfs on a drive that two machines reach is destroyed once both have mounted it. The directory
remembers the machine: its id, which outlives a start, and the id of its start, which containers on
it share. One of them is enough to be the same.

A drive that was really moved is handed over by a person: no program can know that the other machine
has let go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.environment.shared_disk import SharedDisk
from holdfast.shared.lease_files import read_page
from holdfast.shared.page import HOST
from holdfast.shared.places import Places


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, as it can be told from others; empty where it does not say."""

    name: str
    machine: str
    start: str

    def is_same(self, other: Host) -> bool:
        """Whether both are one machine."""
        pairs = ((self.machine, other.machine), (self.start, other.start))
        return any(mine and mine == its for mine, its in pairs)


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
        other = Host(fields["name"], fields["machine"], fields["start"])
        if not host.is_same(other):
            return (
                f"machine '{other.name}' has it on a file system that only one machine may mount;"
                f" if it was moved here for good, remove {places.host}"
            )
        if other == host:
            return None
    file = disk.open(places.host, create=True)
    try:
        fields = {"name": host.name, "machine": host.machine, "start": host.start}
        file.write(HOST.encode(fields), 0)
        file.sync()
    finally:
        file.close()
    disk.sync_directory(places.root)
    return None
