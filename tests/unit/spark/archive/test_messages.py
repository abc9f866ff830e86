"""
An archive's columns as messages: the rows that the entries give, or an error that names the file.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import CorruptArchiveError, CorruptRecordError, MissingEntriesError
from holdfast.journal.entry import KIND_NOOP, KIND_RECORDS
from holdfast.model.records import AcknowledgeRecord, MessageRecord, QueueRecord, Record
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.columns.schema import COLUMNS
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.row_filter import RowFilter
from holdfast.spark.log.source import LogSource
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.log_reading import LogReading
from holdfast.spark.source.options import read_options
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import (
    CLUSTER_ID,
    EACH_FACT,
    FIRST_TIME,
    WrittenLog,
    knowing,
    message,
)

NAMES = [column.name for column in COLUMNS["messages"]]
ALL = ", ".join(NAMES)
LAST = 10
HEADERS = b"correlation-id:c\nJMSXGroupID:g\npriority:7\nown:x\\cy\n"
QUEUES = {1: "one", 2: "two"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    """Messages of every kind among records of other kinds; entries 9 and 10 have none."""
    folder = tmp_path_factory.mktemp("log")
    copy = message(2, 2, b"copy", HEADERS, "p2")
    copy.rewritten, copy.redelivery_count, copy.stored_at = True, 3, FIRST_TIME - 5
    numberless = message(1, 3, b"", b"reply-to:/queue/r\n", "p1")
    numberless.producer_sequence = 0
    knowing(copy, *EACH_FACT)
    dead_letter = knowing(message(1, 2, b"c" * 300, HEADERS), "origin")
    with WrittenLog(folder) as written:
        written.put(QueueRecord(1, "one"), message(1, 1, b"a"))
        written.put(QueueRecord(2, "two"))
        written.put(message(2, 1, b"b", HEADERS, "p1"), dead_letter)
        written.put(AcknowledgeRecord(1, [1]), copy, numberless)
        written.put(kind=KIND_NOOP)
        written.put(message(7, 1, b"of a queue without a name"), message(0, 0, b"of none"))
        written.put(AcknowledgeRecord(1, [2]))
        written.stamps = False
        written.put(message(2, 3, b"last", b"persistent:false\n"))
        written.put(AcknowledgeRecord(2, [1]))
        written.put(kind=KIND_NOOP)
    return LogDirectory(str(folder))


@pytest.fixture(scope="module")
def kept(log: LogDirectory, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Four entries to a file; the last has no message."""
    return archived_log(log, tmp_path_factory.mktemp("archive") / "a", per_range=4)


@pytest.fixture
def archive(kept: Archive, tmp_path: Path) -> Archive:
    """One to be spoiled."""
    shutil.copytree(str(kept), tmp_path / "a")
    return Archive.open(str(tmp_path / "a"))


def read(
    source: LogSource,
    first: int,
    last: int,
    columns: str,
    wanted: RowFilter | None = None,
    names: dict[int, str] | None = None,
) -> list[dict[str, Any]]:
    """Read the view `messages` as a task does; its types are those of the view."""
    options = read_options({"path": "/nowhere", "columns": columns})
    known = QUEUES if names is None else names
    reading = LogReading(source, options, known, CLUSTER_ID.hex(), wanted)
    found = list(reading.batches(first, last))
    types = {column.name: column.type for column in COLUMNS["messages"]}
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == pa.schema([(name, types[name]) for name in options.columns])
    return [row for batch in found for row in batch.to_pylist()]


def by_columns(archive: Archive, first: int, last: int, *rest: Any) -> list[dict[str, Any]]:
    """Read as a task that was given its files."""
    (source,) = ArchivedSource.open(str(archive)).parts([(first, last)])
    return read(source, first, last, *rest)


def by_entries(archive: Archive, first: int, last: int, *rest: Any) -> list[dict[str, Any]]:
    """Read the same archive with every entry rebuilt."""
    return read(ArchivedSource.open(str(archive)), first, last, *rest)


@pytest.mark.parametrize(("first", "last"), [(1, LAST), (2, 6), (4, 4), (5, 5), (9, 10)])
def test_the_rows_are_those_of_the_log(
    log: LogDirectory, kept: Archive, first: int, last: int
) -> None:
    """Every column, the ones that must be asked for included; and those of the entries."""
    expected = read(log, first, last, ALL)
    assert expected == by_columns(kept, first, last, ALL)
    assert expected == by_entries(kept, first, last, ALL)


@pytest.mark.parametrize("column", NAMES)
def test_each_column_comes_alone(log: LogDirectory, kept: Archive, column: str) -> None:
    """What it is made of is read, whatever else was asked for."""
    expected = read(log, 1, LAST, column)
    assert 8 == len(expected)
    assert expected == by_columns(kept, 1, LAST, column)


@pytest.mark.parametrize(
    "wanted",
    [
        RowFilter(index_min=3, index_max=6),
        RowFilter(sequence_min=2, sequence_max=3),
        RowFilter(time_min=FIRST_TIME + 2_000_000),
        RowFilter(time_max=FIRST_TIME),
        RowFilter(destinations=frozenset({"two"})),
        RowFilter(destinations=frozenset({"nobody"})),
        RowFilter(index_min=100),
    ],
)
def test_a_filter_leaves_out_the_same(log: LogDirectory, kept: Archive, wanted: RowFilter) -> None:
    """By whatever bound."""
    expected = read(log, 1, LAST, "index, body", wanted)
    assert len(expected) < 8
    assert expected == by_columns(kept, 1, LAST, "index, body", wanted)


def test_names_that_no_task_carries_are_read_from_the_manifests(kept: Archive) -> None:
    """As with very many queues."""
    expected = by_entries(kept, 1, LAST, ALL, None, {})
    assert {"one", "two", None} == {row["destination"] for row in expected}
    assert expected == by_columns(kept, 1, LAST, ALL, None, {})


def any_message(random: Random, sequence: int) -> MessageRecord:
    """Make a message of any kind."""
    producer = random.choice([None, "p1", "a-producer"])
    headers = random.choice([b"", HEADERS, b"own:%d\n" % sequence, b"priority:x\n"])
    body = random.randbytes(random.choice([0, 9, 2000]))
    made = message(random.randint(1, 4), sequence, body, headers, producer)
    made.producer_sequence = random.choice([0, made.producer_sequence])
    made.rewritten = random.random() < 0.2
    made.redelivery_count = random.randint(0, 3) if made.rewritten else 0
    made.stored_at = random.choice([0, FIRST_TIME + random.randint(0, 90_000_000)])
    return made


def any_filter(random: Random) -> RowFilter:
    """Make a filter of any kind; half of them are for all rows."""
    bounds: dict[str, Any] = {}
    if random.random() < 0.5:
        low, high = sorted(random.choices(range(300), k=2))
        times = sorted(random.choices(range(90_000_000), k=2))
        some = {
            "index_min": low // 4,
            "index_max": high // 4,
            "sequence_min": low,
            "sequence_max": high,
            "time_min": FIRST_TIME + times[0],
            "time_max": FIRST_TIME + times[1],
            "destinations": frozenset(random.choices(["one", "two", "three", "none"], k=2)),
        }
        for name in random.choices(list(some), k=2):
            bounds[name] = some[name]
    return RowFilter(**bounds)


def test_any_messages_and_any_question_have_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files with several row groups, cut anywhere; small files and large ones."""
    random = Random(14)
    sequence = 0
    with WrittenLog(tmp_path / "log") as written:
        written.stamps = False
        written.put(*(QueueRecord(number, name) for number, name in QUEUES.items()))
        for _ in range(90):
            records: list[Record] = []
            for _ in range(random.randint(0, 6)):
                sequence += 1
                is_other = random.random() < 0.2
                records.append(
                    AcknowledgeRecord(1, [sequence]) if is_other else any_message(random, sequence)
                )
            written.put(*records, kind=KIND_RECORDS if records else KIND_NOOP)
        written.put(QueueRecord(3, "three"))
    log = LogDirectory(str(tmp_path / "log"))
    last = log.position().last_index
    archive = archived_log(log, tmp_path / "archive", per_range=40)
    groups = [len(list(archive.batches(file))) for file in archive.catalogue().files()]
    assert max(groups) > 1
    rows = 0
    for round_number in range(60):
        large = 0 if round_number % 2 else 1 << 25
        monkeypatch.setattr("holdfast.spark.archive.store.WHOLE_BYTES_MAX", large)
        low, high = sorted(random.choices(range(1, last + 1), k=2))
        chosen = ", ".join(random.sample(NAMES, random.randint(1, len(NAMES))))
        question = (low, high, chosen, any_filter(random))
        expected = read(log, *question, {1: "one"})
        assert expected == by_columns(archive, *question, {1: "one"})
        rows += len(expected)
    assert rows > 1000


def test_headers_that_make_no_sense_are_an_error_and_not_a_row(tmp_path: Path) -> None:
    """As they are where the entries are read."""
    with WrittenLog(tmp_path / "log") as written:
        written.put(message(1, 1, b"", b"no header"))
    archive = archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "a", per_range=1)
    for reading in (by_entries, by_columns):
        assert [{"index": 1}] == reading(archive, 1, 1, "index")
        with pytest.raises(CorruptRecordError, match="the headers of a message"):
            reading(archive, 1, 1, "priority")


@pytest.mark.parametrize("size_max", [1 << 20, 100])
def test_a_flipped_bit_is_an_error_and_no_row(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, size_max: int
) -> None:
    """Wherever it is, a column that nobody asked for included; small files and large ones."""
    monkeypatch.setattr("holdfast.spark.archive.store.WHOLE_BYTES_MAX", size_max)
    file = archive.catalogue().files()[0]
    path = Path(str(archive)) / file.path
    good = path.read_bytes()
    for place in range(0, len(good), 97):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(CorruptArchiveError, match="not what was archived") as caught:
            by_columns(archive, 1, 4, "index")
        assert file.path == caught.value.path
    for short in (good[:-1], b""):
        path.write_bytes(short)
        with pytest.raises(CorruptArchiveError, match="not what was archived"):
            by_columns(archive, 1, 4, "index")
    path.unlink()
    with pytest.raises(CorruptArchiveError, match="the file is missing"):
        by_columns(archive, 1, 4, "index")
    path.write_bytes(good)
    assert by_columns(archive, 1, 4, "index")


def test_a_large_file_is_not_believed_when_it_is_read_again(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rots between the comparison and the reading is told, too."""
    monkeypatch.setattr("holdfast.spark.archive.store.WHOLE_BYTES_MAX", 100)
    file = archive.catalogue().files()[0]
    path = Path(str(archive)) / file.path
    good = path.read_bytes()
    place = good.index(HEADERS)
    compare = Archive._compare

    def rots(*told: Any) -> None:
        compare(*told)
        path.write_bytes(good[:place] + b"d" + good[place + 1 :])

    monkeypatch.setattr(Archive, "_compare", rots)
    with pytest.raises(CorruptArchiveError, match="cannot be read"):
        by_columns(archive, 1, 4, "body, headers")


def outcome(archive: Archive, **options: str) -> tuple[list[dict[str, Any]], str]:
    """Plan and read as Spark does: the rows up to an error, and the error."""
    rows: list[dict[str, Any]] = []
    try:
        reader = BatchReader(read_options({"path": str(archive), **options}))
        for part in reader.partitions():
            for batch in reader.read(part):
                rows += batch.to_pylist()
    except (CorruptArchiveError, MissingEntriesError) as error:
        return rows, f"{type(error).__name__}: {error}"
    return rows, ""


@pytest.mark.parametrize("options", [{}, {"failOnDataLoss": "false"}, {"mode": "report"}])
@pytest.mark.parametrize("spoil", ["nothing", "gap", "file", "both"])
def test_damage_is_told_as_where_entries_are_read(
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    spoil: str,
) -> None:
    """The same rows before it, the same error, row or warning, in every mode."""
    files = archive.catalogue().files()
    if spoil in {"gap", "both"}:
        sorted(Path(str(archive), "_holdfast").iterdir())[1].unlink()
    if spoil in {"file", "both"}:
        (Path(str(archive)) / files[-1].path).unlink()

    found, told = [], []
    for way in (None, False):
        if way is not None:
            monkeypatch.setattr(LogReading, "_is_by_columns", way)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found.append(outcome(archive, **options))
        told.append(caplog.messages)

    assert found[0] == found[1]
    assert told[0] == told[1]
    rows, error = found[0]
    expected = {"nothing": "", "gap": "MissingEntries", "file": "CorruptArchive"}
    if "gap" in spoil or "both" in spoil:
        assert bool(told[0]) == ("failOnDataLoss" in options)
        assert bool([row for row in rows if row.get("problem")]) == ("mode" in options)
    if spoil == "both":
        assert ("CorruptArchive" if options else "MissingEntries") in error
    elif spoil == "gap" and options:
        assert not error
    else:
        assert expected[spoil] in error
        assert bool(error) == bool(expected[spoil])


def test_row_groups_beyond_what_is_asked_for_are_not_read(kept: Archive) -> None:
    """By what a file says of them."""
    file = ArchivedSource.open(str(kept)).catalogue.files()[0]
    assert list(kept.proven_batches(file, ["index"], 1, 4))
    assert [] == list(kept.proven_batches(file, ["index"], 5, 9))


def test_a_file_without_messages_has_no_rows(kept: Archive) -> None:
    """Its entries have, in another view."""
    file = kept.catalogue().files()[-1]
    assert 0 == file.messages
    assert file.rows
    assert [] == by_columns(kept, file.first_index, file.last_index, ALL)
