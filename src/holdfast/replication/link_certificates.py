"""
What the two ends of a link by TLS have shown, as far as members go by it.

That a certificate is one of the cluster's authority is checked while TLS begins; here is whose it
is, and which two certificates they are. Both ends tell each other in what they prove by the secret:
so whoever has stolen one of the two, a certificate or the secret, stands nowhere.

Immutable values.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from dataclasses import dataclass, field
from typing import Any

from holdfast.transport.own_certificate import why_not_taken
from holdfast.transport.rehearsal import rehearse
from holdfast.transport.tls import Contexts, TlsOptions, shown_by


@dataclass(frozen=True, slots=True)
class Certificates:
    """The two certificates of one link."""

    own: str
    """The SHA-256 of what we have shown, hexadecimal."""

    other: str
    """The same of the other end."""

    names: frozenset[str] = field(default=frozenset())
    """Whose the other one is: the names of hosts in it."""

    def as_told(self) -> dict[str, str]:
        """What the other end is told that we see."""
        return {"own": self.own, "other": self.other}

    def are_told(self, told: object) -> bool:
        """Whether the other end sees the same two."""
        return told == {"own": self.other, "other": self.own}

    def refusal(self, name: str) -> str:
        """Say why the other end is not the member of that name; empty: it may be."""
        if name in self.names:
            return ""
        named = ", ".join(sorted(self.names)) or "nobody"
        return f"its certificate is that of {named}, not of {name}"


def certificates_of(transport: asyncio.BaseTransport) -> Certificates | None:
    """Give what was shown on a connection; None: it is in clear."""
    shaken = transport.get_extra_info("ssl_object")
    context = transport.get_extra_info("sslcontext")
    if not isinstance(shaken, ssl.SSLObject) or not isinstance(context, ssl.SSLContext):
        return None
    other = hashlib.sha256(shaken.getpeercert(binary_form=True) or b"").hexdigest()
    return Certificates(shown_by(context), other, _names(shaken))


def refusal_of_own(made: Contexts, options: TlsOptions, name: str) -> str:
    """
    Say why no member would be linked with the one of that name by this, and what to do; empty: they
    would be.

    Each member judges the others as it is judged by them, so this one is asked about itself.

    Args:
        options: By which it was read.
        name: Empty: whose it is to be is not known.
    """
    assert made.dialing is not None, "members dial"
    try:
        accepted, _ = rehearse(made.accepting, made.dialing)
    except ssl.SSLError as error:
        return why_not_taken(error, options)
    if not name:
        return ""
    why = Certificates(made.fingerprint, made.fingerprint, _names(accepted)).refusal(name)
    return f"{why}: make one for it (holdfast certificates make --node {name})" if why else ""


def _names(shaken: ssl.SSLObject) -> frozenset[str]:
    shown: dict[str, Any] = shaken.getpeercert() or {}
    return frozenset(value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS")
