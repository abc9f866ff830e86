"""The directories of a node that has several, and of one that has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.node import NodeConfig
from holdfast.environment.disk import RealDisk
from holdfast.errors import MirrorError, MirrorsMissingError
from holdfast.server.mirrors import change_mirror, open_mirrors


def test_single_directory_pays_nothing(tmp_path: Path) -> None:
    """It has no set, and nothing of this comes between it and its disk."""
    config = NodeConfig(data=tmp_path / "data")
    assert open_mirrors(config, RealDisk()) is None
    assert not (tmp_path / "data").exists()


def test_several_directories_are_one_disk(tmp_path: Path) -> None:
    """What is written below the first is below each."""
    one, two = tmp_path / "one", tmp_path / "two"
    caretaker = open_mirrors(NodeConfig(data=one, mirrors=(two,)), RealDisk())
    assert caretaker is not None
    file = caretaker.disk.open(one / "x", create=True)
    file.write(b"hello", 0)
    file.close()
    assert (one / "x").read_bytes() == (two / "x").read_bytes() == b"hello"
    caretaker.disk.lock(one / "lock").release()


def test_one_of_a_set_is_judged_as_such(tmp_path: Path) -> None:
    """It may have been left behind: alone it does not start as if it were a single one."""
    one, two = tmp_path / "one", tmp_path / "two"
    caretaker = open_mirrors(NodeConfig(data=one, mirrors=(two,)), RealDisk())
    assert caretaker is not None
    caretaker.disk.lock(one / "lock").release()
    with pytest.raises(MirrorsMissingError, match="two cannot be used"):
        open_mirrors(NodeConfig(data=one), RealDisk())


def test_single_directory_has_no_mirror_to_change() -> None:
    """The sentence says how to have several."""
    with pytest.raises(MirrorError, match="start it with --data for each"):
        change_mirror(None, "enable", "/x", "")


def test_directories_are_named_by_their_whole_path(tmp_path: Path) -> None:
    """A command runs in another folder than the node."""
    one, two = tmp_path / "one", tmp_path / "two"
    caretaker = open_mirrors(NodeConfig(data=one, mirrors=(two,)), RealDisk())
    assert caretaker is not None
    with pytest.raises(MirrorError, match="whole path"):
        change_mirror(caretaker, "disable", "two", "")
    change_mirror(caretaker, "disable", str(two), "")
    assert [it.state for it in caretaker.views()] == ["active", "disabled"]
    caretaker.disk.lock(one / "lock").release()
