"""Directories of which what is stored does not last."""

from __future__ import annotations

from pathlib import Path

import structlog.testing

from holdfast.server.fleeting import fleeting_places

TABLE = """\
22 1 8:1 / / rw - overlay overlay rw
30 22 0:40 / /mnt/memory rw - tmpfs t rw
44 22 8:2 / /mnt/disk rw - xfs /dev/sdd rw
"""


def test_each_that_does_not_last_is_told_and_logged() -> None:
    """The one on a disk is not, nor is one that is not there yet left out."""
    places = [Path("/data"), Path("/mnt/memory/d"), Path("/mnt/disk/d")]
    with structlog.testing.capture_logs() as lines:
        told = fleeting_places(places, lambda: TABLE)
    assert [it.partition(":")[0] for it in told] == [
        "/data does not last",
        "/mnt/memory/d does not last",
    ]
    assert [(it["log_level"], it["data"]) for it in lines] == [
        ("warning", "/data"),
        ("warning", "/mnt/memory/d"),
    ]


def test_without_a_table_nothing_is_known() -> None:
    """As on another kind of system."""

    def refuse() -> str:
        raise FileNotFoundError

    assert fleeting_places([Path("/data")], refuse) == ()


def test_it_goes_by_where_a_link_leads(tmp_path: Path) -> None:
    """The folder may be on a disk, and what it leads to in memory."""
    link = tmp_path / "link"
    link.symlink_to("/mnt/memory/d")
    with structlog.testing.capture_logs():
        (told,) = fleeting_places([link], lambda: TABLE)
    assert "tmpfs" in told
