"""
The admin port as the configuration has it: its names, and by what other nodes are asked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.admin.endpoint import NO_FILES, Files
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError
from holdfast.server.admin_port import _files, admin_access
from holdfast.server.descriptors import share_out
from holdfast.transport.certificates import make_node, open_authority


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    return tmp_path


def configured(folder: Path, *lines: str) -> NodeConfig:
    file = folder / "h.toml"
    text = ['data = "d"', 'admin = "db1.example:8161"', 'admin_tls = "ops"', "[tls.ops]"]
    file.write_text("\n".join([*text, f'certificate = "{folder}/a.pem"', *lines]))
    return NodeConfig.load(flags={}, environment={}, file=file)


def test_the_others_are_told_that_it_speaks_tls(folder: Path) -> None:
    """They ask it as they are told; it is known by its name, and has room for handshakes."""
    config = configured(folder)
    assert config.advertised_admin == "https://db1.example:8161"
    access = admin_access(config, lambda: "")
    assert access.is_host("db1.example:8161")
    assert access.is_host("db1")
    assert share_out(20_000, config).admin_strangers == 64
    plain = NodeConfig.load(flags={"data": "d"}, environment={})
    assert plain.advertised_admin == "127.0.0.1:8161"
    assert share_out(20_000, plain).admin_strangers == 0


def test_other_nodes_are_believed_by_their_authority(folder: Path) -> None:
    """`ca`, else that of the clients, else the system's; our own certificate is shown."""
    own = str(folder / "a.pem")
    assert _files(configured(folder)) == Files("", own)
    ca = f'client_ca = "{folder}/ca.pem"\nclient = "wanted"'
    assert _files(configured(folder, ca)) == Files(f"{folder}/ca.pem", own)
    other = folder / "other.pem"
    other.write_bytes((folder / "ca.pem").read_bytes())
    assert _files(configured(folder, ca, f'ca = "{other}"')) == Files(str(other), own)
    assert _files(NodeConfig.load(flags={"data": "d"}, environment={})) == NO_FILES


def test_a_table_that_is_not_there_is_a_mistake(folder: Path) -> None:
    """With the name that was given."""
    with pytest.raises(ConfigError, match=r"admin_tls: .*\[tls\.ops\], and the file has no such"):
        NodeConfig.load(flags={"data": "d", "admin_tls": "ops"}, environment={})
