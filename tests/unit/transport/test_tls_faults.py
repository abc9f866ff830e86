"""
What OpenSSL ended a handshake with, by what can be done about it.
"""

from __future__ import annotations

import ssl

import pytest

from holdfast.transport.tls_faults import Fault, met, refused_because


def failure(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] as OpenSSL says it (_ssl.c:1006)")
    error.reason = reason  # type: ignore[assignment]
    return error


@pytest.mark.parametrize(
    ("reason", "fault", "why"),
    [
        ("HTTP_REQUEST", Fault.NO_TLS, "HTTP_REQUEST"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", Fault.REFUSED, "it has expired"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", Fault.WANTED, "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        ("INTERNAL_ERROR", Fault.LOST, "INTERNAL_ERROR"),
    ],
)
def test_what_was_met_is_told_by_what_to_do(reason: str, fault: Fault, why: str) -> None:
    """Another scheme, another certificate of ours, or waiting."""
    assert met(failure(reason)) == (fault, why)


def test_words_are_those_of_openssl_where_there_are_no_others() -> None:
    """Nothing is swallowed."""
    assert "as OpenSSL says it" in met(failure(None))[1]
    untrusted = ssl.SSLCertVerificationError(1, "long words (_ssl.c:1)")
    untrusted.verify_message = "certificate has expired"
    assert met(untrusted) == (Fault.UNTRUSTED, "certificate has expired")
    assert refused_because(untrusted) == "its certificate is refused: certificate has expired"


def test_operators_are_told_why_somebody_was_refused() -> None:
    """In words, also where there are none of ours."""
    assert "P-256" in refused_because(failure("NO_SUITABLE_KEY_SHARE"))
    assert refused_because(failure("BAD_THING")) == "bad thing"
