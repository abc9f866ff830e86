"""
The configuration of a node as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError

THREE = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]


def test_a_data_directory_is_all_a_single_node_needs(load: Any) -> None:
    """
    `holdfast serve --data DIR` starts a node on loopback at ActiveMQ's usual ports.
    """
    config = load()
    assert str(config.stomp) == "127.0.0.1:61613"
    assert str(config.admin) == "127.0.0.1:8161"
    assert (config.name, config.peers, config.members, config.sections.replication.copies) == (
        "holdfast",
        None,
        (),
        0,
    )


def test_the_data_directory_is_never_guessed() -> None:
    """
    Without --data there is no default that could hide messages in a surprising place.
    """
    with pytest.raises(ConfigError, match="data: missing; give --data, HOLDFAST_DATA"):
        NodeConfig.load(flags={}, environment={})


def test_the_secret_is_not_shown(tmp_path: Path, load: Any) -> None:
    """
    A configuration that is logged does not give the secret away.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef0123\n")
    assert "0123456789abcdef" not in repr(load(secret_file=secret))


def test_copies_that_are_not_given_follow_from_the_present_members(load: Any) -> None:
    """
    What is named on the command line may be old; the log tells how many nodes with data there are.
    """
    assert load(name="a", members=THREE).sections.replication.copies == 0
    assert load(name="a", members=THREE, copies=2).sections.replication.copies == 2


def test_a_node_listens_for_peers_at_its_own_member_address(load: Any) -> None:
    """
    Without --peers the address that the others use is the one to listen on.
    """
    assert str(load(name="b", members=THREE).peers) == "127.0.0.1:7002"


def test_the_site_given_here_is_filled_in_for_this_member(load: Any) -> None:
    """
    --site and the list of members say the same in the end.
    """
    config = load(name="b", members=THREE, site="north")
    assert [member.site for member in config.members] == ["", "north", ""]
    assert load(name="a", members=["a=127.0.0.1:1,site=x"]).site == "x"


def test_a_wildcard_host_is_advertised_as_the_member_is_known(load: Any) -> None:
    """
    Other machines cannot connect to 0.0.0.0, so they are told the member's own host.
    """
    config = load(name="b", members=THREE, admin="0.0.0.0:8161", stomp="[::1]:1")
    assert config.advertised_admin == "127.0.0.1:8161"
    assert config.advertised_stomp == "[::1]:1"
