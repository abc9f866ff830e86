"""
Columns of messages and entries, against the records they were made from.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.entry import KIND_NOOP
from holdfast.model.records import AcknowledgeRecord, QueueRecord
from holdfast.spark.columns.facts import FACT_COLUMNS
from holdfast.spark.columns.headers import HeaderReader
from holdfast.spark.columns.messages import entry_batch, in_pieces, message_batch, problem_batch
from holdfast.spark.columns.schema import COLUMNS, PROBLEM, VIEWS, default_columns
from holdfast.spark.log.naming import Naming
from holdfast.spark.log.row_filter import RowFilter
from trials.pipeline.written_log import EACH_FACT, block_of, knowing, message

ALL = tuple(column.name for column in COLUMNS["messages"])


def read(block, columns=ALL, wanted=None, naming=None):
    naming = naming or Naming(cluster_id="abcdef0123456789")
    batch = message_batch(block, columns, naming, HeaderReader(), wanted)
    batch.validate(full=True)
    return batch.to_pylist()


def test_a_message_in_all_its_columns() -> None:
    """A producer's, a plain one, and a copy by the cleaner."""
    copy = message(7, 3, b"third")
    copy.rewritten, copy.stored_at = True, 99
    first = message(7, 1, b"first", b"persistent:false\nreply-to:/queue/r\npriority:x\n", "p\u00e9")
    rows = read(block_of([QueueRecord(7, "q")], [first, message(7, 2)], [copy], first_index=11))
    assert [12, 12, 13] == [row["index"] for row in rows]
    assert [101, 102, 103] == [row["record_number"] for row in rows]
    assert ["ID:abcdef01-7-1", "ID:abcdef01-7-2", "ID:abcdef01-7-3"] == [
        row["message_id"] for row in rows
    ]
    assert [("p\u00e9", 1), (None, None), (None, None)] == [
        (row["producer_id"], row["producer_sequence"]) for row in rows
    ]
    assert [False, False, True] == [row["rewritten"] for row in rows]
    assert (False, "/queue/r", 4) == tuple(
        rows[0][k] for k in ("persistent", "reply_to", "priority")
    )
    assert [b"first", b"", b"third"] == [row["body"] for row in rows]
    assert [5, 0, 5] == [row["body_size"] for row in rows]
    assert [("persistent", "false"), ("reply-to", "/queue/r"), ("priority", "x")] == rows[0][
        "headers"
    ]
    assert ["q"] * 3 == [row["destination"] for row in rows]
    assert 99 == rows[2]["stored_at"].microsecond


def test_facts_are_columns() -> None:
    """Null where they are not set; a dead letter's headers are those that consumers see."""
    records = [knowing(message(1, 1, b"", b"priority:2\n"), *EACH_FACT), message(1, 2)]
    known, plain = read(block_of(records))
    assert datetime(2027, 1, 15, 8, tzinfo=UTC) == known["expires_at"]
    assert datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC) == known["due_at"]
    assert (7, 0xCAFE, 2) == tuple(known[it] for it in ("priority", "group_hash", "failures"))
    assert ([8, 9], [80, 90]) == (known["place_queues"], known["place_sequences"])
    assert (b"\x05\x80", "amqp", "map") == tuple(
        known[it] for it in ("skips", "encoding", "body_kind")
    )
    assert ([0xABCDEF01, 0x12345678], 3, 33) == tuple(
        known[it] for it in ("hops", "hop_queue_number", "hop_sequence")
    )
    assert ("rejected", "or:ders", "ID:abcdef01-1-7") == tuple(
        known[it] for it in ("cause", "original_destination", "original_message_id")
    )
    assert known["header_block"].startswith(
        b"priority:2\nexpires:1800000000000\noriginal-destination:/queue/or\\cders\n"
    )
    assert ("dlqDeliveryFailureCause", "rejected") == known["headers"][-1]
    assert 4 == plain["priority"]
    assert {None} == {plain[name] for name in FACT_COLUMNS}


@pytest.mark.parametrize("name", sorted(FACT_COLUMNS | {"priority", "header_block", "headers"}))
def test_a_column_of_facts_can_be_asked_for_alone(name: str) -> None:
    """It is what it is among all, whichever fact is set."""
    records = [knowing(message(1, n), fact) for n, fact in enumerate(EACH_FACT, 1)]
    everything = read(block_of(records))
    assert [{name: row[name]} for row in everything] == read(block_of(records), (name,))


def test_columns_that_are_not_wanted_are_not_touched() -> None:
    """Headers that make no sense hurt only those who ask for them."""
    block = block_of([message(1, 1, b"x", b"no colon\n")])
    assert [{"sequence": 1}] == read(block, ("sequence",))
    with pytest.raises(CorruptRecordError, match="headers of a message"):
        read(block, ("priority",))


def test_rows_are_left_out_before_anything_is_cut() -> None:
    """By destination, sequence and time, all together."""
    batch = [message(queue, n) for n in range(1, 6) for queue in (1, 2)]
    for record in batch:
        record.stored_at = 100 + record.sequence
    block = block_of([QueueRecord(1, "a"), QueueRecord(2, "b")], batch)
    wanted = RowFilter(
        destinations=frozenset({"b"}), sequence_min=2, sequence_max=4, time_min=103, time_max=104
    )
    rows = read(block, ("destination", "sequence"), wanted)
    assert [("b", 3), ("b", 4)] == [(row["destination"], row["sequence"]) for row in rows]
    assert [] == read(block, ALL, RowFilter(destinations=frozenset({"c"})))


def test_without_the_clusters_identity_there_are_no_message_ids() -> None:
    """A bare copy of the files does not tell; a wrong id would be worse than none."""
    assert [None] == [row["message_id"] for row in read(block_of([message(1, 1)]), naming=Naming())]


def test_a_block_without_messages_has_no_rows() -> None:
    """Acknowledgements and the cluster's own entries are no messages."""
    assert [] == read(block_of([AcknowledgeRecord(1, [1])], (KIND_NOOP, b"")))


def test_entries_are_rows_too() -> None:
    """With the bytes themselves, if they are wanted."""
    block = block_of([message(1, 1)], (KIND_NOOP, b""))
    rows = entry_batch(block, tuple(column.name for column in COLUMNS["entries"])).to_pylist()
    assert ["records", "noop"] == [row["kind"] for row in rows]
    assert [(1, 3, 100, 1), (2, 3, 101, 0)] == [
        (row["index"], row["term"], row["first_record"], row["record_count"]) for row in rows
    ]
    assert block.buffer == b"".join(row["raw"] for row in rows)
    assert block.chains == b"".join(row["chain"] for row in rows)


@pytest.mark.parametrize("view", VIEWS)
def test_a_problem_is_a_row_of_any_view(view: str) -> None:
    """All that is known is where and what."""
    columns = (*default_columns(view), PROBLEM)
    row = problem_batch(view, columns, 7, "it is rotten").to_pylist()[0]
    assert {"index": 7, PROBLEM: "it is rotten"} == {k: v for k, v in row.items() if v is not None}


def test_large_batches_are_cut_in_pieces() -> None:
    """None is empty, all together are the batch."""
    batch = message_batch(
        block_of([message(1, n) for n in range(1, 8)]), ("sequence",), Naming(), HeaderReader()
    )
    assert [3, 3, 1] == [piece.num_rows for piece in in_pieces(batch, 3)]
    assert [] == list(in_pieces(batch.slice(0, 0)))
