"""
What connections go by that we make: authorities, our certificate, and clear words.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest

from holdfast.admin.endpoint import Endpoint
from holdfast.client.settings import TlsSettings
from holdfast.errors import ConfigError
from holdfast.transport.client_tls import client_context, unchecked_context


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


def flights(dialing: ssl.SSLContext, accepting: ssl.SSLContext) -> int:
    """Shake hands; gives how often the one that accepts waits for something to come."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = dialing.wrap_bio(here, there)
    server = accepting.wrap_bio(there, here, server_side=True)
    for count in range(1, 9):
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
            return count
    raise AssertionError("it comes to no end")


def test_who_dials_a_node_begins_with_what_it_agrees_upon(options) -> None:
    """
    Asked for another key than it has sent, as any other client is, it would need one more round
    trip: whoever is far was kept out of a port that somebody floods.
    """
    accepting = options().build_context()
    assert flights(unchecked_context(), accepting) == 2
    dialing = client_context()
    dialing.check_hostname, dialing.verify_mode = False, ssl.CERT_NONE
    assert flights(dialing, accepting) == 2
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.check_hostname, other.verify_mode = False, ssl.CERT_NONE
    assert flights(other, accepting) == 3


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
