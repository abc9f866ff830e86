"""Names in a shared directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.shared.places import Places, SegmentName, broker_name, parse_segment_name


@pytest.mark.parametrize("name", [SegmentName(1, 1), SegmentName(77, 3, 2)])
def test_a_segment_is_named_by_base_epoch_and_attempt(name: SegmentName) -> None:
    """What the name says is read from it, and two epochs never have the same name."""
    assert parse_segment_name(str(name)) == name
    assert str(name) != str(name._replace(epoch=name.epoch + 1))


@pytest.mark.parametrize("name", ["x", "1-1.seg", ".nfs01", f"{1:020d}.segment", f"{1:020d}-.seg"])
def test_other_names_are_no_segments(name: str) -> None:
    """A file that NFS has kept, or that is of a journal, is no segment."""
    assert parse_segment_name(name) is None


@pytest.mark.parametrize("name", ["a", "broker 1", "..", ".hidden", "a/b", "ä%2F"])
def test_a_broker_of_any_name_has_a_file_in_the_folder(name: str) -> None:
    """No name leads out of the folder or hides, and each is read back."""
    path = Places(Path("/share")).broker(name)

    assert path.parent == Path("/share/brokers")
    assert not path.name.startswith(".")
    assert broker_name(path.name) == name


def test_what_is_ours_in_the_directory() -> None:
    """Our names, what NFS and ext4 put there, and what a broker left that died at its start."""
    places = Places(Path("/share"))

    ours = ["store", "current", "host", "lease", "journal", "brokers"]
    assert all(map(places.is_ours, [*ours, ".nfs00", ".store-1", "lost+found", "reserve-1"]))
    assert not places.is_ours("ballot")
