"""The audit on real Spark: whatever is flipped, removed or edited is named with its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holdfast.cli import audit as audit_command
from holdfast.cli.main import app
from holdfast.model.limits import FLOOR_ID
from holdfast.model.numbering import LEADERS_STEP
from holdfast.model.records import AcknowledgeRecord, ProducerRecord, QueueRecord
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.replica_proof import Replica
from trials.pipeline.operation_log import OperationLog
from trials.pipeline.written_log import WrittenLog, message

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def original(spark, tmp_path_factory) -> Path:
    """Three equal replicas and an archive of all but the newest entries."""
    directory = tmp_path_factory.mktemp("audit")
    log = OperationLog(directory / "a", seed=8)
    log.run(45)
    archive = Archive.open(str(directory / "archive"))
    archive_once(spark, LogDirectory(str(directory / "a")), archive)
    log.run(15)
    for name in NAMES[1:]:
        shutil.copytree(directory / "a", directory / name)
    return directory


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    """A copy of all of it to spoil."""
    return Path(shutil.copytree(original, tmp_path / "copy"))


def run(spark, place: Path, *, with_archive: bool = True, with_account: bool = True) -> AuditResult:
    replicas = [Replica(name, LogDirectory(str(place / name))) for name in NAMES]
    archive = Archive.open(str(place / "archive")) if with_archive else None
    return audit(spark, replicas, archive, with_account=with_account)


def segments(place: Path, name: str) -> list[Path]:
    return sorted((place / name / "journal").iterdir())


def test_equal_replicas_and_their_archive_are_sound(spark, original) -> None:
    """
    Nothing is found, equal segments are proven once, and every message has its fate.
    """
    result = run(spark, original)

    assert [] == result.findings
    assert "3 replicas hold the same log" in result.verdict
    assert result.account is not None
    assert result.account.is_balanced
    assert result.replicas is not None
    assert 2 * (len(segments(original, "a")) - 1) == result.replicas.segments_equal


def test_a_flipped_byte_is_named(spark, place) -> None:
    """
    One bit in a sealed segment of one replica: segment, byte and entry, and nobody else is accused.
    """
    victim = segments(place, "b")[1]
    data = bytearray(victim.read_bytes())
    data[4096 + 150] ^= 4
    victim.write_bytes(data)

    result = run(spark, place, with_account=False)

    assert not result.is_sound
    (finding,) = result.findings
    assert ("b", "damaged", victim.name) == (finding.where, finding.kind, finding.place)
    assert 4096 <= finding.byte <= 4096 + 150
    assert int(victim.stem) == finding.first_index


def test_a_removed_segment_is_named(spark, place) -> None:
    """
    A file that is gone is one finding, not one per entry.
    """
    victim = segments(place, "c")[2]
    victim.unlink()

    result = run(spark, place, with_archive=False, with_account=False)

    (finding,) = result.findings
    assert ("c", "missing", victim.name) == (finding.where, finding.kind, finding.place)
    assert int(victim.stem) == finding.first_index


def test_a_removed_first_segment_is_named(spark, place) -> None:
    """
    No cleaner said that it might go.
    """
    first, second = segments(place, "b")[:2]
    first.unlink()

    result = run(spark, place, with_archive=False, with_account=False)

    (finding,) = result.findings
    assert ("b", "missing") == (finding.where, finding.kind)
    assert (1, int(second.stem) - 1) == (finding.first_index, finding.last_index)


def test_a_removed_last_segment_is_named(spark, place) -> None:
    """
    The ballot knows how far the log was durable.
    """
    victim = segments(place, "a")[-1]
    victim.unlink()

    result = run(spark, place, with_archive=False, with_account=False)

    assert {"a"} == {finding.where for finding in result.findings}
    assert int(victim.stem) == result.findings[0].first_index


def test_a_removed_parquet_file_is_named(spark, place) -> None:
    """
    A data file that is gone, with what it held.
    """
    victim = sorted((place / "archive").rglob("*.parquet"))[1]
    victim.unlink()

    result = run(spark, place, with_account=False)

    (finding,) = result.findings
    assert "missing" == finding.kind
    assert str(victim.relative_to(place / "archive")) == finding.place
    assert "messages" in finding.reason


def test_an_edited_row_is_named_with_its_entry(spark, place) -> None:
    """
    One value of one row of one Parquet file.
    """
    victim = min((place / "archive").rglob("*.parquet"))
    table = pq.read_table(victim)
    rows = table.to_pylist()
    edited = next(row for row in rows if row["kind"] == "message" and row["body"])
    edited["body"] = b"forged" + edited["body"][6:]
    pq.write_table(table.from_pylist(rows, table.schema), victim)

    result = run(spark, place, with_account=False)

    (finding,) = result.findings
    assert "edited" == finding.kind
    assert str(victim.relative_to(place / "archive")) == finding.place
    assert edited["index"] == finding.first_index == finding.last_index


def test_a_removed_manifest_is_a_gap(spark, place) -> None:
    """
    Entries that no manifest covers are missing from the archive.
    """
    min((place / "archive" / "_holdfast").iterdir()).unlink()
    first = min(path.name for path in (place / "archive" / "_holdfast").iterdir())

    result = run(spark, place, with_account=False)

    (finding,) = result.findings
    assert ("archive-gap", 1) == (finding.kind, finding.first_index)
    assert int(first.split("-")[0]) - 1 == finding.last_index


def test_two_histories_are_told_from_damage(spark, tmp_path) -> None:
    """
    Two logs that are sound in themselves and differ: named from the first entry that differs.
    """
    for name, body in (("a", b"one"), ("b", b"two")):
        with WrittenLog(tmp_path / name) as log:
            log.put(QueueRecord(1, "q"))
            log.put(message(1, 1, b"same"))
            log.put(message(1, 2, body))
            log.put(message(1, 3, b"same"))
    replicas = [Replica(name, LogDirectory(str(tmp_path / name))) for name in ("a", "b")]

    result = audit(spark, replicas, with_account=False)

    (finding,) = result.findings
    assert ("b", "diverged", 3) == (finding.where, finding.kind, finding.first_index)


def test_lost_messages_are_found_by_their_numbers(spark, tmp_path) -> None:
    """
    A hole in a queue, a hole in a producer's numbers, a message stored twice, one never stored.
    """
    with WrittenLog(tmp_path / "a") as log:
        log.put(QueueRecord(1, "orders"))
        log.put(message(1, 1), message(1, 2, producer="p"))
        log.put(message(1, 4, producer="q"), message(1, 4))
        log.put(AcknowledgeRecord(1, [1, 9]))
        # Of a streaming write: which batches may still come is nobody's own number.
        log.put(*(ProducerRecord(f"{FLOOR_ID}query", batch) for batch in (5, 9)))

    result = audit(spark, [Replica("a", LogDirectory(str(tmp_path / "a")))])

    kinds = sorted((finding.kind, finding.sequence) for finding in result.findings)
    assert [
        ("message", 4),
        ("message", 9),
        ("producer", 2),
        ("producer", 4),
        ("sequence", 3),
    ] == kinds


def test_what_a_new_leader_leaves_out_is_no_hole(spark, tmp_path) -> None:
    """
    Whole steps are, wherever it begins; one message less is a hole still.
    """
    with WrittenLog(tmp_path / "a") as log:
        log.put(QueueRecord(1, "orders"), QueueRecord(2, "late"))
        log.put(message(1, 1), message(1, 2), message(2, 1 + 5 * LEADERS_STEP))
        log.put(message(1, 3 + LEADERS_STEP), message(1, 4 + LEADERS_STEP))
        log.put(message(1, 6 + 3 * LEADERS_STEP))

    result = audit(spark, [Replica("a", LogDirectory(str(tmp_path / "a")))])

    (finding,) = result.findings
    assert ("sequence", 5 + LEADERS_STEP) == (finding.kind, finding.sequence)


def test_the_command_tells_and_writes_what_it_found(spark, place, tmp_path, monkeypatch) -> None:
    """
    Exit code 1, a verdict, the differences as JSON lines and as Parquet; 0 where all is well.
    """
    monkeypatch.setattr(audit_command, "open_spark", lambda *_, **__: _Opened(spark))
    arguments = ["audit", "--no-account"]
    for name in NAMES:
        arguments += ["--path", str(place / name)]
    good = CliRunner().invoke(app, [*arguments, "--archive", str(place / "archive")])
    segments(place, "b")[1].unlink()
    for report in ("found.json", "found.parquet"):
        bad = CliRunner().invoke(app, [*arguments, "--report", str(tmp_path / report)])

    assert (0, 1) == (good.exit_code, bad.exit_code)
    assert "3 replicas hold the same log" in good.stdout
    assert "NOT the same: 1 differences" in bad.stdout
    (line,) = (tmp_path / "found.json").read_text().splitlines()
    assert [json.loads(line)] == pq.read_table(tmp_path / "found.parquet").to_pylist()


class _Opened:
    """The shared session in the place of one of the command's own."""

    def __init__(self, spark) -> None:
        self.spark = spark

    def __enter__(self):
        return self.spark

    def __exit__(self, *_: object) -> None:
        pass
