"""
Where an admin port is asked, in clear or by TLS, and what is said where the two meet.

    HOST:PORT, http://HOST:PORT                          in clear
    https://HOST:PORT?caFile=ca.pem&certificateFile=me.pem&keyFile=me.key      by TLS

Files that an address does not name are taken from HOLDFAST_CA_FILE, HOLDFAST_CERTIFICATE_FILE and
HOLDFAST_KEY_FILE; without any authority those of the system are believed. The name in the address
must stand in the certificate.

A port that is full closes on who comes, or on who came before: so a connection by TLS is tried
again for some seconds (`knocked`). Nothing has been asked by then, so nothing is asked twice.

Invariants:
    No key asks a terminal for its password.
    Nothing is sent before the other end has shown a certificate that is believed.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.client import BadStatusLine, HTTPConnection
from pathlib import Path
from typing import Final, Self, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from holdfast.errors import CertificateError, ConfigError, LinkError, LinkLostError
from holdfast.transport.client_tls import client_context
from holdfast.transport.tls_faults import ALERT, Fault, met

TLS_REQUIRED: Final = "tls-required"
"""The code of the answer to who speaks in clear where TLS is spoken."""

T = TypeVar("T")

KNOCK_SECONDS_MAX: Final = 5.0
"""For so long one is tried again that was closed before either end was shown."""

_KNOCK_SECONDS: Final = 0.02
_KNOCK_FACTOR: Final = 1.5
CLOSED: Final = (
    *(ConnectionResetError, ConnectionAbortedError, BrokenPipeError),
    *(ssl.SSLEOFError, ssl.SSLZeroReturnError),
)
"""What is met where the other end closes before it has said anything."""

_ALERT_LINE: Final = ALERT.decode("latin-1")
_OPTIONS: Final = {
    "caFile": "ca_file",
    "certificateFile": "certificate_file",
    "keyFile": "key_file",
}
VARIABLES: Final = {
    "ca_file": "HOLDFAST_CA_FILE",
    "certificate_file": "HOLDFAST_CERTIFICATE_FILE",
    "key_file": "HOLDFAST_KEY_FILE",
}


@dataclass(frozen=True, slots=True)
class Files:
    """What is believed, and what is shown: PEM; empty where nothing is said."""

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    """Empty: the key stands in the file of the certificate."""


NO_FILES: Final = Files()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One admin port, as it is to be asked."""

    place: str
    """`host:port`."""

    files: Files | None = None
    """None: in clear."""

    fingerprint: str = ""
    """Believe this certificate and no other: the SHA-256 of it, hexadecimal."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read an address of one of the forms above.

        Raises:
            ConfigError: It is of none.
        """
        scheme, colon, rest = text.strip().partition("://")
        if not colon:
            return cls(text.strip())
        split = urlsplit(f"//{rest}")
        if scheme not in ("http", "https") or "@" in split.netloc or not _has_port(split):
            raise ConfigError([f"{scheme}://{rest[:80]}: expected http:// or https://HOST:PORT"])
        if split.path not in ("", "/") or split.fragment:
            raise ConfigError([f"{scheme}://{split.netloc}: nothing but options may follow it"])
        given = parse_qsl(split.query, keep_blank_values=True)
        unknown = [name for name, _ in given if name not in _OPTIONS]
        if unknown or (given and scheme == "http"):
            known = ", ".join(_OPTIONS)
            raise ConfigError(
                [f"{scheme}://{split.netloc}: an address has options {known}, and with https only"]
            )
        named = {_OPTIONS[name]: value for name, value in given}
        return cls(split.netloc, Files(**named) if scheme == "https" else None)

    def __str__(self) -> str:
        """The address, without its options."""
        return self.place if self.files is None else f"https://{self.place}"

    def beside(self, text: str) -> str:
        """Give another node's address with the files of this one, as a text to be parsed."""
        other = Endpoint.parse(text)
        if other.files is None or self.files is None or other.files != NO_FILES:
            return text
        return addressed(other.place, self.files)

    def trusting(self, fingerprint: str) -> Endpoint:
        """Give it by TLS, with this certificate and no other."""
        return replace(self, files=self.files or NO_FILES, fingerprint=fingerprint)

    def connection(self, seconds: float) -> HTTPConnection:
        """
        Make a connection by TLS that is not open yet.

        Raises:
            ConfigError: A file cannot be read or used.
        """
        assert self.files is not None, "in clear there is nothing to be checked"
        files = _completed(self.files, os.environ)
        if not self.fingerprint:
            return _TlsConnection(self.place, seconds, _context(files, _written_at(files)))
        own = replace(files, ca_file="")
        return _TlsConnection(
            self.place, seconds, _context(own, _written_at(own), checks=False), self.fingerprint
        )

    def failure(self, error: Exception) -> LinkError:
        """Give our error for what became of asking it."""
        if isinstance(error, BadStatusLine) and str(error).startswith(_ALERT_LINE):
            return spoken_in_clear(self)
        if isinstance(error, ClosedError):
            return LinkLostError(
                f"no answer from the admin port {self}: it closed each connection without a word,"
                f" for {KNOCK_SECONDS_MAX:g} seconds; if it has no room its node's log says so"
            )
        if isinstance(error, ssl.SSLError):
            return self._tls_failure(error)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return LinkLostError(f"no answer from the admin port {self}: {reason}")

    def _tls_failure(self, error: ssl.SSLError) -> LinkError:
        fault, why = met(error)
        if fault is Fault.UNTRUSTED:
            hint = "" if self.files and self.files.ca_file else "; name its authority by ?caFile="
            return CertificateError(f"the certificate of {self} is not trusted: {why}{hint}")
        if fault is Fault.NO_TLS:
            return LinkLostError(f"{self} does not speak TLS; ask it as {self.place}, in clear")
        if fault is Fault.REFUSED:
            return CertificateError(f"{self} refuses our certificate: {why}")
        if fault is Fault.WANTED:
            return CertificateError(f"{self} wants a certificate of ours: give ?certificateFile=")
        return LinkLostError(f"no answer from the admin port {self}: {why}")


def _has_port(split: SplitResult) -> bool:
    try:
        return bool(split.hostname and split.port)
    except ValueError:
        return False


def addressed(place: str, files: Files) -> str:
    """Write the address of a port by TLS as `Endpoint.parse` reads it."""
    options = {name: getattr(files, key) for name, key in _OPTIONS.items()}
    query = "&".join(f"{name}={quote(value)}" for name, value in options.items() if value)
    return f"https://{place}?{query}" if query else f"https://{place}"


def spoken_in_clear(endpoint: Endpoint) -> LinkError:
    """Give our error for a port that speaks TLS and was spoken to in clear."""
    return LinkLostError(
        f"{endpoint} speaks TLS: ask it as https://{endpoint.place}, or on its machine as the"
        f" node's user"
    )


class ClosedError(OSError):
    """The other end closed each connection that was tried."""


def knocked(ask: Callable[[], T]) -> T:
    """
    Ask again and again as long as the other end closes without a word, and give what it answers.

    Raises:
        ClosedError: It did for `KNOCK_SECONDS_MAX`.
    """
    pause, until = _KNOCK_SECONDS, time.monotonic() + KNOCK_SECONDS_MAX
    while True:
        try:
            return ask()
        except CLOSED as error:
            if time.monotonic() + pause >= until:
                raise ClosedError(*error.args) from error
        time.sleep(pause)
        pause *= _KNOCK_FACTOR


def open_no_more(connection: HTTPConnection) -> None:
    """
    Let a connection end with its socket: by another one somebody else might answer.

    Raises:
        ConnectionResetError: It has ended already, so that nothing more was sent on it.
    """

    def refuse() -> None:
        raise ConnectionResetError(errno.ECONNRESET, "it closed the connection it was known by")

    connection.connect = refuse  # type: ignore[method-assign]
    if connection.sock is None:
        refuse()


class _TlsConnection(HTTPConnection):
    """HTTP by TLS with somebody whose certificate is believed."""

    def __init__(
        self, place: str, seconds: float, context: ssl.SSLContext, fingerprint: str = ""
    ) -> None:
        super().__init__(place, timeout=seconds)
        self._context = context
        self._fingerprint = fingerprint

    def connect(self) -> None:
        knocked(self._connect)

    def _connect(self) -> None:
        super().connect()
        plain = self.sock
        try:
            wrapped = self._context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self.sock = wrapped
        shown = wrapped.getpeercert(binary_form=True) or b""
        if self._fingerprint and hashlib.sha256(shown).hexdigest() != self._fingerprint:
            self.close()
            untrusted = ssl.SSLCertVerificationError("another certificate")
            untrusted.verify_message = "it is not the one that the node's file tells of"
            raise untrusted


def _completed(files: Files, environment: Mapping[str, str]) -> Files:
    """Fill in from the environment what an address does not name."""
    found = {
        key: getattr(files, key) or environment.get(variable, "")
        for key, variable in VARIABLES.items()
    }
    if files.certificate_file:
        found["key_file"] = files.key_file
    return Files(**found)


def _written_at(files: Files) -> tuple[int, ...]:
    """When they were written: what was renewed is read again."""
    try:
        return tuple(
            Path(it).stat().st_mtime_ns
            for it in (files.ca_file, files.certificate_file, files.key_file)
            if it
        )
    except OSError:
        return ()  # That is told when it is read.


@functools.lru_cache(maxsize=16)
def _context(files: Files, _written: tuple[int, ...], *, checks: bool = True) -> ssl.SSLContext:
    """
    Give what connections go by; reading the authorities of a system takes longer than asking.

    Raises:
        ConfigError: A file cannot be read or used.
    """
    return client_context(files.ca_file, files.certificate_file, files.key_file, is_checked=checks)
