"""Tests of server/media.py: the configuration says where the log is, and nothing else does."""

from __future__ import annotations

from pathlib import Path

from holdfast.config.node import NodeConfig
from holdfast.server.media import is_leased, make_elector, make_medium
from trials.leased.group_desk import node_config


def test_a_directory_of_its_own_is_no_medium(tmp_path: Path) -> None:
    """A node as ever."""
    assert not is_leased(NodeConfig.load(flags={"data": str(tmp_path)}, environment={}))


def test_a_shared_directory_is_one(tmp_path: Path) -> None:
    """Nothing is laid out before it is opened."""
    config = node_config(tmp_path / "a")

    assert is_leased(config)
    assert str(tmp_path / "shared") == make_medium(config).facts().place
    assert not (tmp_path / "shared").exists()


def test_an_elector_is_made_where_one_is_configured(tmp_path: Path) -> None:
    """And none elsewhere: nothing of it is imported then."""
    assert make_elector(node_config(tmp_path / "a")) is None
    elector = make_elector(node_config(tmp_path / "b", elector="etcd://u:pa55@e1,e2/log"))

    assert elector is not None
    assert "etcd://u@e1:2379,e2:2379/log" == elector.facts().place
