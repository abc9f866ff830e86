"""
The TLS context of who dials: which authorities are believed, and what we show of ourselves.

One for the client library and for what asks an admin port, so that neither believes more than the
other, or asks the terminal for the password of a key.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from holdfast.environment.secret_files import tell_of_readers
from holdfast.errors import ConfigError

GROUP: Final = "prime256v1"
"""
What keys are agreed upon by, which everybody has to know (RFC 8446, 9.1). OpenSSL knows others that
a stranger may choose, the largest of which stops the loop for 0.12 s, by a single greeting. Who
dials offers it at once: asked for it he would need one more round trip.
"""


def client_context(
    ca_file: str = "",
    certificate_file: str = "",
    key_file: str = "",
    *,
    is_checked: bool = True,
    is_host_checked: bool = True,
) -> ssl.SSLContext:
    """
    Give what connections go by that we make.

    Args:
        ca_file: Certificates of the authorities that are believed; empty: those of the system.
            Not read where nobody is checked.
        certificate_file: Our own; empty: we show none.
        key_file: Its key; empty: it is in the same file.
        is_checked: Whether the other end's certificate is; else whoever asks looks at it himself.
        is_host_checked: Whether it must name the host that we dial.

    Raises:
        ConfigError: A file cannot be read or used, or its key is kept under a password.
    """
    try:
        context = unchecked_context()
        if is_checked:
            context = ssl.create_default_context(cafile=ca_file or None)
            context.check_hostname = is_host_checked
            context.set_ecdh_curve(GROUP)
        if certificate_file:
            tell_of_readers(Path(key_file or certificate_file))
            context.load_cert_chain(certificate_file, key_file or None, _refuse_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        named = ", ".join(filter(None, (ca_file, certificate_file, key_file))) or "(system)"
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError([f"TLS files {named}: {reason}"]) from error
    return context


def unchecked_context() -> ssl.SSLContext:
    """Give one that takes whatever certificate it is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ecdh_curve(GROUP)
    return context


def _refuse_password() -> str:
    """Or OpenSSL would ask the terminal for it."""
    raise ValueError("the key is kept under a password, which nobody is asked for")
