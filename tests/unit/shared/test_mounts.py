"""Mounts that cannot keep a shared log are refused with the reason (L20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.mounts import mount_of
from holdfast.shared.mounts import why_unsafe

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:40 / /mnt/good rw,relatime shared:2 - nfs4 s:/a rw,vers=4.2,hard,local_lock=none
31 22 0:41 / /mnt/soft rw - nfs4 s:/b rw,vers=4.2,soft,local_lock=none
32 22 0:42 / /mnt/softerr rw - nfs4 s:/b rw,vers=4.2,softerr,local_lock=none
33 22 0:43 / /mnt/three rw - nfs s:/c rw,vers=3,hard,nolock
34 22 0:44 / /mnt/nolock rw - nfs4 s:/c rw,vers=4.0,hard,nolock
35 22 0:45 / /mnt/lock rw - nfs4 s:/c rw,vers=4.0,hard,local_lock=all
36 22 0:46 / /mnt/nocto rw - nfs4 s:/c rw,vers=4.0,hard,nocto,local_lock=none
37 22 0:47 / /mnt/cifs rw - cifs //s/d rw
38 22 0:48 / /mnt/smb rw - smb3 //s/d rw
39 22 0:49 / /mnt/sshfs rw - fuse.sshfs s:/d rw
40 22 0:50 / /mnt/other rw - fuse.glusterfs s:/d rw
41 22 8:2 / /mnt/with\\040space rw - gfs2 /dev/sdb rw
42 22 8:3 / /mnt/cluster rw - ocfs2 /dev/sdc rw
43 22 0:51 / /mnt/lustre rw - lustre s:/d rw
44 30 0:52 / /mnt/good rw - xfs /dev/sdd rw
broken line
45 22 0:53
"""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/srv/shared", None),
        ("/mnt/good/shared", None),
        ("/mnt/with space/shared", None),
        ("/mnt/cluster", None),
        ("/mnt/soft/x", "mounted with 'soft', which gives up on writes"),
        ("/mnt/softerr/x", "mounted with 'softerr', which gives up on writes"),
        ("/mnt/three/x", "NFS before version 4"),
        ("/mnt/nolock/x", "mounted with 'nolock'"),
        ("/mnt/lock/x", "mounted with 'local_lock=all'"),
        ("/mnt/nocto/x", "mounted with 'nocto'"),
        ("/mnt/cifs/x", "CIFS has neither"),
        ("/mnt/smb/x", "SMB has neither"),
        ("/mnt/sshfs/x", "sshfs has no locks"),
        ("/mnt/other/x", "fuse.glusterfs is not known"),
        ("/mnt/lustre/x", "lustre is not known to keep"),
    ],
)
def test_each_mount_is_judged_with_its_reason(path: str, reason: str | None) -> None:
    """Soft and older NFS, local locks, SMB and what is not known are refused; the rest is not."""
    found = why_unsafe(mount_of(Path(path), TABLE))

    assert found is reason is None or (reason is not None and reason in str(found))


def test_a_table_without_the_path_is_no_answer() -> None:
    """What cannot be found out is not taken for good."""
    assert why_unsafe(None) == "what is mounted there cannot be found out"
