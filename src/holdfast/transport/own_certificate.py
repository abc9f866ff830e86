"""
Why what a node shows of itself is not taken by those who go by the same files, and what to do.

OpenSSL says it in words for who knows X.509; here they stand beside the file and the deed.

Pure: an error in, a sentence out.
"""

from __future__ import annotations

import ssl
from typing import Final

from holdfast.transport.tls import TlsOptions

_UNKNOWN_AUTHORITY: Final = {18, 19, 20, 21}
"""X509_V_ERR_*: self-signed, by itself or in the chain; its issuer is not there; nor that one's."""

_NOT_YET, _OVER, _REVOKED, _PURPOSE = 9, 10, 23, 26
_REVOCATIONS: Final = {3, 11, 12}
"""None there of this authority, not valid yet, over."""

_OTHER_NAME: Final = {62, 64}
"""Of a host, of an address."""


def why_not_taken(error: ssl.SSLError, options: TlsOptions) -> str:
    """Say why a handshake of what was read by these options with itself failed, and what to do."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"this node itself does not take it: {getattr(error, 'reason', None) or error}"
    told = f"this node itself does not take it: {error.verify_message}"
    advice = _advice(error.verify_code, options)
    return f"{told}; {advice}" if advice else told


def _advice(code: int, options: TlsOptions) -> str:
    if code in _UNKNOWN_AUTHORITY:
        where = f"ca = {options.ca}" if options.ca else f"client_ca = {options.client_ca}"
        return f"have it signed by an authority in {where}, or put its authority there on each node"
    if code == _OVER:
        return "it has run out, or its authority has: make a new one"
    if code == _NOT_YET:
        return "it is not valid yet: look at this machine's clock"
    if code == _REVOKED:
        return f"it stands in crl = {options.crl}: make a new one"
    if code == _PURPOSE:
        return "where it says what it is good for, that must be servers and clients both"
    if code in _REVOCATIONS:
        return f"crl = {options.crl} has no list of its authority's that is good now: fetch it anew"
    if code in _OTHER_NAME:
        return "make one that names where others ask this node (holdfast certificates make --node)"
    return ""
