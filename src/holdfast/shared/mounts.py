"""
Whether the file system of a directory can keep what a shared log promises.

A wrong mount loses data without a word: a client that gives up on a write, a lock that only this
machine knows, a disk that two machines have mounted as their own. So what is not known to be right
is refused, with the reason, unless the operator allows it.
"""

from __future__ import annotations

from typing import Final

from holdfast.environment.mounts import CLUSTERED, LOCAL, Mount

_BROKEN: Final = {
    "cifs": "CIFS has neither an atomic link nor a cache that others' writes end",
    "smb3": "SMB has neither an atomic link nor a cache that others' writes end",
    "smbfs": "SMB has neither an atomic link nor a cache that others' writes end",
    "nfs": "NFS before version 4 has locks that outlive who held them; mount it with vers=4.1",
    "fuse.sshfs": "sshfs has no locks and does not sync",
}


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
