"""
What is mounted where, and how: as the kernel tells in /proc/self/mountinfo.

Pure: whoever asks hands in the text of that table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNTINFO: Final = Path("/proc/self/mountinfo")

LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "overlay"}
)
"""File systems of one machine."""

CLUSTERED: Final = frozenset({"gfs2", "ocfs2"})
"""File systems that several machines mount and that are coherent among them."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One file system, as it is mounted here."""

    point: Path
    kind: str
    options: frozenset[str]

    @property
    def is_local(self) -> bool:
        """Whether it is a machine's own, so that no other may have it mounted."""
        return self.kind in LOCAL

    @property
    def is_nfs(self) -> bool:
        """Whether another machine serves it."""
        return self.kind == "nfs4"


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """Return what is mounted where this absolute path is, None if the table does not tell."""
    found: Mount | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(rest) < 3:
            continue
        point = Path(_unescaped(fields[4]))
        is_nearer = found is None or len(point.parts) >= len(found.point.parts)
        if is_nearer and (path == point or point in path.parents):
            options = frozenset([*fields[5].split(","), *rest[2].split(",")])
            found = Mount(point, rest[0], options)
    return found


def _unescaped(text: str) -> str:
    """Mount points are written with their spaces and tabs in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "rootfs"})
_LAYERED: Final = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs"})


def why_fleeting(mount: Mount | None) -> str:
    """
    Say that what is stored on this file system goes with something else than a disk; or nothing.

    Nothing is refused for it: tests and trials are well there.
    """
    if mount is None:
        return ""
    if mount.kind in _IN_MEMORY:
        return (
            f"it is in memory ({mount.kind} at {mount.point}): all that is confirmed is gone once"
            f" this machine restarts; put it on a disk"
        )
    if mount.kind in _LAYERED:
        return (
            f"it is in a layer over other files ({mount.kind} at {mount.point}), as a container's"
            f" own files are: all that is confirmed is gone with the container; mount a volume or a"
            f" folder of the machine there"
        )
    return ""
