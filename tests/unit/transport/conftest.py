"""
What the tests of ports share: an authority with a node and a client, made once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.transport.certificates import make_client, make_node, open_authority
from holdfast.transport.tls import TlsOptions


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ca.pem, node.pem and joe.pem; stranger.pem is another authority's."""
    directory = tmp_path_factory.mktemp("certificates")
    authority, _ = open_authority(directory)
    make_node(authority, directory / "node.pem", "node", ["10.0.0.7"], 30)
    make_client(authority, directory / "joe.pem", "joe", 30)
    other, _ = open_authority(directory / "other")
    make_client(other, directory / "stranger.pem", "joe", 30)
    return directory


@pytest.fixture
def options(certificates: Path) -> Callable[..., TlsOptions]:
    """What a port goes by that shows node.pem."""

    def made(**given: object) -> TlsOptions:
        if given.get("client", "none") != "none":
            given.setdefault("client_ca", certificates / "ca.pem")
        return TlsOptions(
            **{"name": "outside", "certificate": certificates / "node.pem", **given}  # type: ignore[arg-type]
        )

    return made
