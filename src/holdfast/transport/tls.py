"""
What a port shows of itself by TLS, what it asks of those who come, and how that is renewed.

A context whose files are read again may go on serving the old certificate, and sessions that began
before a revocation could be resumed. So each renewal makes a new context, which those who come
from then on are given; whoever is connected stays.

Invariants:
    What cannot be used changes nothing: the context before it goes on.
    No key asks a terminal for its password.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from holdfast.errors import ConfigError

ClientCertificates = Literal["none", "wanted", "required"]
Minimum = Literal["1.2", "1.3"]

_GROUP: Final = "prime256v1"
"""
What keys are agreed upon by, which everybody has to know (RFC 8446, 9.1). OpenSSL knows others that
a stranger may choose, the largest of which stops the loop for 0.12 s, by a single greeting.
"""

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_NO_PEM: Final = {"NO_START_LINE", "PEM", "NO_CERTIFICATE_OR_CRL_FOUND"}
_ASKED: Final = {
    "none": ssl.CERT_NONE,
    "wanted": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """One table `[tls.NAME]` of the file."""

    name: str
    certificate: Path
    """What is shown, and after it those that vouch for it up to the authority; PEM."""

    key: Path | None = None
    """Its key, PEM, without a password. None: it stands in the file of the certificate."""

    client_ca: Path | None = None
    """The authorities whose certificates clients may show, PEM."""

    client: ClientCertificates = "none"
    """Whether clients are asked for one."""

    crl: Path | None = None
    """What these authorities have revoked, PEM."""

    minimum: Minimum = "1.2"
    """The oldest version of TLS that is spoken."""

    def build_context(self) -> ssl.SSLContext:
        """
        Read the files and make what a handshake goes by.

        Raises:
            ConfigError: One cannot be read or used.
        """
        for key, path in (
            ("certificate", self.certificate),
            ("key", self.key),
            ("client_ca", self.client_ca),
            ("crl", self.crl),
        ):
            if path is not None:
                self._require_readable(key, path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self.minimum]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_ecdh_curve(_GROUP)
        self._load_own(context)
        if self.client_ca is not None:
            self._load("client_ca", self.client_ca, context)
        if self.crl is not None:
            self._load("crl", self.crl, context)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        context.verify_mode = _ASKED[self.client]
        return context

    def _require_readable(self, key: str, path: Path) -> None:
        try:
            if path.exists() and not path.is_file():
                raise ConfigError([f"tls.{self.name}.{key}: {path} is no regular file"])
            with path.open("rb") as file:
                file.read(1)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError([f"tls.{self.name}.{key}: {path} cannot be read: {reason}"]) from None

    def _load_own(self, context: ssl.SSLContext) -> None:
        def refuse() -> str:
            raise ValueError("it is kept under a password, which nobody could type")

        key = self.key or self.certificate
        try:
            context.load_cert_chain(self.certificate, self.key, password=refuse)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                problem = f"key: {key} is not the key of {self.certificate}"
            else:
                problem = f"certificate: {self.certificate} and {key} are not used: {_why(error)}"
            raise ConfigError([f"tls.{self.name}.{problem}"]) from None
        except (OSError, ValueError) as error:
            raise ConfigError([f"tls.{self.name}.key: {key} is not used: {error}"]) from None

    def _load(self, key: str, path: Path, context: ssl.SSLContext) -> None:
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = _why(error)
            raise ConfigError([f"tls.{self.name}.{key}: {path} is not used: {reason}"]) from None


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason in _NO_PEM or (reason is None and isinstance(error, ssl.SSLError)):
        return "it is no PEM file of that kind"
    return str(reason or error).replace("_", " ").lower()


class ServerTls:
    """What a port goes by now; given to each connection when its handshake begins."""

    __slots__ = ("context", "options")

    def __init__(self, options: TlsOptions) -> None:
        """
        Read the files.

        Raises:
            ConfigError: One cannot be read or used.
        """
        self.options = options
        self.context = options.build_context()


def read_again(shown: Collection[ServerTls]) -> list[tuple[ServerTls, ssl.SSLContext]]:
    """
    Read all files again, and give what is to be put in place once all of them could be.

    Touches nothing: it may be called on any thread.

    Raises:
        ConfigError: Some cannot be read or used; with all of them.
    """
    made, problems = [], []
    for each in shown:
        try:
            made.append((each, each.options.build_context()))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made
