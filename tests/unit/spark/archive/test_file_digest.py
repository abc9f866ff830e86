"""A file's digest: of the kind that its manifest names, part by part as in one piece."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import CorruptArchiveError
from holdfast.spark.archive.file_digest import NEW, DigestKind, FileDigest, kind_of
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.store import Archive

CHECK = b"123456789"
"""RFC 3720 B.4 and every table of CRCs give the checksum of these."""


@pytest.mark.parametrize("kind", ["crc32c", "blake2b"])
def test_a_digest_is_of_all_bytes_however_they_come(kind: DigestKind) -> None:
    """Buffers of Arrow's, too, as a whole file comes in."""
    digest = FileDigest(kind)
    for part in (CHECK[:4], b"", pa.py_buffer(CHECK[4:])):
        digest.update(part)
    wanted = {"crc32c": "crc32c:e3069283", "blake2b": blake2b(CHECK, digest_size=16).hexdigest()}
    assert (digest.size, digest.text) == (9, wanted[kind])
    assert kind_of(digest.text) == kind


@pytest.mark.parametrize("kind", ["crc32c", "blake2b"])
def test_a_file_is_compared_by_the_kind_its_manifest_names(
    tmp_path: Path, kind: DigestKind
) -> None:
    """Archives that were written before go on being read; one flipped bit is found in both."""
    content = bytes(range(256)) * 100
    (tmp_path / "1.parquet").write_bytes(content)
    archive = Archive.open(str(tmp_path))
    size, text = archive.digest("1.parquet", kind)
    file = ArchivedFile(
        path="1.parquet",
        day="2020-01-01",
        first_index=1,
        last_index=1,
        rows=1,
        messages=1,
        bytes=size,
        digest=text,
        chain_before="",
        chain_after="",
    )
    archive.check(file)
    with pytest.raises(CorruptArchiveError, match="not what was archived"):
        archive.check(replace(file, bytes=size - 1))
    for bit in (0, 8 * size // 2, 8 * size - 1):
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        (tmp_path / "1.parquet").write_bytes(spoilt)
        with pytest.raises(CorruptArchiveError, match=rf"with {text}$"):
            archive.check(file)


def test_files_are_written_with_the_quick_kind() -> None:
    """What `RangeWriter` and `Archive.digest` take unless told otherwise."""
    assert NEW == "crc32c"
    assert FileDigest().text == "crc32c:00000000"
