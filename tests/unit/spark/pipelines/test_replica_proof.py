"""One part of a replica: sound, or every break of it named."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from holdfast.errors import BusyError
from holdfast.journal.entry import HEADER, HEADER_BYTES
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, segment_name
from holdfast.model.records import QueueRecord
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.store_log import store_log
from holdfast.spark.pipelines.replica_audit import ReplicaAudit, _parts
from holdfast.spark.pipelines.replica_proof import Part, Replica, prove
from holdfast.store.record_codec import encode_records
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message


class _Silent(LogDirectory):
    """A log of which nobody gives the first entry just now."""

    def blocks(self, first_index: int, last_index: int) -> Any:
        if first_index == 1:
            raise BusyError("16 readers are answered already")
        return super().blocks(first_index, last_index)


def test_a_seam_that_nobody_tells_just_now_is_not_passed_over(tmp_path: Path, written) -> None:
    """The audit fails, and may be run again: without what stands before it less is proven."""
    directory = written(tmp_path, "a", b"x", b"y").source
    assert isinstance(directory, LogDirectory)
    with pytest.raises(BusyError):
        prove(Part(Replica("a", _Silent(directory.path)), 2, 3, log_first_index=1))


class _Altered(LogDirectory):
    """A log that gives entry 6 with another body, under good checksums."""

    def blocks(self, first_index: int, last_index: int) -> Any:
        for block in super().blocks(first_index, last_index):
            if isinstance(block, EntryBlock) and block.first_index <= 6 <= block.last_index:
                end = int(block.body_ends[6 - block.first_index])
                buffer = bytearray(block.buffer)
                buffer[end - 1] ^= 1
                block.buffer = bytes(buffer)
            yield block


@pytest.mark.parametrize(("kind", "findings"), [(LogDirectory, 0), (_Altered, 1)])
def test_where_a_hold_begins_the_entry_before_proves_the_first(
    tmp_path: Path, written, kind: type[LogDirectory], findings: int
) -> None:
    """A body that is another one is found there, too, and in the file that there is."""
    written(tmp_path, "a", *(b"%d" % n * 40 for n in range(8)))
    replica = Replica("a", kind(str(tmp_path / "a")))
    position = replace(replica.source.position(), first_index=6)
    audit = ReplicaAudit([], {"a": position})
    (part,) = _parts([replica], {"a": position}, {"a": 1}, {"a": {}}, audit)
    found = prove(part).findings
    assert len(found) == findings
    for each in found:
        assert (each.kind, each.place, each.first_index) == ("damaged", segment_name(1), 6)


def test_a_sound_part_is_proven(tmp_path: Path, written) -> None:
    """
    Everything is counted and nothing is found.
    """
    proof = prove(Part(written(tmp_path, "a", b"x", b"y"), 1, 3))

    assert ((), 3) == (proof.findings, proof.entries)
    assert 32 == len(proof.chain_after)


def test_damage_is_named(tmp_path: Path, written) -> None:
    """
    Segment, byte and entry of a flipped bit.
    """
    replica = written(tmp_path, "a", b"x" * 500, b"y")
    (path,) = (tmp_path / "a" / "journal").iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 500)] ^= 1
    path.write_bytes(data)

    (found,) = prove(Part(replica, 1, 3)).findings

    assert ("damaged", path.name, 2) == (found.kind, found.place, found.first_index)


def test_a_flipped_bit_in_the_header_of_a_file_is_named(tmp_path: Path, written) -> None:
    """
    No entry's checksum covers it.
    """
    replica = written(tmp_path, "a", b"x")
    (path,) = (tmp_path / "a" / "journal").iterdir()
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)

    (found,) = prove(Part(replica, 1, 2)).findings

    assert ("damaged", path.name, 1) == (found.kind, found.place, found.first_index)


def test_a_first_entry_that_was_sealed_anew_is_named(tmp_path: Path, written) -> None:
    """
    Its checksums and all that follows are right; the chain value before the log tells.
    """
    replica = written(tmp_path, "a", b"x")
    (path,) = (tmp_path / "a" / "journal").iterdir()
    data = bytearray(path.read_bytes())
    start = SEGMENT_HEADER_BYTES
    body = start + HEADER_BYTES
    size = HEADER.unpack_from(data, start)[11]
    other = b"".join(encode_records([QueueRecord(1, "Q")]))
    assert size == len(other)
    data[body : body + size] = other
    data[start + 12 : start + 16] = crc32c(other).to_bytes(4, "little")
    data[start + 8 : start + 12] = bytes(4)
    data[start + 8 : start + 12] = crc32c(bytes(data[start:body])).to_bytes(4, "little")
    path.write_bytes(data)

    (found,) = prove(Part(replica, 1, 2)).findings

    assert ("damaged", path.name, 1) == (found.kind, found.place, found.first_index)
    assert "chain" in found.reason


def test_a_store_is_proven_like_files(tmp_path: Path) -> None:
    """A row that was changed under good checksums breaks the chain; one that is gone is missing."""
    entries = written(tmp_path / "log", *(message(1, it, b"x" * 50) for it in range(1, 12)))
    url = f"sqlite:///{tmp_path}/a.db"
    fill([url], entries)
    log = store_log([url])
    part = Part(Replica(str(log), log), 1, 12)
    assert ((), 12) == (prove(part).findings, prove(part).entries)
    other = written(tmp_path / "other", *(message(1, it, b"y" * 50) for it in range(1, 12)))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("DELETE FROM holdfast_entries WHERE idx = 9")
        connection.execute(
            "UPDATE holdfast_entries SET raw = ? WHERE idx = 5", (bytes(other[4].raw),)
        )
    connection.close()
    broken, missing = prove(part).findings
    assert (url, "damaged", "", 5) == (
        broken.where,
        broken.kind,
        broken.place,
        broken.first_index,
    )
    assert (url, "missing", "", 9, 9) == (
        missing.where,
        missing.kind,
        missing.place,
        missing.first_index,
        missing.last_index,
    )
