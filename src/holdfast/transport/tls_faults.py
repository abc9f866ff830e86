"""
What ended a handshake, said so that it can be put right: OpenSSL's own words help nobody.

Both ends are told here: the one that was asked says why it refuses, the one that asked, what it
met. Whoever asks says it in a sentence of its own, as it knows what it was asked for.

Pure.
"""

from __future__ import annotations

import ssl
from enum import Enum
from typing import Final

ALERT: Final = b"\x15\x03"
"""RFC 8446, 5.1: how TLS ends what is no TLS."""

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, and one is required",
    "UNSUPPORTED_PROTOCOL": "it speaks older versions of TLS only",
    "NO_SHARED_CIPHER": "it knows no cipher that is used here",
    "NO_SUITABLE_KEY_SHARE": "it does not know P-256, by which keys are agreed upon here",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not trust our certificate",
}
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


class Fault(Enum):
    """What an asker has met."""

    UNTRUSTED = "untrusted"
    """The certificate that was shown; the words say why."""

    NO_TLS = "no tls"
    """Somebody who speaks none."""

    REFUSED = "refused"
    """Our own certificate is not taken; the words say why."""

    WANTED = "wanted"
    """One of ours is wanted, and there was none or a wrong one."""

    LOST = "lost"
    """Anything else; the words are OpenSSL's."""


def met(error: ssl.SSLError) -> tuple[Fault, str]:
    """Say what somebody who asked has met, and why."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault.UNTRUSTED, error.verify_message or str(error)
    reason = error.reason or ""
    if reason in _NO_TLS:
        return Fault.NO_TLS, reason
    if reason in _REFUSES_OURS:
        return Fault.REFUSED, _REFUSES_OURS[reason]
    if reason in _WANTS_OURS:
        return Fault.WANTED, reason
    return Fault.LOST, reason or str(error)


def refused_because(error: Exception) -> str:
    """Say why somebody who asked was refused, for operators."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = str(getattr(error, "reason", None) or error)
    return _REASONS.get(reason, reason.replace("_", " ").lower())
