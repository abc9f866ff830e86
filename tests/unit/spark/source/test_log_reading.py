"""
A range of the log to batches: every view, filters, damage, and what lives.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import CorruptEntryError, CorruptRecordError
from holdfast.journal.entry import KIND_RECORDS
from holdfast.model.records import QueueRecord
from holdfast.spark.log.backlog import place_of
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.row_filter import RowFilter
from holdfast.spark.source.log_reading import LiveRows, LogReading
from holdfast.spark.source.options import read_options
from trials.pipeline.written_log import WrittenLog, knowing, message


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten messages of queue 1 in entries 2 to 6, its declaration behind them."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(2, "other"))
        for number in range(1, 10, 2):
            written.put(message(1, number, b"%d" % number), message(1, number + 1))
        written.put(QueueRecord(1, "late"))
    return tmp_path


def read(log: Path, first: int, last: int, *, wanted=None, live=None, names=None, **options):
    reading = LogReading(
        LogDirectory(str(log)),
        read_options({"path": str(log), **options}),
        names or {},
        "c" * 32,
        wanted,
        live,
    )
    return [row for batch in reading.batches(first, last) for row in batch.to_pylist()]


def test_each_view_has_its_rows(log: Path) -> None:
    """Only of the entries asked for."""
    assert list(range(3, 9)) == [row["sequence"] for row in read(log, 3, 5)]
    assert ["enqueue"] * 6 == [row["kind"] for row in read(log, 3, 5, view="events")]
    assert [3, 4, 5] == [row["index"] for row in read(log, 3, 5, view="entries")]


def test_a_name_that_stands_further_on_is_found(log: Path) -> None:
    """After cleaning, declarations come behind the messages."""
    assert {"late"} == {row["destination"] for row in read(log, 2, 3)}
    assert {"told"} == {row["destination"] for row in read(log, 2, 3, names={1: "told"})}
    wanted = RowFilter(destinations=frozenset({"late"}))
    assert 4 == len(read(log, 2, 3, wanted=wanted))


def test_entries_beyond_the_filter_are_not_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on `index` saves reading."""
    asked = []
    blocks = LogDirectory.blocks
    monkeypatch.setattr(
        LogDirectory, "blocks", lambda self, a, b: asked.append((a, b)) or blocks(self, a, b)
    )
    assert 2 == len(read(log, 1, 7, wanted=RowFilter(index_min=4, index_max=4), names={1: "x"}))
    assert [] == read(log, 1, 7, wanted=RowFilter(index_min=8))
    assert [(4, 4)] == asked


def test_a_record_that_makes_no_sense_costs_its_entry(tmp_path: Path) -> None:
    """The checksum is good; what is around it is read."""
    with WrittenLog(tmp_path) as written:
        written.put(message(1, 1))
        entry = written.put(kind=KIND_RECORDS, body=b"nonsense")
        written.put(message(1, 2))
    assert (2, 0) == (entry.index, entry.record_count)
    # An entry that claims no records is not looked into; one of a message with bad headers is.
    with WrittenLog(tmp_path) as written:
        written.put(message(1, 3, b"", b"no colon\n"))
        written.put(message(1, 4))
    with pytest.raises(CorruptRecordError):
        read(tmp_path, 1, 5)
    rows = read(tmp_path, 1, 5, mode="report")
    assert [(1, 1), (3, 2), (4, None), (5, 4)] == [(row["index"], row["sequence"]) for row in rows]
    assert "headers of a message" in rows[2]["problem"]


def test_damage_is_raised_or_reported(log: Path) -> None:
    """With the same sentence."""
    path = next((log / "journal").glob("*.segment"))
    data = bytearray(path.read_bytes())
    place = data.index(b"HFE1", data.index(b"HFE1") + 1)
    data[place + 90] ^= 255
    path.write_bytes(data)
    with pytest.raises(CorruptEntryError, match=r"\(entry 2\)") as caught:
        read(log, 1, 7)
    rows = read(log, 1, 7, mode="report")
    assert (2, str(caught.value)) == (rows[0]["index"], rows[0]["problem"])
    assert list(range(3, 11)) == [row["sequence"] for row in rows[1:]]


def test_only_what_lives_is_given(log: Path) -> None:
    """By its place; with whether a consumer may have seen it."""
    places = place_of(np.array([2, 4, 4]), np.array([1, 0, 1]))
    live = LiveRows(places, {1: 5})
    rows = read(log, 2, 5, view="backlog", live=live)
    assert [(2, True), (5, True), (6, False)] == [
        (row["sequence"], row["may_have_been_seen"]) for row in rows
    ]
    wanted = RowFilter(sequence_min=5)
    assert [5, 6] == [
        row["sequence"] for row in read(log, 2, 5, view="backlog", live=live, wanted=wanted)
    ]
    columns = "sequence,body"
    assert [b"", b"5", b""] == [
        row["body"] for row in read(log, 1, 7, view="backlog", live=live, columns=columns)
    ]


def test_a_message_lives_on_each_of_its_queues(tmp_path: Path) -> None:
    """A row for each on which it lives, told by that queue's name, sequence and mark."""
    with WrittenLog(tmp_path) as written:
        written.put(*(QueueRecord(number, f"q{number}") for number in (1, 8, 9)))
        written.put(knowing(message(1, 1, b"x"), "places"), message(1, 2, b"y"))
        written.put(knowing(message(1, 3, b"z"), "places"))
    at = place_of(np.array([2, 2, 2, 3]), np.array([0, 0, 1, 0]))
    live = LiveRows(at, {1: 2, 8: 79, 9: 90}, np.array([1, 9, 1, 8]))
    columns = "destination,sequence,message_id,body,place_queues,place_sequences,may_have_been_seen"
    names = {1: "q1", 8: "q8", 9: "q9"}
    rows = read(tmp_path, 2, 3, view="backlog", live=live, columns=columns, names=names)
    assert [
        ("q1", 1, "ID:cccccccc-1-1", b"x", [8, 9], [80, 90], True),
        ("q9", 90, "ID:cccccccc-9-90", b"x", [1, 8], [1, 80], True),
        ("q1", 2, "ID:cccccccc-1-2", b"y", None, None, True),
        ("q8", 80, "ID:cccccccc-8-80", b"z", [1, 9], [3, 90], False),
    ] == [tuple(row.values()) for row in rows]
    wanted = RowFilter(destinations=frozenset({"q9"}))
    found = read(tmp_path, 2, 3, view="backlog", live=live, names=names, wanted=wanted)
    assert [(90, b"x")] == [(row["sequence"], row["body"]) for row in found]
