"""Proving one part of one replica, and finding where two part: without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.model.records import CleanedRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.replica_audit import (
    _ends,
    _without_echoes,
    first_difference,
    lost_beginnings,
    parted,
    remote_digests,
)
from holdfast.spark.pipelines.replica_proof import Part, Replica, prove
from trials.pipeline.written_log import WrittenLog, message


def test_the_first_difference_is_found(tmp_path: Path, written) -> None:
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
    written,
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


def test_damage_where_the_shorter_one_ends_hides_no_other_history(tmp_path: Path, written) -> None:
    """
    They are compared where a segment before it ends.
    """
    one = written(tmp_path, "a", b"x", b"y", b"z" * 5000, segment_bytes=8192)
    other = written(tmp_path, "b", b"X", b"y", b"z" * 5000, b"more", segment_bytes=8192)
    path = max((tmp_path / "a" / "journal").iterdir())
    data = bytearray(path.read_bytes())
    data[data.rindex(b"z" * 5000)] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptEntryError, match="checksum"):  # Nobody has told of it.
        parted([one, other], positions(one, other))
    (found,) = parted([one, other], positions(one, other), is_told=True)

    assert ("a", 2) == (found.where, found.first_index)


def test_copies_without_a_common_entry_prove_nothing_of_each_other(tmp_path: Path, written) -> None:
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

    cleaned = prove(Part(Replica("a", LogDirectory(str(tmp_path / "a"))), 1, 1)).cleaned_through

    assert 40 == cleaned
    assert [] == lost_beginnings(positions, cleaned)
    (found,) = lost_beginnings(positions, 12)
    assert ("missing", 13, 40) == (found.kind, found.first_index, found.last_index)
    (in_a_store,) = lost_beginnings(positions, 12, {"a"})
    assert ("", "older entries are missing") == (in_a_store.place, in_a_store.reason[:25])
    assert "the segments before" in found.reason


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
