"""What lived in a small archive, held to a log of operations that keeps books of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.facts import Cause, MessageFacts, Origin, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Run,
)
from holdfast.spark.archive.places import Place as Folder
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.applied_archive import (
    BYTES_MAX,
    FILES_MAX,
    ROWS_MAX,
    AppliedArchive,
    is_small,
)
from holdfast.store.record_codec import decode_records
from trials.pipeline.operation_log import Moment, OperationLog
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, message


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> OperationLog:
    operations = OperationLog(tmp_path_factory.mktemp("applied") / "log", seed=5, moves=4)
    operations.run(160)
    return operations


def packed_messages(applied: AppliedArchive, tmp_path: Path) -> list[MessageRecord]:
    """What is given to be written."""
    found: list[MessageRecord] = []
    for each in applied.packed(Folder(str(tmp_path / "scratch")), "abcdef01"):
        records = list(decode_records(each.body))
        assert len(records) == each.records
        assert all(isinstance(it, MessageRecord) for it in records)
        found += [it for it in records if isinstance(it, MessageRecord)]
        assert each.places == sum(len(it.places) for it in found[-each.records :])
    return found


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_at_any_moment_exactly_what_lived_is_found(
    log: OperationLog, tmp_path: Path, share: float
) -> None:
    """Messages with all that belongs to them, queues, producers' numbers and policies."""
    moment: Moment = log.moments[int(share * len(log.moments)) - 1]
    archive = archived_log(LogDirectory(str(log.directory)), tmp_path / "archive", per_range=30)
    files = archive.catalogue().files(last_index=moment.index)

    with AppliedArchive(archive, files, moment.index) as applied:
        state = applied.lasting_state()
        names = {queue.queue_number: queue.name for queue in state.queues}
        found = packed_messages(applied, tmp_path)
        rows = {names[row["queue_number"]]: row for row in applied.queues()}
        last = applied.last_record()

    assert {it.producer_id: it.sequence for it in state.producers} == moment.producers
    assert {(it.revision, it.pattern): it.values for it in state.policies} == moment.policies
    wanted = [(it.queue, it.sequence, it.headers, it.body, it.stored_at) for it in moment.live]
    assert wanted == sorted(
        (names[it.queue_number], it.sequence, it.headers, it.body, it.stored_at) for it in found
    )
    counts = Counter(it.queue for it in moment.live)
    assert {name: row["messages"] for name, row in rows.items()} == counts
    for name, row in rows.items():
        own = [it for it in moment.live if it.queue == name]
        assert (own[0].sequence, own[-1].sequence) == (row["first"], row["last"])
        assert sum(len(it.body) for it in own) == row["bytes"]
    assert last is not None
    assert (last["index"], last["time"]) == (moment.index, moment.time)


def test_what_was_moved_comes_back_where_it_was_moved_to(
    tmp_path: Path,
) -> None:
    """With the way that it came; a copy beside what it is of, both from one record."""
    queues = [QueueRecord(number, name) for number, name in ((1, "one"), (2, "two"), (3, "three"))]
    moves = [
        MoveRecord(1, 2, Cause.COPIED, [Run(1, 1, 1)], queue_name="one", is_copy=True),
        MoveRecord(2, 3, Cause.MOVED, [Run(1, 7, 1)], queue_name="two"),
        MoveRecord(1, 0, Cause.REMOVED, [Run(2, 0, 1)], queue_name="one"),
    ]
    with WrittenLog(tmp_path / "log") as written:
        written.put(*queues)
        written.put(message(1, 1, b"kept"), message(1, 2, b"removed"))
        for move in moves:
            written.put(move)
    archive = archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "archive", per_range=9)

    with AppliedArchive(archive, archive.catalogue().files(), 5) as applied:
        found = packed_messages(applied, tmp_path)
        counts = {row["queue_number"]: row["messages"] for row in applied.queues()}

    assert counts == {1: 1, 3: 1}
    assert [(it.places, it.body) for it in found] == [
        ((Place(1, 1),), b"kept"),
        ((Place(3, 7),), b"kept"),
    ]
    assert found[0].facts is None
    assert found[1].facts == MessageFacts(origin=Origin(Cause.MOVED, "two", "ID:abcdef01-2-1"))


def test_a_message_on_several_queues_comes_back_once_on_those_where_it_lived(
    tmp_path: Path,
) -> None:
    """As the cleaner writes it: one record."""
    several = message(1, 1, b"several")
    several.facts = MessageFacts(places=(Place(2, 1), Place(3, 1)))
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "one"), QueueRecord(2, "two"), QueueRecord(3, "three"))
        written.put(several, message(3, 2, b"alone"))
        written.put(AcknowledgeRecord(1, [1]))
    archive = archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "archive", per_range=9)

    with AppliedArchive(archive, archive.catalogue().files(), 3) as applied:
        found = packed_messages(applied, tmp_path)
        counts = {row["queue_number"]: row["messages"] for row in applied.queues()}

    assert [it.places for it in found] == [(Place(2, 1), Place(3, 1)), (Place(3, 2),)]
    assert counts == {2: 1, 3: 2}


def test_of_nothing_nothing_is_found(tmp_path: Path) -> None:
    """No file is of an archive that begins later."""
    archive = archived_log_of_one(tmp_path)
    with AppliedArchive(archive, [], 1) as applied:
        assert applied.last_record() is None
        assert list(applied.queues()) == []
        assert applied.lasting_state().next_queue_number == 1


def test_what_is_small_has_few_rows_files_and_bytes(tmp_path: Path) -> None:
    """Each of them takes this process time; beyond it Spark is sooner done."""
    (file,) = archived_log_of_one(tmp_path).catalogue().files()
    assert is_small([file])
    assert is_small([replace(file, rows=ROWS_MAX)])
    assert not is_small([replace(file, rows=ROWS_MAX), file])
    assert not is_small([replace(file, bytes=BYTES_MAX + 1)])
    assert not is_small([file] * (FILES_MAX + 1))
    assert not is_small([file], rows_max=0)


def archived_log_of_one(tmp_path: Path):
    """An archive of one entry."""
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "one"))
    return archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "archive", per_range=9)
