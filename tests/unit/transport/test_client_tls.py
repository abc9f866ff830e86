"""
What connections go by that we make: authorities, our certificate, and clear words.
"""

from __future__ import annotations

import ssl

import pytest

from holdfast.admin.endpoint import Endpoint
from holdfast.client.settings import TlsSettings
from holdfast.errors import ConfigError
from holdfast.transport.client_tls import client_context


def test_who_is_dialed_is_checked_unless_somebody_else_does() -> None:
    """
    By name and authority; where only the name does not count the authority still does.
    """
    found = client_context()
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    found = client_context(is_host_checked=False)
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, False)
    found = client_context(is_checked=False)
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("text", ["", "no certificate"])
def test_a_file_that_cannot_be_used_is_named(tmp_path, text) -> None:
    """
    The same words for a client and for who asks an admin port.
    """
    path = tmp_path / "ca.pem"
    if text:
        path.write_text(text)
    said = set()
    for build in (
        lambda: client_context(str(path)),
        TlsSettings(ca_file=str(path)).build_context,
        lambda: Endpoint.parse(f"https://h:1?caFile={path}").connection(1.0),
    ):
        with pytest.raises(ConfigError) as refused:
            build()
        said.add(str(refused.value))
    (sentence,) = said
    assert f"TLS files {path}: " in sentence
    with pytest.raises(ConfigError, match=f"TLS files {path}"):
        client_context("", str(path), str(path))
