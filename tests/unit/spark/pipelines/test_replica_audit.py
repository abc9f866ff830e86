"""Proving one part of one replica, and finding where two part: without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from holdfast.errors import BusyError
from holdfast.journal.entry import HEADER, HEADER_BYTES
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, segment_name
from holdfast.model.records import CleanedRecord, QueueRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.replica_audit import (
    Replica,
    ReplicaAudit,
    _ends,
    _Part,
    _parts,
    _without_echoes,
    first_difference,
    lost_beginnings,
    parted,
    prove,
    remote_digests,
)
from holdfast.store.record_codec import encode_records
from holdfast.testing.written_log import WrittenLog, message


def written(place: Path, name: str, *bodies: bytes, segment_bytes: int = 65_536) -> Replica:
    with WrittenLog(place / name, segment_bytes=segment_bytes) as log:
        log.put(QueueRecord(1, "q"))
        for sequence, body in enumerate(bodies, 1):
            log.put(message(1, sequence, body))
    return Replica(name, LogDirectory(str(place / name)))


class _Silent(LogDirectory):
    """A log of which nobody gives the first entry just now."""

    def blocks(self, first_index: int, last_index: int) -> Any:
        if first_index == 1:
            raise BusyError("16 readers are answered already")
        return super().blocks(first_index, last_index)


def test_a_seam_that_nobody_tells_just_now_is_not_passed_over(tmp_path: Path) -> None:
    """The audit fails, and may be run again: without what stands before it less is proven."""
    directory = written(tmp_path, "a", b"x", b"y").source
    assert isinstance(directory, LogDirectory)
    with pytest.raises(BusyError):
        prove(_Part(Replica("a", _Silent(directory.path)), 2, 3, log_first_index=1))


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
    tmp_path: Path, kind: type[LogDirectory], findings: int
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


def test_a_sound_part_is_proven(tmp_path: Path) -> None:
    """
    Everything is counted and nothing is found.
    """
    proof = prove(_Part(written(tmp_path, "a", b"x", b"y"), 1, 3))

    assert ((), 3) == (proof.findings, proof.entries)
    assert 32 == len(proof.chain_after)


def test_damage_is_named(tmp_path: Path) -> None:
    """
    Segment, byte and entry of a flipped bit.
    """
    replica = written(tmp_path, "a", b"x" * 500, b"y")
    (path,) = (tmp_path / "a" / "journal").iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 500)] ^= 1
    path.write_bytes(data)

    (found,) = prove(_Part(replica, 1, 3)).findings

    assert ("damaged", path.name, 2) == (found.kind, found.place, found.first_index)


def test_a_flipped_bit_in_the_header_of_a_file_is_named(tmp_path: Path) -> None:
    """
    No entry's checksum covers it.
    """
    replica = written(tmp_path, "a", b"x")
    (path,) = (tmp_path / "a" / "journal").iterdir()
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)

    (found,) = prove(_Part(replica, 1, 2)).findings

    assert ("damaged", path.name, 1) == (found.kind, found.place, found.first_index)


def test_a_first_entry_that_was_sealed_anew_is_named(tmp_path: Path) -> None:
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

    (found,) = prove(_Part(replica, 1, 2)).findings

    assert ("damaged", path.name, 1) == (found.kind, found.place, found.first_index)
    assert "chain" in found.reason


def test_the_first_difference_is_found(tmp_path: Path) -> None:
    """
    Two sound logs that part at entry 3.
    """
    one = written(tmp_path, "a", b"x", b"y", b"z")
    other = written(tmp_path, "b", b"x", b"Y", b"z")

    assert 3 == first_difference(one, other, 1, 4)


def positions(*replicas: Replica) -> dict[str, LogPosition]:
    return {each.name: each.source.position() for each in replicas}


def test_copies_of_different_length_are_compared_where_the_shorter_one_ends(
    tmp_path: Path,
) -> None:
    """
    They end with no part together; one that is only behind is no finding, two histories are.
    """
    one = written(tmp_path, "a", b"x", b"y", b"z")
    behind = written(tmp_path, "b", b"x", b"y")
    other = written(tmp_path, "c", b"x", b"Y", b"z", b"more")

    assert [] == parted([one, behind], positions(one, behind))
    found = parted([one, behind, other], positions(one, behind, other))
    assert [("a", 3, 4), ("b", 3, 3)] == [
        (each.where, each.first_index, each.last_index) for each in found
    ]


def test_damage_where_the_shorter_one_ends_hides_no_other_history(tmp_path: Path) -> None:
    """
    They are compared where a segment before it ends.
    """
    one = written(tmp_path, "a", b"x", b"y", b"z" * 5000, segment_bytes=8192)
    other = written(tmp_path, "b", b"X", b"y", b"z" * 5000, b"more", segment_bytes=8192)
    path = max((tmp_path / "a" / "journal").iterdir())
    data = bytearray(path.read_bytes())
    data[data.rindex(b"z" * 5000)] ^= 1
    path.write_bytes(data)

    (found,) = parted([one, other], positions(one, other))

    assert ("a", 2) == (found.where, found.first_index)


def test_copies_without_a_common_entry_prove_nothing_of_each_other(tmp_path: Path) -> None:
    """
    One that ends before the other begins is told; an empty one has nothing to compare.
    """
    one, other = written(tmp_path, "a", b"x"), written(tmp_path, "b", b"x")
    late = {"a": LogPosition(first_index=1, last_index=2)}
    late["b"] = LogPosition(first_index=3, last_index=9)
    empty = {"a": LogPosition(first_index=1, last_index=0), "b": late["b"]}

    (found,) = parted([one, other], late)

    assert ("a", "diverged") == (found.where, found.kind)
    assert [] == parted([one, other], empty)


def test_another_cluster_is_told() -> None:
    """
    Logs of two clusters are not compared in silence.
    """
    positions = {
        name: LogPosition(first_index=1, last_index=1, cluster_id=name * 32) for name in "ab"
    }

    assert ["b"] == [found.where for found in _ends([], positions)]


def test_what_a_missing_segment_implies_is_left_out() -> None:
    """
    One missing file is one finding, not another for each entry in it.
    """
    whole = Finding(
        where="a", kind="missing", reason="the segment x is missing", first_index=5, last_index=9
    )
    echo = Finding(where="a", kind="missing", reason="gone", first_index=6, last_index=6)
    other = Finding(where="b", kind="missing", reason="gone", first_index=6, last_index=6)

    assert [whole, other] == _without_echoes([whole, echo, other])


def test_a_log_may_begin_late_only_if_it_was_cleaned(tmp_path: Path) -> None:
    """
    The oldest segment removed by hand is named; one that the cleaner dropped is not.
    """
    with WrittenLog(tmp_path / "a") as log:
        log.put(message(1, 1), CleanedRecord(40))
    positions = {"a": LogPosition(first_index=41, last_index=99)}

    cleaned = prove(_Part(Replica("a", LogDirectory(str(tmp_path / "a"))), 1, 1)).cleaned_through

    assert 40 == cleaned
    assert [] == lost_beginnings(positions, cleaned)
    (found,) = lost_beginnings(positions, 12)
    assert ("missing", 13, 40) == (found.kind, found.first_index, found.last_index)


def test_a_node_is_asked_for_its_digests_a_few_seconds_at_a_time() -> None:
    """All of them at once may take hours, and an answer has to come within seconds."""
    pages = [
        {"segments": [segment(1), segment(20)], "next": 20},
        {"segments": [segment(40)], "next": 40},
        {"segments": [segment(60, is_sealed=False)]},
    ]
    asked: list[str] = []
    told: list[int] = []

    class SlowNode(RemoteLog):
        def ask(self, method: str, path: str, *_: Any, **__: Any) -> dict[str, Any]:
            asked.append(path.partition("?")[2])
            return pages[len(asked) - 1]

    found = remote_digests(SlowNode(("a:1",)), told.append)
    assert {1: "d1", 20: "d20", 40: "d40"} == found
    assert [f"after={after}&seconds=5" for after in (0, 20, 40)] == asked
    assert [2, 3, 4] == told


def segment(base: int, *, is_sealed: bool = True) -> dict[str, Any]:
    return {"base_index": base, "sealed": is_sealed, "digest": f"d{base}" if is_sealed else ""}
