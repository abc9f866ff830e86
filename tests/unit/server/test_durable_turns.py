"""
What a few bytes say of many durable subscriptions is applied in several turns, seen by nobody half.

The clock stands still and slices are of no length: each turn does one step.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.server.settings import ServerSettings

SUBSCRIPTIONS = 200
MESSAGES = 60
SUBSCRIBE = (
    b"SUBSCRIBE\nid:%d\ndestination:/topic/t\nack:client\nactivemq.subscriptionName:x%d\n"
    b"selector:a = '1'\n\n\0"
)
SEND = b"SEND\ndestination:/topic/t\npersistent:true\n%s\n\nx\0"


def durable_client(node, *data: bytes):
    """A client that may have durable subscriptions."""
    connection = node.open()
    connection.data_received(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c\n\n\0")
    for each in data:
        connection.data_received(each)
    return connection


@pytest.fixture
def leading(hasty):
    """A leader with a topic that many want one message in a hundred of, and one all of them."""
    hasty.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    hasty.settle()
    client = durable_client(hasty, *(SUBSCRIBE % (n, n) for n in range(SUBSCRIPTIONS)))
    client.data_received(
        b"SUBSCRIBE\nid:all\ndestination:/topic/t\nactivemq.subscriptionName:all\nreceipt:s\n\n\0"
    )
    hasty.turns_until(lambda: b"receipt-id:s" in client.transport.written)
    return hasty, client


def applied_in_turns(node, index: int, look) -> int:
    """Turn until an entry is applied; gives in how many turns something of it was."""
    seen = 0
    before = node.broker.state.live_count(), node.broker.state.acknowledged_total
    while node.store.whole_index < index:
        node.store.commit_all()
        node.turn()
        now = node.broker.state.live_count(), node.broker.state.acknowledged_total
        seen += now != before
        before = now
        if node.store.whole_index < index:
            look()
    return seen


def replayed(node, new_node, index: int):
    """Let a follower apply the log up to an entry, and that one; gives in how many turns."""
    follower = new_node(settings=ServerSettings(slice_seconds=0.0))
    follower.store.entries = node.store.entries[:index]
    follower.store.commit_index = index - 1
    while follower.store.whole_index < index - 1:
        follower.turn()

    def look() -> None:
        assert not follower.conductor.is_serving

    return follower, applied_in_turns(follower, index, look)


@pytest.mark.parametrize("is_commit", [True, False])
def test_messages_that_few_subscriptions_want(leading, new_node, is_commit: bool) -> None:
    """
    Five hundred for 900 subscriptions that wanted none stood still for six seconds, and the lead
    was lost: whether they come in a transaction or each for itself.
    """
    node, consumer = leading
    producer = node.connect()
    node.store.is_writing = True  # All that is read gathers.
    if is_commit:
        producer.data_received(b"BEGIN\ntransaction:t\n\n\0")
        producer.data_received(SEND % b"transaction:t\n" * MESSAGES)
        producer.data_received(b"COMMIT\ntransaction:t\nreceipt:r\n\n\0")
    else:
        producer.data_received(SEND % b"" * (MESSAGES - 1) + SEND % b"receipt:r")
    for _ in range(20 * MESSAGES):
        node.turn()
    index = len(node.store.entries) + 1
    node.store.is_writing = False

    def look() -> None:
        assert b"MESSAGE" not in consumer.transport.written
        assert b"RECEIPT" not in producer.transport.written

    turns = applied_in_turns(node, index, look)
    assert turns >= MESSAGES * SUBSCRIPTIONS * 3 // 4096
    assert node.store.entries[index - 1].record_count == MESSAGES
    node.turns_until(lambda: b"receipt-id:r" in producer.transport.written)
    node.turns_until(lambda: consumer.transport.written.count(b"MESSAGE") == MESSAGES)
    follower, follower_turns = replayed(node, new_node, index)
    assert follower_turns >= MESSAGES * SUBSCRIPTIONS * 3 // 4096
    assert follower.broker.state.live_count() == MESSAGES


def test_the_end_of_many(leading, new_node) -> None:
    """
    Each takes what waits for it off the topic, message by message.
    """
    node, client = leading
    client.connection_lost(None)
    left = node.broker.state.subscriptions.values()
    node.turns_until(lambda: all(each.detached_at for each in left))
    producer = node.connect()
    producer.data_received(SEND % b"a:1" * MESSAGES + SEND % b"a:1\nreceipt:r")
    node.turns_until(lambda: b"receipt-id:r" in producer.transport.written)
    node.store.is_writing = True
    again = durable_client(node)
    again.data_received(
        b"".join(
            b"UNSUBSCRIBE\nid:n\nactivemq.subscriptionName:x%d\n\n\0" % n
            for n in range(SUBSCRIPTIONS)
        )
    )
    again.data_received(b"SEND\ndestination:/queue/z\npersistent:true\nreceipt:z\n\n\0")
    for _ in range(20 * SUBSCRIPTIONS):
        node.turn()
    index = len(node.store.entries) + 1
    node.store.is_writing = False
    turns = 0
    while node.store.whole_index < index:
        node.store.commit_all()
        node.turn()
        turns += 1
        assert b"receipt-id:z" not in again.transport.written or node.store.whole_index == index
    assert turns > SUBSCRIPTIONS * MESSAGES * 3 // 4096
    assert node.store.entries[index - 1].record_count == 2 * SUBSCRIPTIONS + 2
    node.turns_until(lambda: b"receipt-id:z" in again.transport.written)
    assert [each.name for each in node.broker.state.subscriptions.values()] == ["all"]
    node.turns_until(lambda: not node.broker.receipts.has_batch() and node.store.is_applied_whole)
    follower, _ = replayed(node, new_node, len(node.store.entries))
    assert digest_of(follower.broker.state) == digest_of(node.broker.state)
