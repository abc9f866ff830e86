"""Live messages as bodies of entries: same identity, marked as the cleaner marks its copies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import ArchiveError
from holdfast.model.records import MessageRecord, QueueRecord
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.pipelines import message_packing
from holdfast.spark.pipelines.message_packing import packed, unpacked
from holdfast.store.record_codec import decode_records
from trials.pipeline.written_log import block_of, message


@pytest.fixture
def archived(tmp_path: Path) -> tuple[Archive, ArchivedFile]:
    """Records 101 to 104 are messages, 104 a copy with a redelivery count."""
    copy = message(1, 4, b"four")
    copy.rewritten, copy.redelivery_count, copy.stored_at = True, 6, 99
    numbered = message(1, 3, b"three", producer="p")
    archive = Archive.open(str(tmp_path))
    writer = archive.writer(bytes(16).hex(), {})
    writer.add(block_of([QueueRecord(1, "q"), message(1, 1), message(1, 2)], [numbered, copy]))
    return archive, writer.finish()[0]


def records(bodies: list[tuple[bytes, int]]) -> list[MessageRecord]:
    found = [record for body, _ in bodies for record in decode_records(body)]
    assert len(found) == sum(count for _, count in bodies)
    return [record for record in found if isinstance(record, MessageRecord)]


def test_only_what_lives_is_packed(archived: tuple[Archive, ArchivedFile]) -> None:
    """
    The chosen records come in the order of the log, with everything they had.
    """
    found = records(list(packed(*archived, pa.array([102, 103, 104]))))

    assert [2, 3, 4] == [record.sequence for record in found]
    assert [True, True, True] == [record.rewritten for record in found]
    assert [0, 0, 6] == [record.redelivery_count for record in found]
    assert [None, "p", None] == [record.producer_id for record in found]
    assert [1_000_000, 1_000_001, 99] == [record.stored_at for record in found]


def test_entries_have_a_bounded_size(
    archived: tuple[Archive, ArchivedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A body is closed once it is large enough.
    """
    monkeypatch.setattr(message_packing, "ENTRY_BYTES", 1)

    bodies = list(packed(*archived, pa.array([103, 104])))

    assert [1, 1] == [count for _, count in bodies]


def test_a_scratch_file_that_is_not_there_is_explained(tmp_path: Path) -> None:
    """
    Workers on other machines wrote it on theirs: the sentence says what to do.
    """
    with pytest.raises(ArchiveError, match="--scratch"):
        list(unpacked(Place(str(tmp_path)), ["x.bodies"]))
