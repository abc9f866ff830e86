"""
Why a certificate of our own is not taken, and what to do.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from holdfast.transport.own_certificate import why_not_taken
from holdfast.transport.tls import TlsOptions

OPTIONS = TlsOptions(
    name="peers", certificate=Path("/e/a.pem"), client_ca=Path("/e/ca.pem"), crl=Path("/e/list.pem")
)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (20, "signed by an authority in client_ca = /e/ca.pem, or put its authority there"),
        (18, "signed by an authority in client_ca = /e/ca.pem"),
        (10, "it has run out, or its authority has: make a new one"),
        (9, "look at this machine's clock"),
        (23, "it stands in crl = /e/list.pem: make a new one"),
        (26, "that must be servers and clients both"),
        (12, "crl = /e/list.pem has no list of its authority's that is good now"),
        (62, "holdfast certificates make --node"),
    ],
)
def test_it_says_which_file_is_meant_and_what_to_do(code: int, words: str) -> None:
    """Behind the words of OpenSSL, by which it can be looked up."""
    error = ssl.SSLCertVerificationError("long words")
    error.verify_code, error.verify_message = code, "short words"
    told = why_not_taken(error, OPTIONS)
    assert told.startswith("this node itself does not take it: short words; ")
    assert words in told


def test_what_it_has_no_advice_for_it_says_as_it_is() -> None:
    """Of the certificate, or of TLS as such."""
    error = ssl.SSLCertVerificationError("long words")
    error.verify_code, error.verify_message = 79, "invalid CA certificate"
    assert why_not_taken(error, OPTIONS).endswith("take it: invalid CA certificate")
    assert why_not_taken(ssl.SSLError(1, "it comes to no end"), OPTIONS).endswith("to no end")
