"""
The name that a verified certificate gives its holder, by one rule for every protocol.

It is the first DNS name or e-mail address among its alternative names; without any, the last common
name of its subject. The certificate comes as `ssl.SSLSocket.getpeercert` gives it, after its chain
was verified: nothing is verified here.

Invariants:
    A certificate gives one name or none, whoever asks.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KINDS: Final = frozenset({"DNS", "email"})


def name_of(certificate: Mapping[str, Any] | None) -> str:
    """Give the name of who showed a certificate; empty: none was shown, or it names nobody."""
    if certificate is None:
        return ""
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in _KINDS:
            return str(value)
    names = [
        value
        for relative in certificate.get("subject", ())
        for kind, value in relative
        if kind == "commonName"
    ]
    return str(names[-1]) if names else ""
