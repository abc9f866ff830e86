"""
Addresses and names of hosts: read, written, told apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.address import Address
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.9.9.9", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("db", False)],
)
def test_loopback_is_told_from_reachable(host: str, loopback: bool) -> None:
    """
    A name that is not known to be loopback counts as reachable from outside.
    """
    assert Address(host, 1).is_loopback is loopback


def test_an_address_is_written_as_it_is_read() -> None:
    """
    IPv6 hosts keep their brackets.
    """
    assert [str(Address.parse(text)) for text in ("[::1]:1", "h:2")] == ["[::1]:1", "h:2"]


@pytest.mark.parametrize(
    "host",
    ["", "no such host", "[::1", "::1]", "[x]", "[[::1]]", "a:b", "h\0", "h\x1b", "h/x", "h\n"],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    """
    Where it is written, and not when the port is opened.
    """
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        Address.parse(f"{host}:5")


def test_names_of_the_admin_port_are_hosts_or_places(tmp_path: Path) -> None:
    """
    From a flag or the environment as one text, from TOML as a list; names and addresses, and ports.
    """
    flags = {"data": str(tmp_path)}
    read = NodeConfig.load(flags=flags | {"admin_names": "Proxy.Example., b"}, environment={})
    assert read.admin_names == ("proxy.example", "b")
    places = "proxy:443, 10.0.0.1, [::1]:80 ::1 127.0.0.1:9000"
    read = NodeConfig.load(flags=flags | {"admin_names": places}, environment={})
    assert read.admin_names == ("proxy:443", "10.0.0.1", "[::1]:80", "::1", "127.0.0.1:9000")
    file = tmp_path / "node.toml"
    file.write_text('admin_names = ["a"]\nconnections = 20\n')
    read = NodeConfig.load(flags=flags, environment={}, file=file)
    assert (
        read.admin_names,
        read.sections.server.connection_count_max,
        read.sections.admin.connection_count_max,
    ) == (("a",), 20, 64)
    for wrong in ("a:", "a:x", "::1]:80", "http://a", 7, ["a b"]):
        with pytest.raises(ConfigError, match=r"admin_names: .*host"):
            NodeConfig.load(flags=flags | {"admin_names": wrong}, environment={})
