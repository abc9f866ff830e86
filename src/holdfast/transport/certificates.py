"""
Certificates of one's own: an authority, and what it vouches for, for who has no other.

Each node and each client gets one file with its certificate and its key, so that a renewal is one
file put in place of another and nobody ever reads halves of two. Keys are P-256: a handshake with
one costs half of what it costs with RSA.

Invariants:
    What holds a key is readable by its user only, from its first byte on.
    A file is whole or as it was before, whenever it is read.

Needs the extra `certificates`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.environment.clock import SystemClock
from holdfast.environment.secret_files import tell_of_readers
from holdfast.errors import ConfigError

AUTHORITY_FILE: Final = "ca.pem"
AUTHORITY_KEY_FILE: Final = "ca.key"
AUTHORITY_DAYS: Final = 3650

_EARLIER: Final = timedelta(minutes=5)
"""Clocks differ: what is valid from now on only is refused by who is behind."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Who vouches, with the key to do so."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def open_authority(directory: Path) -> tuple[Authority, bool]:
    """
    Give the authority of a directory and whether it was made just now, as there was none.

    Raises:
        ConfigError: Its files cannot be read, used or written.
    """
    certificate_path, key_path = directory / AUTHORITY_FILE, directory / AUTHORITY_KEY_FILE
    try:
        if not certificate_path.exists() and not key_path.exists():
            return _make_authority(directory, _now()), True
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        tell_of_readers(key_path)
        key = load_pem_private_key(key_path.read_bytes(), None)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError([f"{error.filename or directory}: {reason}"]) from None
    except (ValueError, TypeError):
        raise ConfigError(
            [f"{certificate_path} and {key_path} are not an authority and its key"]
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        key.public_key() != certificate.public_key()
    ):
        raise ConfigError([f"{key_path} is not the key of {certificate_path}"])
    return Authority(certificate, key), False


def _make_authority(directory: Path, now: datetime) -> Authority:
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities of one name, an old and a new one, are told apart by nobody.
    called = f"Holdfast authority {secrets.token_hex(4)}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    usage = _usage(signs_certificates=True)
    certificate = (
        _begin(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(directory / AUTHORITY_KEY_FILE, _pem(key), mode=0o600)
    _write(directory / AUTHORITY_FILE, certificate.public_bytes(Encoding.PEM), mode=0o644)
    return Authority(certificate, key)


def make_node(authority: Authority, path: Path, name: str, hosts: Sequence[str], days: int) -> None:
    """
    Write the certificate and key of a node, which is known by its name and by these hosts.

    Raises:
        ConfigError: It cannot be written.
    """
    named = dict.fromkeys((name, *hosts, "localhost", "127.0.0.1", "::1"))
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    _make(authority, path, name, [_general_name(it) for it in named], usages, days)


def make_client(authority: Authority, path: Path, name: str, days: int) -> None:
    """
    Write the certificate and key of a client, which proves that name and is no server's.

    Raises:
        ConfigError: It cannot be written.
    """
    _make(authority, path, name, [], [ExtendedKeyUsageOID.CLIENT_AUTH], days)


def _make(
    authority: Authority,
    path: Path,
    name: str,
    names: list[x509.GeneralName],
    usages: list[x509.ObjectIdentifier],
    days: int,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = authority.certificate.subject
    builder = (
        _begin(subject, issuer, key, _now(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    try:
        _write(path, certificate.public_bytes(Encoding.PEM) + _pem(key), mode=0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError([f"{path} cannot be written: {reason}"]) from None


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _now() -> datetime:
    microseconds = SystemClock().wall_microseconds()
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, *, mode: int) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
