"""
A handshake in memory, before anybody comes: what is shown, and whether it is taken.

What OpenSSL makes of files it tells nobody: which certificate of several blocks it shows, and
whether one that can be used is one that the other end takes. Both are found out by letting it.

Pure but for the clock of OpenSSL, by which certificates end. Safe to use from any thread.
"""

from __future__ import annotations

import ssl
from typing import Final

from holdfast.transport.client_tls import unchecked_context

_ROUNDS_MAX: Final = 16
"""A handshake takes three; one that goes on does not end by itself."""


def rehearse(
    accepting: ssl.SSLContext, dialing: ssl.SSLContext, host: str | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """
    Give the two ends, who accepts first, of a handshake that went well.

    Args:
        host: Where the one that dials does so, if its context asks for that in the certificate.

    Raises:
        ssl.SSLError: One does not take what the other shows, or speaks.
    """
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        accepting.wrap_bio(one, other, server_side=True),
        dialing.wrap_bio(other, one, server_hostname=host),
    )
    left = list(ends)
    for _ in range(_ROUNDS_MAX):
        for end in left[::-1]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
        if not left:
            return ends
    raise ssl.SSLError(ssl.SSL_ERROR_SSL, "it comes to no end")


def certificate_shown(accepting: ssl.SSLContext) -> bytes:
    """
    Give the certificate that a context shows who comes, as it goes over the wire.

    Args:
        accepting: It asks for no certificate yet.

    Raises:
        ssl.SSLError: It has none, or shows it to nobody.
    """
    shown = rehearse(accepting, unchecked_context())[1].getpeercert(binary_form=True)
    if not shown:
        raise ssl.SSLError(ssl.SSL_ERROR_SSL, "it shows no certificate")
    return shown
