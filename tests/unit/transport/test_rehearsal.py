"""Handshakes in memory: what a context shows, and whether another takes it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from holdfast.transport.rehearsal import certificate_shown, rehearse


@pytest.mark.parametrize("minimum", ["1.2", "1.3"])
def test_what_is_shown_is_told(options, certificates: Path, minimum: str) -> None:
    """As it is in the file, and nothing of what stands behind it."""
    text = (certificates / "node.pem").read_text()
    told = ssl.PEM_cert_to_DER_cert(text[: text.index("-----BEGIN PRIVATE")])
    assert certificate_shown(options(minimum=minimum).build_context()) == told


def test_who_has_no_certificate_shows_none() -> None:
    """An error, and no handshake that goes on."""
    with pytest.raises(ssl.SSLError):
        certificate_shown(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_both_ends_are_judged(options, certificates: Path) -> None:
    """A member's certificate is good for both; a client's is no server's, a stranger's nobody's."""
    node = options(client="required")
    one, other = rehearse(node.build_context(), node.build_dialing_context())
    assert one.getpeercert(binary_form=True) == other.getpeercert(binary_form=True) != b""
    for name in ("joe.pem", "stranger.pem"):
        bad = options(client="required", certificate=certificates / name)
        with pytest.raises(ssl.SSLError):
            rehearse(bad.build_context(), bad.build_dialing_context())
