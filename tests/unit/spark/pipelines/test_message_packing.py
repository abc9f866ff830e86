"""Live messages as bodies of entries: same identity, marked as the cleaner marks its copies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import ArchiveError
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin
from holdfast.model.facts import Place as Standing
from holdfast.model.records import MessageRecord, MoveRecord, QueueRecord, Run
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.pipelines import message_packing
from holdfast.spark.pipelines.message_packing import Packed, packed, unpacked
from holdfast.store.record_codec import decode_records, encode_records
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


def living(*rows: tuple[int, int, int], move: bytes | None = None) -> pa.Table:
    """A row for each place: record number, queue, sequence; of the last one what moved it."""
    names = ("record_number", "queue_number", "sequence")
    columns: dict[str, object] = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns["move"] = pa.array([None] * (len(rows) - 1) + [move], pa.binary())
    return pa.table(columns)


def records(bodies: list[Packed]) -> list[MessageRecord]:
    found = [record for each in bodies for record in decode_records(each.body)]
    assert len(found) == sum(each.records for each in bodies)
    return [record for record in found if isinstance(record, MessageRecord)]


def test_only_what_lives_is_packed(archived: tuple[Archive, ArchivedFile]) -> None:
    """
    The chosen records come in the order of the log, with everything they had.
    """
    found = records(list(packed(*archived, living((102, 1, 2), (103, 1, 3), (104, 1, 4)), "c")))

    assert [2, 3, 4] == [record.sequence for record in found]
    assert [True, True, True] == [record.rewritten for record in found]
    assert [0, 0, 6] == [record.redelivery_count for record in found]
    assert [None, "p", None] == [record.producer_id for record in found]
    assert [1_000_000, 1_000_001, 99] == [record.stored_at for record in found]


def test_a_message_stands_where_it_lived(tmp_path: Path) -> None:
    """
    It is packed once, with those of its places that live, whichever they are; each is counted.
    """
    facts = [
        MessageFacts(places=(Standing(8, 1), Standing(9, 1))),
        MessageFacts(attributes=Attributes(priority=9), places=(Standing(8, 2), Standing(9, 2))),
        MessageFacts(places=(Standing(8, 3), Standing(9, 3))),
    ]
    sent = [message(1, number) for number in (1, 2, 3)]
    for each, its in zip(sent, facts, strict=True):
        each.facts = its
    archive = Archive.open(str(tmp_path))
    writer = archive.writer(bytes(16).hex(), {})
    writer.add(block_of(sent))

    lives = living((100, 1, 1), (100, 9, 1), (101, 8, 2), (102, 1, 3), (102, 8, 3), (102, 9, 3))
    bodies = list(packed(archive, writer.finish()[0], lives, "c"))

    assert [6] == [each.places for each in bodies]
    first, second, third = records(bodies)
    assert first.places == ((1, 1), (9, 1))
    assert second.places == ((8, 2),)
    assert second.facts == MessageFacts(attributes=Attributes(priority=9))
    assert third.facts == facts[2]


def test_what_was_moved_is_a_message_of_its_own(archived: tuple[Archive, ArchivedFile]) -> None:
    """Beside what it is a copy of, with the way that it came, and so it is counted."""
    move = MoveRecord(1, 2, Cause.COPIED, [Run(1, 7, 1)], queue_name="q", is_copy=True)
    packed_move = b"".join(encode_records([move]))
    lives = living((101, 1, 1), (101, 2, 7), move=packed_move)
    (body,) = packed(*archived, lives, "c")
    there, copy = records([body])
    assert body.places == 2
    assert (there.places, copy.places) == (((1, 1),), ((2, 7),))
    assert there.body == copy.body
    assert there.facts is None
    assert copy.facts == MessageFacts(origin=Origin(Cause.COPIED, "q", "ID:c-1-1"))
    assert copy.rewritten


def test_a_place_that_is_left_alone_is_no_fact(tmp_path: Path) -> None:
    """As the cleaner writes it: byte for byte what a message on one queue is."""
    sent = message(1, 1)
    sent.facts = MessageFacts(places=(Standing(2, 5),))
    archive = Archive.open(str(tmp_path))
    writer = archive.writer(bytes(16).hex(), {})
    writer.add(block_of([sent]))

    (found,) = records(list(packed(archive, writer.finish()[0], living((100, 2, 5)), "c")))
    assert (found.facts, found.places) == (None, ((2, 5),))


def test_entries_have_a_bounded_size(
    archived: tuple[Archive, ArchivedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A body is closed once it is large enough.
    """
    monkeypatch.setattr(message_packing, "ENTRY_BYTES", 1)

    bodies = list(packed(*archived, living((103, 1, 3), (104, 1, 4)), "c"))

    assert [1, 1] == [each.records for each in bodies]


def test_a_scratch_file_that_is_not_there_is_explained(tmp_path: Path) -> None:
    """
    Workers on other machines wrote it on theirs: the sentence says what to do.
    """
    with pytest.raises(ArchiveError, match="--scratch"):
        list(unpacked(Place(str(tmp_path)), ["x.bodies"]))
