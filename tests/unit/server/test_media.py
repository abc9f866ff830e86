"""Tests of server/media.py: the configuration says where the log is, and nothing else does."""

from __future__ import annotations

from pathlib import Path

from holdfast.config.node import NodeConfig
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.server.media import is_leased, make_elector, make_medium
from trials.leased.group_desk import node_config


def test_a_directory_of_its_own_is_no_medium(tmp_path: Path) -> None:
    """A node as ever."""
    assert not is_leased(NodeConfig.load(flags={"data": str(tmp_path)}, environment={}))


def test_several_databases_are_one_log(tmp_path: Path) -> None:
    """One that fails is left out before a short lease is lost for its sake."""
    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    flags = {"data": str(tmp_path / "a"), "name": "a", "store": stores}
    config = NodeConfig.load(flags=flags, environment={})
    medium = make_medium(config)
    assert isinstance(medium, RaidbLog)
    assert medium.facts().place == ", ".join(stores)
    assert medium.member_timeout_seconds == config.sections.databases.member_timeout_seconds

    short = NodeConfig.load(flags={**flags, "lease_seconds": 2.0}, environment={})
    made = make_medium(short)
    assert isinstance(made, RaidbLog)
    assert made.member_timeout_seconds == 0.8


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
