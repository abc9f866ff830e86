"""
Blocks of PEM files: their kinds, and the names and times of what they hold.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from holdfast.transport.certificates import open_authority
from holdfast.transport.pem import Dated, certificates_of, read_pem, revocations_of


def test_a_file_is_told_by_its_blocks(certificates: Path) -> None:
    """A node's file has its certificate and its key; the names and times are the certificate's."""
    blocks = read_pem(certificates / "node.pem")
    assert [kind for kind, _ in blocks] == ["CERTIFICATE", "PRIVATE KEY"]
    (found,) = certificates_of(blocks)
    told = x509.load_pem_x509_certificate((certificates / "node.pem").read_bytes())
    assert found.subject != found.issuer
    assert found.ends == told.not_valid_after_utc
    assert found.begins == told.not_valid_before_utc
    (authority,) = certificates_of(read_pem(certificates / "ca.pem"))
    assert authority.subject == authority.issuer == found.issuer
    assert found.named == "node"


@pytest.mark.parametrize("name", [b"", b"\x31", b"\x31\x02\x30\x00", b"\xff" * 9])
def test_a_name_that_cannot_be_read_is_none(name: bytes) -> None:
    """It is told of by its place all the same."""
    now = datetime.now(UTC)
    assert Dated(b"", name, name, now, now).named == ""


@pytest.mark.parametrize("days", [3, 365 * 40])
def test_revocations_say_until_when_they_are_good(certificates: Path, tmp_path, days: int) -> None:
    """Also where that is after 2049, which is written in another way."""
    authority, _ = open_authority(certificates)
    now = datetime(2026, 5, 1, tzinfo=UTC)
    made = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now)
        .next_update(now + timedelta(days=days))
        .sign(authority.key, hashes.SHA256())
    )
    file = tmp_path / "crl.pem"
    file.write_bytes(made.public_bytes(Encoding.PEM))
    (found,) = revocations_of(read_pem(file))
    assert (found.begins, found.ends) == (now, now + timedelta(days=days))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"what",
        b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMIAwgDCA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN X509 CRL-----\nMAAwAA==\n-----END X509 CRL-----\n",
    ],
)
def test_what_makes_no_sense_is_left_to_openssl(tmp_path: Path, text: bytes) -> None:
    """It is the one who says what is wrong with a file."""
    file = tmp_path / "file.pem"
    file.write_bytes(text)
    blocks = read_pem(file)
    assert certificates_of(blocks) == []
    assert revocations_of(blocks) == []


def test_a_certificate_cut_anywhere_is_none(certificates: Path) -> None:
    """Lengths that lead out of it are no error of ours."""
    _, content = read_pem(certificates / "ca.pem")[0]
    for size in range(len(content)):
        certificates_of([("CERTIFICATE", content[:size])])
    assert len(certificates_of([("CERTIFICATE", content)])) == 1
