"""
Certificates of one's own: OpenSSL, which nobody here wrote, is asked what they are good for.
"""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.transport.certificates import make_client, make_node, open_authority


def openssl(*arguments: str | Path) -> str:
    run = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return run.stdout + run.stderr


def test_a_node_is_known_by_its_name_and_hosts(certificates: Path) -> None:
    """And by this machine's own names; it may show it to others as a client, too."""
    text = openssl("x509", "-in", certificates / "node.pem", "-noout", "-text")
    for name in ("DNS:node", "IP Address:10.0.0.7", "DNS:localhost", "IP Address:127.0.0.1"):
        assert name in text
    assert "TLS Web Server Authentication, TLS Web Client Authentication" in text
    verify = ("verify", "-x509_strict", "-CAfile", certificates / "ca.pem")
    assert "OK" in openssl(*verify, "-purpose", "sslserver", certificates / "node.pem")


def test_a_client_is_no_server(certificates: Path) -> None:
    """Whoever steals a client's key cannot play a node with it."""
    verify = ("verify", "-x509_strict", "-CAfile", certificates / "ca.pem")
    assert "OK" in openssl(*verify, "-purpose", "sslclient", certificates / "joe.pem")
    assert "purpose" in openssl(*verify, "-purpose", "sslserver", certificates / "joe.pem")


def test_keys_are_for_their_user_only(certificates: Path) -> None:
    """Also where files are made for all to read by default."""
    for name in ("ca.key", "node.pem", "joe.pem"):
        assert stat.S_IMODE((certificates / name).stat().st_mode) == 0o600
    assert not list(certificates.glob("*.new"))


def test_an_authority_goes_on_and_a_certificate_is_replaced(tmp_path: Path) -> None:
    """Who trusts it need be told nothing when a node gets a new certificate."""
    first, is_new = open_authority(tmp_path)
    make_node(first, tmp_path / "a.pem", "a", [], 1)
    before = (tmp_path / "a.pem").read_bytes()
    again, is_new_again = open_authority(tmp_path)
    make_node(again, tmp_path / "a.pem", "a", [], 1)
    assert (is_new, is_new_again) == (True, False)
    assert first.certificate == again.certificate
    assert (tmp_path / "a.pem").read_bytes() != before
    assert "OK" in openssl("verify", "-CAfile", tmp_path / "ca.pem", tmp_path / "a.pem")


def test_what_is_no_authority_is_told(tmp_path: Path) -> None:
    """Half of one, another's key, no certificate at all; and nothing is written over it."""
    open_authority(tmp_path / "x")
    open_authority(tmp_path / "y")
    key = (tmp_path / "y" / "ca.key").read_bytes()
    (tmp_path / "x" / "ca.key").write_bytes(key)
    with pytest.raises(ConfigError, match="is not the key of"):
        open_authority(tmp_path / "x")
    (tmp_path / "x" / "ca.key").write_text("what")
    with pytest.raises(ConfigError, match="are not an authority and its key"):
        open_authority(tmp_path / "x")
    (tmp_path / "x" / "ca.key").unlink()
    with pytest.raises(ConfigError, match=r"ca\.key: no such file"):
        open_authority(tmp_path / "x")


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The file that was there stays."""
    authority, _ = open_authority(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written: no such file"):
        make_client(authority, tmp_path / "missing" / "joe.pem", "joe", 1)
    assert {it.name for it in tmp_path.iterdir()} == {"ca.key", "ca.pem"}
