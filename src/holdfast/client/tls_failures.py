"""
What went wrong with TLS, said so that it can be put right: OpenSSL's own words help nobody.

Owned by nobody; pure.
"""

from __future__ import annotations

import ssl
from typing import Final

from holdfast.client.address import Address
from holdfast.errors import CertificateError, LinkError, LinkLostError, RemoteProtocolError
from holdfast.transport.tls_faults import Fault, met

TLS_REQUIRED: Final = "tls-required"
"""The code of a broker's refusal, and of our error: it was spoken to in clear."""

NO_TLS: Final = "no-tls"
"""The code of our error: it was spoken to by TLS, and does not speak that."""


def tls_failure(address: Address, error: ssl.SSLError) -> LinkError | RemoteProtocolError:
    """Give our error for what TLS ended a connection with."""
    fault, why = met(error)
    if fault is Fault.UNTRUSTED:
        return CertificateError(f"the certificate of {address} is not trusted: {why}")
    if fault is Fault.NO_TLS:
        return RemoteProtocolError(
            f"{address} does not speak TLS; write stomp:// if it is to be in clear", code=NO_TLS
        )
    if fault is Fault.REFUSED:
        return CertificateError(f"{address} refuses our certificate: {why}")
    if fault is Fault.WANTED:
        return CertificateError(
            f"{address} wants a certificate of ours: give certificateFile, or another one"
        )
    return LinkLostError(f"{address} closed the connection: {why}")


def in_clear(address: Address) -> RemoteProtocolError:
    """Give our error for an address that speaks TLS and was spoken to in clear."""
    return RemoteProtocolError(
        f"{address} speaks TLS; connect by stomp+ssl:// instead of stomp://", code=TLS_REQUIRED
    )
