"""
Whether the file system of a directory can keep what a shared log promises.

A wrong mount loses data without a word: a client that gives up on a write, a lock that only this
machine knows, a disk that two machines have mounted as their own. So what is not known to be right
is refused, with the reason, unless the operator allows it.

The kernel tells in /proc/self/mountinfo what is mounted where and with which options.
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

_BROKEN: Final = {
    "cifs": "CIFS has neither an atomic link nor a cache that others' writes end",
    "smb3": "SMB has neither an atomic link nor a cache that others' writes end",
    "smbfs": "SMB has neither an atomic link nor a cache that others' writes end",
    "nfs": "NFS before version 4 has locks that outlive who held them; mount it with vers=4.1",
    "fuse.sshfs": "sshfs has no locks and does not sync",
}


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


def why_unsafe(mount: Mount | None) -> str | None:
    """Say why a directory there cannot hold a shared log, None if it can."""
    if mount is None:
        return "what is mounted there cannot be found out"
    kind = mount.kind
    if kind in _BROKEN:
        return _BROKEN[kind]
    if mount.is_nfs:
        return _why_unsafe_nfs(mount.options)
    if kind.startswith("fuse"):
        return f"{kind} is not known to sync, to lock or to link atomically"
    if kind not in LOCAL | CLUSTERED:
        return f"{kind} is not known to keep what a shared log needs; NFSv4, GFS2 and OCFS2 are"
    return None


def _why_unsafe_nfs(options: frozenset[str]) -> str | None:
    for soft in ("soft", "softerr"):
        if soft in options:
            return f"it is mounted with '{soft}', which gives up on writes: mount it with 'hard'"
    if "nolock" in options:
        return "it is mounted with 'nolock': mount it without"
    for option in sorted(options):
        if option.startswith("local_lock=") and option != "local_lock=none":
            return f"it is mounted with '{option}', so others do not see its locks: mount without"
        if option == "nocto":
            return "it is mounted with 'nocto', so an old epoch may be read: mount it without"
    return None


def _unescaped(text: str) -> str:
    """Mount points are written with their spaces and tabs in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
