"""
The broker: batches and replies, marks, what is dropped with a leadership.

What clients see of it is tested through their sessions, and against a model in tests/property.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.model.records import AcknowledgeRecord, MessageRecord, PolicyRecord, QueueRecord


def kinds(desk) -> list[type]:
    return [type(record) for record in desk.broker.receipts.batch.records]


def test_a_batch_gathers_until_it_is_taken(desk) -> None:
    """
    One batch is one entry: declaration, messages and acknowledgements together.
    """
    assert not desk.broker.receipts.has_batch()
    desk.send(b"a", receipt=b"1")
    desk.send(b"b", receipt=b"2")
    assert kinds(desk) == [QueueRecord, MessageRecord, MessageRecord]
    desk.turn()
    assert len(desk.log) == 1
    assert desk.client.replies == [b"1", b"2"]
    assert desk.broker.receipts.uncommitted_bytes == 0


def test_acknowledgements_of_a_queue_are_one_record(desk, new_client) -> None:
    """
    However many there are; and alone they are not urgent.
    """
    client = new_client()
    for _ in range(3):
        desk.send(b"x")
    subscription = desk.subscribe(client=client)
    desk.turn()
    for key in (1, 3, 2):
        desk.broker.acknowledge(subscription, key, client, None)
    assert desk.broker.receipts.has_batch()
    assert not desk.broker.receipts.batch.is_urgent
    (record,) = desk.broker.receipts.take_batch().records
    assert isinstance(record, AcknowledgeRecord)
    assert record.sequences == [1, 3, 2]


def test_a_reply_waits_for_everything_asked_before_it(desk) -> None:
    """
    With nothing under way it goes at once, else with the last batch that is.
    """
    broker, client = desk.broker, desk.client
    broker.receipts.reply_after_pending(client, b"0")
    assert client.replies == [b"0"]
    desk.send(b"x")
    broker.receipts.reply_after_pending(client, b"1")
    desk.seal()
    broker.receipts.reply_after_pending(client, b"2")
    desk.send(b"x", receipt=b"3")
    broker.receipts.reply_after_pending(client, b"4")
    desk.seal()
    assert client.replies == [b"0"]
    desk.commit()
    assert client.replies == [b"0", b"1", b"2", b"3", b"4"]


def test_batches_are_applied_in_the_order_they_were_taken(desk) -> None:
    """
    Anything else is our own mistake.
    """
    desk.send(b"x")
    first = desk.broker.receipts.take_batch()
    desk.send(b"y")
    second = desk.broker.receipts.take_batch()
    with pytest.raises(AssertionError, match="order"):
        desk.broker.apply_batch(second, 1, 0)
    assert first is not second


def test_a_message_is_not_delivered_before_it_is_applied(desk, new_client) -> None:
    """
    Else a consumer could have seen what the cluster then loses.
    """
    client = new_client()
    desk.subscribe(client=client)
    desk.turn()
    desk.send(b"x")
    desk.dispatch()
    desk.seal()
    desk.dispatch()
    assert client.keys == []
    desk.commit()
    desk.dispatch()
    assert client.keys == [1]


# The end of a leadership --------------------------------------------------------------------------


def test_a_deposed_leader_has_nothing_to_undo(desk, new_client) -> None:
    """
    What was not committed is gone; the lasting state is what it was.
    """
    desk.send(b"stored")
    desk.turn()
    digest = digest_of(desk.state)
    client = new_client()
    broker = desk.broker
    desk.subscribe(client=client)
    desk.turn()
    digest = digest_of(desk.state)
    desk.send(b"lost", receipt=b"r")
    desk.send(b"lost", queue="planned")
    desk.seal()
    desk.send(b"lost")
    broker.send_transient(desk.queue(), b"", b"np")
    broker.publish(broker.topic("t"), b"", b"np")
    broker.temporaries.queue("tmp", owner=client)
    broker.follow()
    broker.let_go(lambda: False)
    assert not broker.receipts.has_batch()
    assert (
        broker.receipts.uncommitted_bytes,
        desk.broker.flow.memory_bytes,
        broker.flow.held_bytes,
    ) == (
        0,
        0,
        0,
    )
    assert not (broker.receipts.in_flight or broker.destinations.topics)
    assert not (broker.temporaries.queues or broker.destinations.leadership.plans)
    assert list(desk.state.by_name) == ["orders"]
    assert digest_of(desk.state) == digest
    assert desk.client.replies == []
    broker.lead()
    desk.in_flight.clear()
    assert broker.queue("planned").number == 2
    assert broker.queue("orders").assigned_sequence == 2


def test_a_follower_applies_entries(desk) -> None:
    """
    The same state by apply_entry, and nothing kept in memory but the index.
    """
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    replayed = desk.replayed()
    assert digest_of(replayed) == digest_of(desk.state)
    assert replayed.live_count() == 3
    assert replayed.live_bytes() == 3


def test_beginning_anew_drops_all_state(desk) -> None:
    """
    A replica that was sent the log from a leader's first segment starts from nothing; what it
    counted since its process started goes on.
    """
    desk.send(b"x")
    desk.turn()
    desk.state.producers.forgotten_count = 3
    desk.broker.begin_anew()
    assert not desk.broker.state.queues
    assert desk.state.producers.forgotten_count == 3
    desk.broker.apply_entry(1, [QueueRecord(4, "q")], 5)
    assert desk.broker.state.next_queue_number == 5


# What cannot be read ------------------------------------------------------------------------------


def test_who_leads_knows_already_who_consumes_virtual_topics(desk) -> None:
    """
    Of the forms that policies may make, too: the first message to one looks through nothing.
    """
    values = json.dumps({"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."})
    desk.broker.receipts.record(PolicyRecord("topic://news", values))
    for name in ("Consumer.A.VirtualTopic.t", "VTC.1.news", "a"):
        desk.queue(name)
    desk.turn()
    desk.broker.prepare()
    desk.broker.lead()
    destinations = desk.broker.destinations
    destinations.virtual._names = None
    assert destinations.consumers_of("VirtualTopic.t") == ["Consumer.A.VirtualTopic.t"]
    assert destinations.consumers_of("news") == ["VTC.1.news"]
