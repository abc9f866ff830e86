"""What is mounted where is read from the kernel's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.environment.mounts import MOUNTINFO, Mount, mount_of, why_fleeting

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:40 / /mnt/good rw,relatime shared:2 - nfs4 s:/a rw,vers=4.2,hard,local_lock=none
41 22 8:2 / /mnt/with\\040space rw - gfs2 /dev/sdb rw
44 30 0:52 / /mnt/good rw - xfs /dev/sdd rw
broken line
45 22 0:53
"""


def test_the_nearest_and_last_mount_counts() -> None:
    """A mount over another one hides it, and a longer path is nearer."""
    found = mount_of(Path("/mnt/good/shared"), TABLE)
    assert found is not None
    assert (found.kind, found.is_local, found.is_nfs) == ("xfs", True, False)

    spaced = mount_of(Path("/mnt/with space/x"), TABLE)
    assert spaced is not None
    assert spaced.kind == "gfs2"

    nearest = mount_of(Path("/mnt/goodness"), TABLE)
    assert nearest is not None
    assert nearest.point == Path("/")


def test_a_table_without_the_path_is_no_answer() -> None:
    """What the table does not say is not made up."""
    assert mount_of(Path("/x"), "") is None


def test_this_machines_table_can_be_read(tmp_path: Path) -> None:
    """The kernel's own table tells where a folder of this test is."""
    found = mount_of(tmp_path.resolve(), MOUNTINFO.read_text())

    assert found is not None
    assert found.point in [tmp_path.resolve(), *tmp_path.resolve().parents]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "tmpfs",
            r"in memory \(tmpfs at /m\): all .* once this machine restarts; put it on",
        ),
        ("ramfs", "in memory"),
        ("overlay", "is gone with the container; mount a volume or a folder of the machine there"),
        ("fuse.fuse-overlayfs", "is gone with the container"),
    ],
)
def test_what_does_not_last_is_told(kind: str, sentence: str) -> None:
    """A forgotten volume is the commonest mistake with containers."""
    assert re.search(sentence, why_fleeting(Mount(Path("/m"), kind, frozenset())))


@pytest.mark.parametrize("kind", ["ext4", "nfs4", "gfs2", "btrfs"])
def test_what_lasts_is_no_matter(kind: str) -> None:
    """Nor what is not known."""
    assert why_fleeting(Mount(Path("/m"), kind, frozenset())) == ""
    assert why_fleeting(None) == ""
