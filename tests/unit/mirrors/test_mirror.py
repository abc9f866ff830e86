"""One mirror: where its files stand, and which it takes."""

from __future__ import annotations

from pathlib import Path

from holdfast.mirrors.mirror import Mirror
from trials.simulation.simulated_disk import SimulatedDisk


def test_files_are_named_as_on_the_first_directory() -> None:
    """The same file stands below each mirror's own directory."""
    mirror = Mirror("m", Path("/b"), SimulatedDisk(), Path("/a"))
    assert mirror.here(Path("/a/journal/x")) == Path("/b/journal/x")


def test_joining_mirror_takes_what_it_has() -> None:
    """What it has not got yet comes when it is copied."""
    mirror = Mirror("m", Path("/b"), SimulatedDisk(), Path("/a"), "joining")
    assert not mirror.takes(Path("/a/x"))
    mirror.have.add(Path("/a/x"))
    assert mirror.takes(Path("/a/x"))
    mirror.state = "active"
    assert mirror.takes(Path("/a/other"))
