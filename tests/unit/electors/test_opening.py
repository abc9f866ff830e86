"""The door of the package: which elector an address is, and what it says if one is missing."""

from __future__ import annotations

import sys

import pytest

from holdfast.electors.etcd import EtcdElector
from holdfast.electors.opening import open_elector
from holdfast.electors.url import parse_elector_url
from holdfast.errors import ConfigError


def test_an_address_says_which_it_is() -> None:
    """Nothing is reached before it is asked."""
    made = open_elector(parse_elector_url("etcd://e/x"), name="a", session_seconds=3)
    other = open_elector(parse_elector_url("zookeeper://z/x"), name="a", session_seconds=3)

    assert isinstance(made, EtcdElector)
    assert "zookeeper://z:2181/x" == other.facts().place


def test_a_password_that_cannot_be_read_is_the_operators_mistake() -> None:
    """Said at the start, by the setting's name."""
    url = parse_elector_url("etcd://u@e/x?password_file=/not/there")
    with pytest.raises(ConfigError, match="elector: the password's file /not/there"):
        open_elector(url, name="a", session_seconds=3)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; etcd needs none."""
    monkeypatch.delitem(sys.modules, "holdfast.electors.zookeeper", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"kazoo .* pip install 'holdfast\[zookeeper\]'"):
        open_elector(parse_elector_url("zookeeper://z/x"), name="a", session_seconds=3)
