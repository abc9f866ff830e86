"""
What went wrong with TLS, said so that it can be put right: OpenSSL's own words help nobody.

Owned by nobody; pure.
"""

from __future__ import annotations

import ssl
from typing import Final

from holdfast.client.uri import Address
from holdfast.errors import CertificateError, LinkError, LinkLostError, RemoteProtocolError

TLS_REQUIRED: Final = "tls-required"
"""The code of a broker's refusal, and of our error: it was spoken to in clear."""

NO_TLS: Final = "no-tls"
"""The code of our error: it was spoken to by TLS, and does not speak that."""

ALERT: Final = b"\x15\x03"
"""RFC 8446, 5.1: how TLS ends what is no TLS."""

_NO_TLS: Final = {
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
}
_WANTS_OURS: Final = {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}
_REFUSES_OURS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know its authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it makes no sense to it",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust it",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not for a client",
}


def tls_failure(address: Address, error: ssl.SSLError) -> LinkError | RemoteProtocolError:
    """Give our error for what TLS ended a connection with."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or str(error)
        return CertificateError(f"the certificate of {address} is not trusted: {why}")
    reason = error.reason or ""
    if reason in _NO_TLS:
        return RemoteProtocolError(
            f"{address} does not speak TLS; write stomp:// if it is to be in clear", code=NO_TLS
        )
    if reason in _REFUSES_OURS:
        return CertificateError(f"{address} refuses our certificate: {_REFUSES_OURS[reason]}")
    if reason in _WANTS_OURS:
        return CertificateError(
            f"{address} wants a certificate of ours: give certificateFile, or another one"
        )
    return LinkLostError(f"{address} closed the connection: {reason or error}")


def in_clear(address: Address) -> RemoteProtocolError:
    """Give our error for an address that speaks TLS and was spoken to in clear."""
    return RemoteProtocolError(
        f"{address} speaks TLS; connect by stomp+ssl:// instead of stomp://", code=TLS_REQUIRED
    )
