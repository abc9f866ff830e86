"""
One row per record, with what the record says.
"""

from __future__ import annotations

import json

from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    ReturnCause,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.spark.columns.events import EVENT_KINDS, event_batch
from holdfast.spark.columns.schema import default_columns
from holdfast.spark.log.naming import Naming
from holdfast.spark.log.row_filter import RowFilter
from holdfast.store.access_rows import access_row
from holdfast.store.record_codec import TYPE_NAMES
from trials.pipeline.written_log import block_of, knowing, message

ALL = default_columns("events")


def rows_of(block, wanted=None, columns=ALL):
    batch = event_batch(block, columns, Naming(), wanted)
    batch.validate(full=True)
    return batch.to_pylist()


def said(row) -> dict[str, object]:
    """What is not null, without where and when it stands."""
    common = ("index", "ordinal", "record_number", "term", "time", "destination", "stored_at")
    return {key: value for key, value in row.items() if value is not None and key not in common}


def test_every_kind_of_record_says_what_it_is_about() -> None:
    """The fields of each, and null where there is nothing to say."""
    copy = message(1, 4, b"abc", b"a:b\n")
    copy.rewritten = True
    records = [
        QueueRecord(1, "q", 5, 3),
        message(1, 9, b"abc", b"", "p"),
        copy,
        AcknowledgeRecord(1, [7, 5]),
        DeadLetterRecord(1, [6]),
        DispatchMarkRecord(1, 8),
        PurgeRecord(1, 9),
        DeleteQueueRecord(1),
        ProducerRecord("p\u00e9", 11, 12),
        ForgetProducerRecord("p"),
        CountersRecord(4),
        CleanedRecord(77),
        HoldRecord("h", 5, 6, 7),
        AcknowledgeRecord(1, []),
        FormatRecord(2),
        PolicyRecord("queue://a", "{}", 3),
        ReturnedRecord(1, ReturnCause.REJECTED, [7, 5], 9),
    ]
    one = {"queue_number": 1}
    settled = {"sequences": [7, 5], "first_sequence": 5, "last_sequence": 7, "count": 2}
    rows = rows_of(block_of(records))
    found = [said(row) for row in rows]
    for row in found:
        if "detail" in row:
            row["detail"] = json.loads(row["detail"])
    assert found == [
        one | {"kind": "declare", "next_sequence": 5, "dispatch_mark": 3},
        one
        | {"kind": "enqueue", "first_sequence": 9, "last_sequence": 9, "count": 1}
        | {"producer_id": "p", "producer_sequence": 9, "message_bytes": 3},
        one
        | {"kind": "rewrite", "first_sequence": 4, "last_sequence": 4, "count": 1}
        | {"message_bytes": 7},
        one | {"kind": "acknowledge"} | settled,
        one
        | {"kind": "dead-letter", "sequences": [6], "first_sequence": 6, "last_sequence": 6}
        | {"count": 1},
        one | {"kind": "dispatch-mark", "dispatch_mark": 8},
        one | {"kind": "purge", "first_sequence": 1, "last_sequence": 9},
        one | {"kind": "delete"},
        {"kind": "producer", "producer_id": "p\u00e9", "producer_sequence": 11}
        | {"detail": {"used_at": 12}},
        {"kind": "forget-producer", "producer_id": "p"},
        {"kind": "counters", "detail": {"next_queue_number": 4}},
        {"kind": "cleaned", "index_to": 77},
        {"kind": "hold", "index_to": 5}
        | {"detail": {"name": "h", "bytes_max": 6, "lost_through": 7}},
        one | {"kind": "acknowledge", "sequences": [], "count": 0},
        {"kind": "format", "detail": {"level": 2}},
        {"kind": "policy", "detail": {"pattern": "queue://a", "revision": 3, "values": {}}},
        one | settled | {"kind": "returned", "detail": {"cause": "rejected", "due_ms": 9}},
    ]
    assert {"q", None} == {row["destination"] for row in rows}
    assert list(range(17)) == [row["ordinal"] for row in rows]
    assert list(range(100, 117)) == [row["record_number"] for row in rows]


def test_users_and_grants_are_shown_without_what_they_are_compared_with() -> None:
    """An archive's readers are many: of credentials they see which kinds there are (S14)."""
    records = [
        UserRecord("ann", '{"password":"$argon2id$hash","roles":["a"]}', 3),
        GrantRecord("a", "queue://b", 3),
        AuditRecord(7, "ann", "::1", "grant", "a", "done"),
    ]
    found = [said(row) for row in rows_of(block_of(records))]
    assert [row["kind"] for row in found] == ["user", "grant", "audit"]
    assert [json.loads(row["detail"]) for row in found] == [access_row(it)[1] for it in records]
    assert "hash" not in str(found)


def test_the_clusters_own_entries_stand_in_their_place() -> None:
    """They have no record number, and a membership tells its members."""
    rows = rows_of(
        block_of((KIND_NOOP, b""), [message(1, 1), message(1, 2)], (KIND_CONFIG, b'{"a":1}'))
    )
    assert [("noop", 1), ("enqueue", 2), ("enqueue", 2), ("config", 3)] == [
        (row["kind"], row["index"]) for row in rows
    ]
    assert [None, 100, 101, None] == [row["record_number"] for row in rows]
    assert '{"a":1}' == rows[3]["detail"]


def test_rows_are_left_out_by_destination_and_time() -> None:
    """An entry of the cluster's own has no destination, but a time."""
    block = block_of(
        [QueueRecord(1, "a"), QueueRecord(2, "b")],
        (KIND_NOOP, b""),
        [message(1, 1), message(2, 1), AcknowledgeRecord(2, [1]), CountersRecord(3)],
    )
    found = rows_of(block, RowFilter(destinations=frozenset({"b"})))
    assert [("declare", 1), ("enqueue", 3), ("acknowledge", 3)] == [
        (row["kind"], row["index"]) for row in found
    ]
    found = rows_of(block, RowFilter(time_min=1_000_001))
    assert ["noop", "enqueue", "enqueue", "acknowledge", "counters"] == [it["kind"] for it in found]


def test_a_few_columns_are_enough() -> None:
    """Asked for alone, each is what it is among all."""
    block = block_of([QueueRecord(1, "a"), message(1, 1)], (KIND_NOOP, b""))
    everything = rows_of(block)
    for name in default_columns("events"):
        assert [{name: row[name]} for row in everything] == rows_of(block, columns=(name,))


def test_every_type_of_record_has_a_kind() -> None:
    """A new record must not come out without a name."""
    assert set(TYPE_NAMES) == set(EVENT_KINDS)


def test_a_message_on_several_queues_tells_the_others() -> None:
    """Its row is one all the same: where it is, and where else."""
    columns = ("kind", "queue_number", "place_queues", "place_sequences")
    block = block_of([QueueRecord(1, "q"), knowing(message(1, 5), "places"), message(1, 6)])
    assert [
        ("declare", 1, None, None),
        ("enqueue", 1, [8, 9], [80, 90]),
        ("enqueue", 1, None, None),
    ] == [tuple(row.values()) for row in rows_of(block, columns=columns)]


def test_a_message_tells_which_subscriptions_skip_it() -> None:
    """A bit for each slot; null where nobody does."""
    block = block_of([knowing(message(1, 5), "skips"), message(1, 6)])
    assert [b"\x05\x80", None] == [row["skips"] for row in rows_of(block, columns=("skips",))]


def test_records_of_topics_and_subscriptions_say_what_they_are_about() -> None:
    """
    What is said of a subscription's messages has its number, not the topic's, which stands first.
    """
    records = [
        TopicRecord(2, "prices", 7, 1),
        SubscriptionRecord(3, 2, 0, "c", "mine", selector="a = 1", first_sequence=7),
        SubscriptionAcknowledgeRecord(3, [8, 9], 2),
        PurgeRecord(3, 11, 2),
        CountedRecord(3, 2, [12], attempts=1),
        DetachedRecord(3, 1_000),
        DeleteQueueRecord(3, 2),
    ]
    rows = rows_of(block_of(records))
    assert [(row["kind"], row["queue_number"]) for row in rows] == [
        ("declare-topic", 2),
        ("declare-subscription", 3),
        ("acknowledge", 3),
        ("purge", 3),
        ("counted", 3),
        ("detached", 3),
        ("delete", 3),
    ]
    name = "topic://prices?subscription=c:mine"
    assert [row["destination"] for row in rows] == ["topic://prices"] + [name] * 6
    assert (rows[0]["next_sequence"], rows[1]["first_sequence"]) == (7, 7)
    assert [rows[2]["sequences"], rows[4]["sequences"]] == [[8, 9], [12]]
    assert json.loads(rows[1]["detail"])["selector"] == "a = 1"
    assert json.loads(rows[5]["detail"])["at_ms"] == 1_000
