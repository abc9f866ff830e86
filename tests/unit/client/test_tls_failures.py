"""
What TLS ends a connection with, said so that it can be put right.
"""

from __future__ import annotations

import ssl

import pytest

from holdfast.client.tls_failures import NO_TLS, TLS_REQUIRED, in_clear, tls_failure
from holdfast.client.uri import parse_uri
from holdfast.errors import CertificateError, LinkLostError, RemoteProtocolError

ADDRESS = parse_uri("stomp+ssl://h:1").addresses[0]


def failure(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] as OpenSSL says it (_ssl.c:1006)")
    error.reason = reason  # type: ignore[assignment]
    return error


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("WRONG_VERSION_NUMBER", RemoteProtocolError, "does not speak TLS; write stomp:// if it"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", CertificateError, "wants a certificate of ours"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", CertificateError, "our certificate: it was revoked"),
        ("TLSV1_ALERT_UNKNOWN_CA", CertificateError, "it does not know its authority"),
        ("INTERNAL_ERROR", LinkLostError, "closed the connection: INTERNAL_ERROR"),
        (None, LinkLostError, "as OpenSSL says it"),
    ],
)
def test_each_end_says_what_to_do(reason: str | None, kind: type, words: str) -> None:
    """Which may pass by itself is lost, which will not is something else."""
    found = tls_failure(ADDRESS, failure(reason))
    assert type(found) is kind
    assert words in str(found)
    assert str(found).startswith("stomp+ssl://h:1 ")


def test_a_certificate_that_is_not_believed_says_why() -> None:
    """As OpenSSL says it, without its numbers and file names."""
    error = ssl.SSLCertVerificationError(1, "long words (_ssl.c:1)")
    error.verify_message = "certificate has expired"
    sentence = "the certificate of stomp+ssl://h:1 is not trusted: certificate has expired"
    assert str(tls_failure(ADDRESS, error)) == sentence


def test_codes_tell_programs_which_side_spoke_in_clear() -> None:
    """And the dialer, which does not go on trying what will not pass."""
    assert tls_failure(ADDRESS, failure("WRONG_VERSION_NUMBER")).code == NO_TLS
    assert in_clear(ADDRESS).code == TLS_REQUIRED
