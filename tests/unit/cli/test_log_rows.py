"""
Rows of a dump.
"""

from __future__ import annotations

import pytest

from holdfast.cli.log_files import LogFiles
from holdfast.cli.log_rows import queue_names, row_text, rows_of
from holdfast.errors import CorruptRecordError
from holdfast.journal.entry import KIND_CONFIG
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import BodyKind, Cause, Encoding, Form, MessageFacts, Origin, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    FormatRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    ReturnCause,
    ReturnedRecord,
)


def rows(log, **options):
    files = LogFiles(log.directory)
    names = queue_names(files.entries(files.names))
    for entry in files.entries(files.names):
        yield from rows_of(entry, names, **options)


def test_one_row_per_record_and_per_entry_of_the_cluster(log) -> None:
    """
    In the order of the log, with record numbers that count on.
    """
    found = [(row["index"], row["type"], row["record"], row["queue"]) for row in rows(log)]
    assert found == [
        (1, "noop", None, None),
        (2, "queue", 1, "orders"),
        (2, "queue", 2, "mail"),
        (3, "message", 3, "orders"),
        (3, "message", 4, "mail"),
        (3, "message", 5, "orders"),
        (4, "config", None, None),
        (5, "message", 6, "orders"),
        (5, "acknowledge", 7, "orders"),
        (6, "message", 8, "mail"),
    ]


def test_only_one_queue_is_shown_where_asked(log) -> None:
    """
    Entries of the cluster belong to no queue.
    """
    assert [row["record"] for row in rows(log, queue="mail")] == [2, 4, 8]


def test_a_message_shows_its_facts(log) -> None:
    """
    Those that are set, in words where they have some.
    """
    record = log.message(1, 9)
    record.facts = MessageFacts(
        places=(Place(2, 7),),
        skips=b"\x05",
        form=Form(Encoding.MQTT, BodyKind.TEXT),
        origin=Origin(Cause.REJECTED, "orders", "ID:1"),
    )
    log.append(record)
    (row,) = (row for row in rows(log) if row["index"] == 7)
    assert row["facts"] == {
        "places": ((2, 7),),
        "skips": "05",
        "form": {"encoding": "mqtt", "kind": "text"},
        "origin": {"cause": "rejected", "queue": "orders", "message_id": "ID:1"},
    }
    assert '"origin":{"cause":"rejected"' in row_text(row)


def test_a_message_shows_headers_and_its_body_where_asked(log) -> None:
    """
    Escapes are decoded; a body that is no text is written in base 64.
    """
    plain, binary = [row for row in rows(log, with_bodies=True) if row["index"] == 3][:2]
    assert plain["headers"] == {"subject": "a:b", "content-type": "text/plain"}
    assert (plain["body"], plain["body_bytes"]) == ("hello", 5)
    assert (binary["body_base64"], "body" in binary) == ("/wA=", False)
    assert all("body" not in row for row in rows(log))


def test_every_kind_of_record_has_its_row(log) -> None:
    """
    A new kind without a row would be a gap in what an operator can see.
    """
    log.append(
        QueueRecord(1, "orders", 9, 5),
        DispatchMarkRecord(1, 4096),
        PurgeRecord(1, 8),
        ProducerRecord("p", 3),
        ForgetProducerRecord("p"),
        CountersRecord(3),
        CleanedRecord(2),
        FormatRecord(2),
        PolicyRecord("queue://a.>", '{"queuePrefetch":7}', 3),
        PolicyRecord("queue://b", ""),
        ReturnedRecord(9, ReturnCause.LOST_ALONE, [4, 5], 70),
        DeleteQueueRecord(9),
        AcknowledgeRecord(2, list(range(1, 20))),
        UserRecord("ann", '{"password":"$argon2id$hash","roles":["a"]}', 3),
        GrantRecord("a", "queue://b", 3),
        AuditRecord(7, "ann", "::1", "grant", "a", "done"),
    )
    found = [row for row in rows(log) if row["index"] == 7]
    kinds = [row["type"] for row in found]
    assert kinds == [
        *("queue", "dispatch-mark", "purge", "producer", "forget-producer"),
        *("counters", "cleaned", "format", "policy", "policy"),
        *("returned", "delete-queue", "acknowledge", "user", "grant", "audit"),
    ]
    assert found[7]["level"] == 2
    assert row_text(found[8]).endswith(
        'pattern="queue://a.>" revision=3 values={"queuePrefetch":7}'
    )
    assert row_text(found[9]).endswith('pattern="queue://b"')
    assert row_text(found[10]).endswith('#9 cause="lost_alone" due_ms=70 sequences=4,5')
    assert found[11]["queue"] == "#9"
    assert row_text(found[12]).endswith("mail sequences=1,2,3,4,5,6,7,8,… (19)")
    assert row_text(found[13]).endswith('name="ann" revision=3 roles=a credentials=password')
    assert row_text(found[14]).endswith('role="a" pattern="queue://b" rights=read,write')
    assert row_text(found[15]).endswith(
        'who="ann" source="::1" action="grant" object="a" outcome="done"'
    )


def test_a_message_that_was_written_again_says_so(log) -> None:
    """
    The cleaner's copies keep when they were stored first, and a producer its numbers.
    """
    message = log.message(1, 3)
    message.rewritten = True
    message.stored_at = 1_800_000_000_000_000
    message.producer_id, message.producer_sequence = "p-1", 33
    log.append(message)
    row = list(rows(log))[-1]
    assert row["stored_at"] == "2027-01-15T08:00:00.000000Z"
    assert ' producer="p-1" producer_sequence=33 rewritten stored_at=' in row_text(row)


def test_a_row_is_one_line(log) -> None:
    """
    Line feeds in headers do not break the table.
    """
    lines = [row_text(row) for row in rows(log, with_bodies=True)]
    assert all("\n" not in line for line in lines)
    assert lines[0].split() == ["1", "1", "2027-01-15T08:00:00.000000Z", "noop"]
    assert 'headers={"subject":"a:b","content-type":"text/plain"} body="hello"' in lines[3]
    assert lines[6].endswith("generation=1 members=a=h:1")


@pytest.mark.parametrize("body", [b"nonsense", b'{"members":3}', b"{}", b'{"members":[{}]}'])
def test_a_config_entry_without_sense_is_told(log, body: bytes) -> None:
    """
    The checksum was good, so this is a mistake of whoever wrote it.
    """
    log.append(kind=KIND_CONFIG, body=body)
    with pytest.raises(CorruptRecordError, match="entry 7 is a CONFIG entry"):
        list(rows(log))


def test_names_are_gathered_past_what_cannot_be_read(log) -> None:
    """
    Damage and nonsense cost only the names they hold.
    """
    log.append(log.message(1, 9), body=b"\x10\x00\x01\x00nonsense")
    log.append(QueueRecord(3, "late"))
    log.spoil(5)
    files = LogFiles(log.directory)
    names = queue_names(files.entries(files.names))
    assert names == {1: "orders", 2: "mail", 3: "late"}


def test_headers_that_are_not_stomp_are_shown_as_they_are(log) -> None:
    """
    A tool that looks at damage must not trip over it.
    """
    message = log.message(1, 9)
    message.headers = b"bad\\x:\xff\nno colon\n"
    message.size = len(message.headers) + len(message.body)
    log.append(message)
    assert list(rows(log))[-1]["headers"] == {"bad\\x": "\ufffd"}
