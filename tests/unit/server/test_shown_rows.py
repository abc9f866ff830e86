"""What is told of one message, and of one durable subscription."""

from __future__ import annotations

import json

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.leases.projection import MessageRow, SubscriptionRow
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.records import (
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Record,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord, part_name
from holdfast.server.shown_rows import (
    BODY_BYTES_MAX,
    HEADERS_MAX,
    message_row,
    subscription_row,
    whole_number,
)


class Log:
    """A broker, and its log as it is read."""

    def __init__(self) -> None:
        self.broker = Broker(BrokerSettings())
        self.records: dict[int, Record] = {}
        self.applied_index = 0

    def apply(self, *records: Record) -> None:
        self.applied_index += 1
        first = 100 * self.applied_index
        self.records |= dict(enumerate(records, first))
        self.broker.apply_entry(first, list(records), self.applied_index)

    def read(self, record_number: int) -> MessageRecord:
        found = self.records[record_number]
        assert isinstance(found, MessageRecord)
        return found

    def read_move(self, record_number: int) -> MoveRecord:
        found = self.records[record_number]
        assert isinstance(found, MoveRecord)
        return found

    def entry_index(self, record_number: int) -> int:
        return record_number // 100

    def row(self, number: int, sequence: int = 1, *, with_body: bool = False) -> MessageRow:
        lasting = self.broker.state.queues[number]
        return message_row(self, lasting, sequence, "c0ffee", with_body=with_body)


@pytest.fixture
def log() -> Log:
    made = Log()
    made.apply(QueueRecord(1, "orders"), QueueRecord(2, "more"), TopicRecord(3, "news"))
    return made


def message(
    queue: int, headers: bytes = b"", body: bytes = b"body", facts: MessageFacts | None = None
) -> MessageRecord:
    record = MessageRecord(queue, 1, headers, body, len(headers) + len(body))
    record.stored_at, record.facts = 1_790_000_000_123_456, facts
    return record


def test_a_message_is_told_as_its_sender_and_the_log_have_it(log: Log) -> None:
    """Its headers as JSON, whatever they hold; its body only where that is asked for."""
    lines = "priority:7\ntype:étoile \\c \\n 1\n".encode()
    facts = MessageFacts(attributes=Attributes(expires_ms=1_800_000_000_000))
    log.apply(message(1, lines, facts=facts))
    row = log.row(1)

    assert json.loads(row.headers or "") == {"priority": "7", "type": "étoile : \n 1"}
    assert "étoile" in (row.headers or ""), "as a person reads it"
    assert row == MessageRow(
        queue_number=1,
        sequence=1,
        idx=2,
        container="queue://orders",
        message_id="ID:c0ffee-1-1",
        stored_at=1_790_000_000_123,
        expires_at=1_800_000_000_000,
        priority=7,
        size=len(lines) + 4,
        headers=row.headers,
        body=None,
        as_of_index=2,
    )
    assert log.row(1, with_body=True).body == b"body"


@pytest.mark.parametrize("said", ["", "priority:\n", "priority:12\n", "priority:x\n"])
def test_who_says_no_priority_has_the_usual_one(log: Log, said: str) -> None:
    """Nor is anything a priority that is none."""
    log.apply(message(1, said.encode()))
    assert log.row(1).priority == 4


def test_what_is_too_long_is_left_out(log: Log) -> None:
    """Its size is told all the same."""
    log.apply(message(1, b"long:" + b"x" * HEADERS_MAX + b"\n", b"y" * (BODY_BYTES_MAX + 1)))
    row = log.row(1, with_body=True)
    assert (row.headers, row.body) == (None, None)
    assert row.size > HEADERS_MAX + BODY_BYTES_MAX


def test_no_text_has_what_a_database_refuses(log: Log) -> None:
    """PostgreSQL has no character 0."""
    log.apply(QueueRecord(7, "a\0b"), message(7, b"nul:a\0b\n"))
    row = log.row(7)
    assert row.container == "queue://a\ufffdb"
    assert "\0" not in (row.headers or "")


def test_what_was_moved_is_told_where_it_stands(log: Log) -> None:
    """With the way that it came, and the entry that has its bytes."""
    log.apply(message(1))
    move = MoveRecord(1, 2, Cause.REJECTED, [Run(1, 5, 1)], queue_name="orders")
    log.apply(move)
    row = log.row(2, 5)

    assert (row.container, row.message_id, row.idx) == ("queue://more", "ID:c0ffee-2-5", 2)
    assert json.loads(row.headers or "")["original-message-id"] == "ID:c0ffee-1-1"


def test_a_subscription_is_told_up_to_where_it_needs_nothing(log: Log) -> None:
    """And how many messages it needs behind that."""
    log.apply(SubscriptionRecord(4, 3, 0, "client", "sub", selector="a > 1"))
    for sequence in range(1, 5):
        record = message(3)
        record.sequence = sequence
        log.apply(record)
    lasting = log.broker.state.subscriptions["client", "sub"]
    wanted = SubscriptionRow(
        number=4,
        container="topic://news",
        client_id="client",
        name="sub",
        selector="a > 1",
        depth=4,
        last_acked=0,
        as_of_index=9,
    )
    assert subscription_row(lasting, "sub", 9) == wanted
    log.apply(SubscriptionAcknowledgeRecord(4, [1, 3], 3))
    row = subscription_row(lasting, "sub", 9)
    assert (row.depth, row.last_acked) == (2, 1)
    log.apply(SubscriptionAcknowledgeRecord(4, [2, 4], 3))
    row = subscription_row(lasting, "sub", 9)
    assert (row.depth, row.last_acked) == (0, 4)


def test_a_part_of_a_wildcard_has_the_number_of_the_whole(log: Log) -> None:
    """By which its name is found."""
    log.apply(
        TopicRecord(5, "news.>"),
        SubscriptionRecord(6, 5, 0, "client", "wild"),
        SubscriptionRecord(8, 3, 0, "client", part_name(6, 3)),
    )
    subscriptions = log.broker.state.queues
    assert [whole_number(subscriptions[it]) for it in (6, 8)] == [6, 6]  # type: ignore[arg-type]
