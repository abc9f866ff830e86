"""
Links by TLS as the configuration has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError
from holdfast.server.descriptors import APART_COUNT_MAX, share_out
from holdfast.server.peer_port import peer_tls
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.handshakes import AT_ONCE_SECONDS
from holdfast.transport.tls import ServerTls

MEMBERS = '\nmembers = ["a=127.0.0.1:1", "b=127.0.0.1:2", "c=127.0.0.1:3"]\nname = "a"\n'


def configured(folder: Path, mode: str, *lines: str) -> NodeConfig:
    file = folder / "h.toml"
    text = [f'data = "d"\npeer_tls = "{mode}"{MEMBERS}[tls.peers]']
    file.write_text("\n".join([*text, f'certificate = "{folder}/a.pem"', *lines]))
    return NodeConfig.load(flags={}, environment={}, file=file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    return tmp_path


def test_links_go_as_the_setting_says(folder: Path) -> None:
    """In clear, both ways, or by TLS only; there is room for handshakes beside the links."""
    ca = f'client_ca = "{folder}/ca.pem"\nclient = "required"'
    clear, both, only = (configured(folder, it, ca) for it in ("off", "accept", "require"))
    shown = {"peers": ServerTls(both.tls["peers"], dials=True)}
    shares = share_out(20_000, both)
    assert peer_tls(clear, shares, shown) is None
    for config, is_required in ((both, False), (only, True)):
        made = peer_tls(config, shares, shown)
        assert made is not None
        assert made.is_required is is_required
        assert made._handshakes.settings.handshake_slice_seconds == pytest.approx(0.001)
        for line in (made._handshakes, made._members):
            assert line._patience == AT_ONCE_SECONDS, "nobody waits at the door of this port"
    by_tls = 2 * both.sections.links.strangers_max + 2 * APART_COUNT_MAX
    assert share_out(20_000, clear).wanted == shares.wanted - by_tls


@pytest.mark.parametrize("lines", [(), ('client_ca = "@/ca.pem"', 'client = "wanted"')])
def test_both_sides_must_show_who_they_are(folder: Path, lines: tuple[str, ...]) -> None:
    """A link whose other end shows nothing would be no better than one in clear."""
    given = [line.replace("@", str(folder)) for line in lines]
    with pytest.raises(ConfigError, match=r"peer_tls: require needs a table \[tls\.peers\]"):
        configured(folder, "require", *given)
