"""The verdict, and proving one data file: without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.model.records import CleanedRecord, QueueRecord
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.accounting import Account
from holdfast.spark.pipelines.audit import (
    _compare,
    _lost_beginning,
    _unbalanced,
    audit,
    prove_file,
)
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.replica_audit import ReplicaAudit
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog, block_of, message


def test_nothing_to_audit_is_a_mistake() -> None:
    """
    The sentence says what to name.
    """
    with pytest.raises(ConfigError, match="at least one"):
        audit(None, [])  # type: ignore[arg-type] # Spark is not asked


def test_a_data_file_is_proven_or_named(tmp_path: Path) -> None:
    """
    A sound file gives its entries' number, one that is gone a finding with its place.
    """
    archive = Archive.open(str(tmp_path))
    writer = archive.writer(bytes(16).hex(), {})
    writer.add(block_of([QueueRecord(1, "q")], [message(1, 1)]))
    (file,) = writer.finish()

    good = prove_file(file, archive=archive)
    archive.place.remove(file.path)
    bad, count = prove_file(file, archive=archive)

    assert ([], 2) == good
    assert (0, ["missing"], file.path) == (count, [it.kind for it in bad], bad[0].place)


def test_messages_without_a_fate_are_a_finding() -> None:
    """The account was believed whatever it added up to."""
    balanced, off = Account(messages=5), Account(messages=5)
    balanced.fates |= {"live": 3, "purged": 2}
    off.fates |= {"live": 4}
    assert [] == _unbalanced(balanced, "a")
    (found,) = _unbalanced(off, "a")
    assert ("a", "account") == (found.where, found.kind)
    assert "5 messages have 4 fates" in found.reason


def archived(place: Path, log: Path, last_index: int) -> Archive:
    """Archive a log up to an entry."""
    archive = Archive.open(str(place))
    wanted = LogRange(1, last_index, bytes(16).hex())
    written = write_range(wanted, source=LogDirectory(str(log)), archive=archive, names={})
    archive.publish(joined([written], CLUSTER_ID.hex()))
    return archive


def written_log(place: Path, *bodies: bytes) -> Path:
    with WrittenLog(place) as log:
        log.put(QueueRecord(1, "q"))
        for sequence, body in enumerate(bodies, 1):
            log.put(message(1, sequence, body))
    return place


def compare(archive: Archive, log: Path, position: LogPosition | None = None) -> AuditResult:
    replica = Replica("a", LogDirectory(str(log)))
    result = AuditResult(archive=archive.catalogue())
    result.replicas = ReplicaAudit([], {"a": position or replica.source.position()})
    result.findings = _compare(archive, [replica], result)
    return result


def test_a_log_that_ends_inside_an_archived_range_is_compared_there(tmp_path: Path) -> None:
    """
    As after a promotion by force: one that is only behind is sound, one that went on otherwise not.
    """
    archive = archived(tmp_path / "archive", written_log(tmp_path / "a", b"1", b"2", b"3"), 4)
    behind = compare(archive, written_log(tmp_path / "b", b"1", b"2"))
    other = compare(archive, written_log(tmp_path / "c", b"1", b"two"))

    assert [] == behind.findings
    assert [("diverged", 3)] == [(each.kind, each.first_index) for each in other.findings]


def test_entries_between_archive_and_log_are_missing(tmp_path: Path) -> None:
    """
    What neither has is a gap; a log that begins right behind the archive is only not proven.
    """
    log = written_log(tmp_path / "a", b"1", b"2", b"3")
    archive = archived(tmp_path / "archive", log, 2)

    gap = compare(archive, log, LogPosition(first_index=4, last_index=9))
    next_to = compare(archive, log, LogPosition(first_index=3, last_index=9))

    assert [("archive-gap", 3, 3)] == [
        (each.kind, each.first_index, each.last_index) for each in gap.findings
    ]
    assert [] == next_to.findings
    assert any("no entry in common" in sentence for sentence in next_to.not_proven)


def test_data_before_an_archive_is_a_lost_manifest(tmp_path: Path) -> None:
    """
    Also where what lived was written again later on: that is why nothing else shows it.
    """
    log = written_log(tmp_path / "a", b"1", b"2")
    with WrittenLog(log) as more:
        more.put(CleanedRecord(3))
    archive = archived(tmp_path / "archive", log, 2)
    wanted = LogRange(3, 4, archive.catalogue().ranges[0].chain_after)
    written = write_range(wanted, source=LogDirectory(str(log)), archive=archive, names={})
    archive.publish(joined([written], CLUSTER_ID.hex()))
    assert [] == _lost_beginning(archive, archive.catalogue())
    min((tmp_path / "archive" / "_holdfast").iterdir()).unlink()

    (found,) = _lost_beginning(archive, archive.catalogue())

    assert archive.catalogue().complete_from
    assert ("archive-gap", 1, 2) == (found.kind, found.first_index, found.last_index)
    assert "a manifest is lost" in found.reason


def test_what_a_store_does_not_give_is_no_edited_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is a finding, as nothing is proven, of a kind of its own.
    """
    archive = archived(tmp_path / "archive", written_log(tmp_path / "a", b"1"), 2)
    (file,) = archive.catalogue().files()

    def away(*_: str) -> None:
        raise OSError("AWS Error SLOW_DOWN")

    monkeypatch.setattr(Place, "open_input", away)
    found, entries = prove_file(file, archive=archive)

    assert (["unreadable"], 0) == ([each.kind for each in found], entries)
