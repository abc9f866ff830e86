"""
What a port shows of itself by TLS, what it asks of those who come, and how that is renewed.

A context whose files are read again may go on serving the old certificate, and sessions that began
before a revocation could be resumed. So each renewal makes a new context, which those who come
from then on are given; whoever is connected stays.

Invariants:
    What cannot be used changes nothing: the context before it goes on.
    A file of revocations adds nobody who is believed.
    No key asks a terminal for its password.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

from holdfast.environment.secret_files import tell_of_readers
from holdfast.errors import ConfigError
from holdfast.transport.client_tls import GROUP
from holdfast.transport.pem import Dated, certificates_of, read_pem, revocations_of
from holdfast.transport.rehearsal import certificate_shown

ClientCertificates = Literal["none", "wanted", "required"]
Minimum = Literal["1.2", "1.3"]

SOON: Final = timedelta(days=30)
"""So long before a certificate has run out it is told of, or in the last part of its time."""
SOON_PART: Final = 5
"""Which part that is, if it is less."""

_READ_AGAIN_MAX: Final = 3
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_NO_PEM: Final = {"NO_START_LINE", "PEM", "NO_CERTIFICATE_OR_CRL_FOUND"}
_ASKED: Final = {
    "none": ssl.CERT_NONE,
    "wanted": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


ENDINGS_MAX: Final = 32
"""Of so many of one table is told when they end, of the first to do so."""


class Ending(NamedTuple):
    """Until when a certificate, or a list of revocations, can be used."""

    kind: str
    """What of a table it is, by its key there: `certificate`, `client_ca`, `ca` or `crl`."""

    named: str
    """The common name in it."""

    begins: datetime
    ends: datetime


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

    ca: Path | None = None
    """The authorities of the other nodes, as this one asks them, PEM. None: those of `client_ca`,
    or of the system."""

    minimum: Minimum = "1.2"
    """The oldest version of TLS that is spoken."""

    def build_context(self) -> ssl.SSLContext:
        """
        Read the files and make what a handshake goes by.

        Raises:
            ConfigError: One cannot be read or used.
        """
        for key, path in self._files():
            self._require_readable(key, path)
        context = self._new_context(ssl.PROTOCOL_TLS_SERVER)
        if self.client_ca is not None:
            self._load("client_ca", self.client_ca, context)
        if self.crl is not None:
            self._load_revocations(self.crl, context)
        if self.ca is not None:
            self._load("ca", self.ca, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        _SHOWN[context] = self._shown_in(context)
        context.verify_mode = _ASKED[self.client]
        return context

    def build_dialing_context(self) -> ssl.SSLContext:
        """
        Make what a connection to another node goes by; whose name it shows is the caller's to see.

        Raises:
            ConfigError: A file cannot be read or used.
        """
        context = self._new_context(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        authorities = self.ca or self.client_ca
        if authorities is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            self._load("ca" if self.ca else "client_ca", authorities, context)
        if self.crl is not None and self.ca is None:  # They are those of `client_ca`.
            self._load_revocations(self.crl, context)
        return context

    def _files(self) -> Iterator[tuple[str, Path]]:
        for key in ("certificate", "key", "client_ca", "crl", "ca"):
            path: Path | None = getattr(self, key)
            if path is not None:
                yield key, path

    def _new_context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = _VERSIONS[self.minimum]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_ecdh_curve(GROUP)
        self._load_own(context)
        return context

    def warnings(self, now: datetime) -> list[str]:
        """
        Say what will be refused by others though it can be used: what has run out, or is not whole.

        Raises:
            OSError: A file cannot be read.
        """
        found = []
        for key, path in self._files():
            dated = _dated_in(key, path)
            for each in dated:
                if each.begins > now:
                    found.append(f"{key}: {path} is valid from {each.begins:%Y-%m-%d %H:%M} on")
                elif each.ends is not None and each.ends < now:
                    found.append(f"{key}: {path} ran out at {each.ends:%Y-%m-%d %H:%M} UTC")
                elif (
                    key != "crl"
                    and each.ends is not None
                    and each.ends - now < _soon(each.begins, each.ends)
                ):
                    found.append(f"{key}: {path} runs out at {each.ends:%Y-%m-%d %H:%M} UTC")
            if key == "certificate" and any(a.issuer != b.subject for a, b in pairwise(dated)):
                found.append(
                    f"{key}: {path}: each certificate is to stand before the one that vouches for"
                    f" it"
                )
        return [f"tls.{self.name}.{it}" for it in dict.fromkeys(found)]

    def endings(self) -> tuple[Ending, ...]:
        """
        Say until when each of its certificates and lists can be used, the first to end first.

        Of several authorities of one name the one that ends last counts, as a renewed one stands
        beside the one that it follows; of certificates that are shown the first, as it is the one
        that is. A file that cannot be read has none.
        """
        last: dict[tuple[str, str], Ending] = {}
        for key, path in self._files():
            if key == "key":
                continue
            try:
                dated = _dated_in(key, path)
            except OSError:
                continue
            for it in dated:
                if it.ends is None:
                    continue
                known = last.get((key, it.named))
                if known is None or (key != "certificate" and known.ends < it.ends):
                    last[key, it.named] = Ending(key, it.named, it.begins, it.ends)
        return tuple(sorted(last.values(), key=lambda it: it.ends)[:ENDINGS_MAX])

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
        tell_of_readers(key)
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

    def _shown_in(self, context: ssl.SSLContext) -> str:
        # OpenSSL is asked: what it takes from a file is not what somebody else reads there.
        try:
            return hashlib.sha256(certificate_shown(context)).hexdigest()
        except ssl.SSLError as error:
            raise ConfigError(
                [f"tls.{self.name}.certificate: {self.certificate} is not used: {_why(error)}"]
            ) from None

    def _load_revocations(self, path: Path, context: ssl.SSLContext) -> None:
        # OpenSSL is asked what it has taken. A look at the text finds only what is not hidden from
        # it, and the file may be another one a moment later. The context is nobody's yet.
        before = context.cert_store_stats()
        self._load("crl", path, context)
        taken = context.cert_store_stats()
        if taken["x509"] != before["x509"]:
            what = "has a certificate in it, which would be believed as an authority"
            raise ConfigError(
                [f"tls.{self.name}.crl: {path} {what}; it is to have lists of revocations only"]
            )
        if taken["crl"] == before["crl"]:
            raise ConfigError(
                [f"tls.{self.name}.crl: {path} is not used: it is no PEM file of that kind"]
            )
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

    def _load(self, key: str, path: Path, context: ssl.SSLContext) -> None:
        try:
            context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = _why(error)
            raise ConfigError([f"tls.{self.name}.{key}: {path} is not used: {reason}"]) from None


def _dated_in(key: str, path: Path) -> list[Dated]:
    blocks = read_pem(path)
    return revocations_of(blocks) if key == "crl" else certificates_of(blocks)


def _soon(begins: datetime, ends: datetime) -> timedelta:
    return min(SOON, (ends - begins) / SOON_PART)


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason in _NO_PEM or (reason is None and isinstance(error, ssl.SSLError)):
        return "it is no PEM file of that kind"
    return str(reason or error).replace("_", " ").lower()


_SHOWN: Final[WeakKeyDictionary[ssl.SSLContext, str]] = WeakKeyDictionary()


def shown_by(context: ssl.SSLContext) -> str:
    """
    Give the SHA-256 of the certificate that is shown by a context of ours, hexadecimal.

    The library tells of a connection what the other end has shown, and not what we have.
    """
    return _SHOWN.get(context, "")


class Contexts(NamedTuple):
    """What was read together."""

    accepting: ssl.SSLContext
    dialing: ssl.SSLContext | None
    fingerprint: str
    """The SHA-256 of the certificate that is shown, hexadecimal."""

    endings: tuple[Ending, ...] = ()
    """Until when what was read can be used."""


class ServerTls:
    """What a port goes by now; given to each connection when its handshake begins."""

    __slots__ = ("_dials", "options", "used")

    def __init__(self, options: TlsOptions, *, dials: bool = False) -> None:
        """
        Read the files.

        Args:
            dials: Other nodes are asked in the same way, see `dialing`.

        Raises:
            ConfigError: One cannot be read or used.
        """
        self.options = options
        self._dials = dials
        self.use(self.read())

    def read(self) -> Contexts:
        """
        Read the files again; what is given counts once it is handed to `use`.

        Raises:
            ConfigError: One cannot be read or used.
        """
        options = self.options
        accepting, dialing = options.build_context(), None
        for _ in range(_READ_AGAIN_MAX if self._dials else 0):
            before = shown_by(accepting)
            dialing = options.build_dialing_context()
            accepting = options.build_context()
            if shown_by(accepting) == before:
                break  # Else it was replaced just now, and who dials shows another one.
        made = Contexts(accepting, dialing, shown_by(accepting), options.endings())
        if made.dialing is not None:
            _SHOWN[made.dialing] = made.fingerprint
        return made

    @property
    def context(self) -> ssl.SSLContext:
        """What those go by who come."""
        return self.used.accepting

    @property
    def dialing(self) -> ssl.SSLContext | None:
        """What connections to other nodes go by."""
        return self.used.dialing

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate that is shown, hexadecimal."""
        return self.used.fingerprint

    @property
    def endings(self) -> tuple[Ending, ...]:
        """Until when what was read can be used."""
        return self.used.endings

    def use(self, made: Contexts) -> None:
        """Go by this from now on."""
        self.used: Contexts = made


def read_again(shown: Collection[ServerTls]) -> list[tuple[ServerTls, Contexts]]:
    """
    Read all files again, and give what is to be put in place once all of them could be.

    Touches nothing: it may be called on any thread.

    Raises:
        ConfigError: Some cannot be read or used; with all of them.
    """
    made, problems = [], []
    for each in shown:
        try:
            made.append((each, each.read()))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made
