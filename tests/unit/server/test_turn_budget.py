"""
Nothing in a turn is long: each kind of work at its limit, with a slice that is over at every look.

The clock stands still and slices are of no length, so each turn does one step of each kind of work;
what a step may hold is `step_count_max`.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.record_steps import SEQUENCES_PER_RECORD
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import (
    AcknowledgeRecord,
    MessageRecord,
    MoveRecord,
    QueueRecord,
    ReturnedRecord,
    Run,
)
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.server.settings import ServerSettings
from holdfast.server.turn_budget import TurnBudget

STEP = BrokerSettings().step_count_max
RECORDS_AT_ONCE = ServerSettings().seal_records_max
BYTES_AT_ONCE = ServerSettings().seal_bytes_max
IN_MEMORY_NONE = BrokerSettings(memory_bytes=0)


def test_a_slice_ends_by_the_clock(new_node) -> None:
    """
    So long after it began, anew for each kind of work.
    """
    clock = new_node().clock
    budget = TurnBudget(clock, 0.5)
    budget.begin()
    assert not budget.is_spent()
    clock.now += 0.5
    assert budget.is_spent()
    budget.begin()
    assert not budget.is_spent()


def test_many_frames_are_read_in_several_turns(hasty, send) -> None:
    """
    And nothing of them is lost; whoever sends much waits behind the others.
    """
    busy = hasty.connect()
    modest = hasty.connect()
    busy.data_received(b"".join(send(b"%d" % number) for number in range(5 * STEP)))
    modest.data_received(send(b"modest", b"m"))
    taken = []
    for _ in range(3):
        before = sum(entry.record_count for entry in hasty.store.entries)
        hasty.turn()
        taken.append(sum(entry.record_count for entry in hasty.store.entries) - before)
    assert max(taken) <= STEP + 1  # The queue's own record comes with the first.
    hasty.turns_until(lambda: b"receipt-id:m" in modest.transport.written)
    assert busy.transport.written.count(b"RECEIPT") < 5 * STEP
    hasty.turns_until(lambda: busy.transport.written.count(b"RECEIPT") == 5 * STEP)
    bodies = [record.body for record in stored(hasty) if record.body != b"modest"]
    assert bodies == [b"%d" % number for number in range(5 * STEP)]


def begin_large(node, count: int = 0, size: int = 0):
    """A client commits a transaction that is too large to be sealed at once."""
    producer = node.connect(b"BEGIN\ntransaction:t\n\n\0")
    head = b"SEND\ndestination:/queue/q\npersistent:true\ntransaction:t\n\n"
    parts = (head + b"x\0") * count if count else head + b"x" * size + b"\0"
    producer.data_received(parts + b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    for _ in range(10_000):
        if node.conductor.sealer.under_way is not None:
            return producer
        node.turn()
    raise AssertionError("it is never sealed")


@pytest.mark.parametrize(("count", "size"), [(RECORDS_AT_ONCE + 1, 0), (0, 2 * BYTES_AT_ONCE)])
def test_a_large_batch_is_sealed_in_several_turns(hasty, send, count: int, size: int) -> None:
    """
    It is one entry all the same; what comes meanwhile is read, and confirmed after it.
    """
    producer = begin_large(hasty, count, size)
    modest = hasty.connect()
    modest.data_received(send(b"modest", b"m"))
    turns = 0
    while hasty.conductor.sealer.under_way is not None:
        before = hasty.conductor.sealer.under_way.step_count
        hasty.turn()
        turns += 1
        if hasty.conductor.sealer.under_way is not None:
            assert hasty.conductor.sealer.under_way.step_count == before + 1
        assert b"RECEIPT" not in producer.transport.written + modest.transport.written
    assert turns > 10
    hasty.turns_until(lambda: b"receipt-id:m" in modest.transport.written)
    assert b"receipt-id:c" in producer.transport.written
    counts = [entry.record_count for entry in hasty.store.entries]
    assert counts == [1, count or 1, 1] or counts == [(count or 1) + 1, 1]
    assert [record.body for record in stored(hasty)][-1] == b"modest"
    assert len(stored(hasty)) == (count or 1) + 1


def test_what_was_being_sealed_is_lost_with_the_lead(hasty) -> None:
    """
    Nobody was told of it, and nothing of it is in the log.
    """
    producer = begin_large(hasty, size=2 * BYTES_AT_ONCE)
    entries = len(hasty.store.entries)
    hasty.store.is_serving = hasty.store.is_leader = False
    hasty.turn()
    assert hasty.conductor.sealer.under_way is None
    hasty.store.is_serving = hasty.store.is_leader = True
    for _ in range(100):
        hasty.turn()
    assert len(hasty.store.entries) == entries
    assert b"RECEIPT" not in producer.transport.written


def test_sealing_rests_while_the_lead_is_handed_over(hasty) -> None:
    """
    And goes on if that is given up; a node that stops waits for it.
    """
    producer = begin_large(hasty, size=2 * BYTES_AT_ONCE)
    hasty.store.is_handing_over = True
    done = hasty.conductor.sealer.under_way.step_count
    for _ in range(5):
        hasty.turn()
    assert hasty.conductor.sealer.under_way.step_count == done
    assert hasty.conductor.sealer.has_work()
    hasty.store.is_handing_over = False
    hasty.turns_until(lambda: b"receipt-id:c" in producer.transport.written)
    assert not hasty.conductor.sealer.has_work()


def stored(node) -> list[MessageRecord]:
    """The messages in the log, in order."""
    return [
        record
        for entry in node.store.entries
        for record in node.store.decode(entry, with_content=True)
        if isinstance(record, MessageRecord)
    ]


def test_what_waited_for_a_lease_is_done_in_several_turns(new_node, send) -> None:
    """
    Two hundred clients with a late acknowledgement each and SENDs behind it took 0.7 s, into one
    entry of 80,000 records.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0, batch_records_max=2 * STEP))
    node.store.is_awaiting_lease = True
    node.store.is_serving = True
    node.turns_until(lambda: node.conductor.is_serving)
    late = b"ACK\nid:ID\\cc-1-1\n\n\0"
    clients = [node.connect() for _ in range(5)]
    for place, each in enumerate(clients):
        each.data_received(late + b"".join(send(b"%d" % place) for _ in range(3 * STEP)))
    node.turns_until(lambda: not node.conductor.clients.ready)
    assert not stored(node)
    node.store.is_awaiting_lease = False
    seen = []
    while len(stored(node)) < 15 * STEP:
        before = len(stored(node))
        node.turn()
        seen.append(len(stored(node)) - before)
    assert max(seen) <= 4 * STEP
    assert max(entry.record_count for entry in node.store.entries) <= 4 * STEP
    node.turns_until(
        lambda: all(it.transport.written.count(b"RECEIPT") == 3 * STEP for it in clients)
    )
    assert all(it.transport.is_reading for it in clients)


def test_what_a_client_sent_before_it_went_is_read(hasty, send) -> None:
    """
    However many turns that takes; then it is forgotten.
    """
    connection = hasty.connect()
    connection.data_received(b"".join(send(b"x") for _ in range(3 * STEP)))
    hasty.turn()
    connection.connection_lost(None)
    assert hasty.turns_until(lambda: connection not in hasty.conductor.connections) > 1
    assert len(stored(hasty)) == 3 * STEP


def test_a_large_chunk_is_parsed_in_pieces(new_node, send) -> None:
    """
    To parse a whole one takes longer than a slice.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0, read_bytes_max=100))
    node.serve()
    connection = node.connect()
    connection.data_received(send(b"x" * 500, b"a") + send(b"y" * 500, b"b"))
    assert node.turns_until(lambda: b"receipt-id:b" in connection.transport.written) >= 10
    assert [record.body for record in stored(node)] == [b"x" * 500, b"y" * 500]


def test_frames_that_take_long_are_parsed_in_several_turns(hasty, monkeypatch) -> None:
    """
    64 KiB of SUBSCRIBEs in one read took 25 ms, most of it before the first of them was served.
    """
    count = 5 * STEP
    client = hasty.connect()
    events = []
    whole = StompConnection.events_received

    def counted(protocol: StompConnection) -> list:
        found = whole(protocol)
        events.append(len(found))
        return found

    monkeypatch.setattr(StompConnection, "events_received", counted)
    client.data_received(
        b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/q\n\n\0" % n for n in range(count))
    )
    hasty.turns_until(lambda: len(client.session.subscriptions) == count)
    assert sum(events) == count
    assert max(events) <= STEP


def test_a_large_entry_is_applied_in_several_turns(new_node) -> None:
    """
    On a follower, too; until it is whole it does not count as applied, and nobody serves.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    count = 50 * STEP
    messages = [MessageRecord(1, number, b"", b"x", 1) for number in range(1, count)]
    node.store.append([QueueRecord(1, "q"), *messages], 0.0, 1)
    node.store.commit_all()
    node.store.is_serving = True
    seen = []
    while node.broker.state.live_count() < count - 1:
        before = node.broker.state.live_count()
        node.turn()
        seen.append(node.broker.state.live_count() - before)
        assert not node.conductor.is_serving
        assert node.store.whole_index == 0
    assert max(seen) <= 8 * STEP
    assert len(seen) >= 6
    node.turn()
    node.turn()
    assert node.store.whole_index == 1
    assert node.conductor.is_serving


def test_one_record_of_many_acknowledgements_is_applied_in_several_turns(new_node) -> None:
    """
    A consumer's one ACK may stand for 65,535 messages, and a transaction's for 100,000.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    keys = list(range(1, 50_001))
    messages = [MessageRecord(1, number, b"", b"", 0) for number in keys]
    node.store.append([QueueRecord(1, "q"), *messages], 0.0, 1)
    node.store.append([AcknowledgeRecord(1, keys)], 0.0, 1)
    node.store.commit_all()
    node.turns_until(lambda: node.broker.state.live_count() == len(keys))
    seen = []
    while node.store.whole_index < 2:
        before = node.broker.state.live_count()
        node.turn()
        seen.append(before - node.broker.state.live_count())
    assert max(seen) <= 8 * SEQUENCES_PER_RECORD * STEP
    assert sum(seen) == len(keys)


def test_the_clock_is_looked_at_after_an_acknowledgement_of_many(hasty, send) -> None:
    """
    Several in one read go in several turns: each may stand for 65,535 messages.
    """
    count = 2 * STEP
    for name in range(3):
        producer = hasty.connect()
        data = b"".join(send(b"%d" % number) for number in range(count))
        producer.data_received(data.replace(b"/queue/q", b"/queue/%d" % name))
    consumer = hasty.connect(
        b"".join(
            b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\nack:client\n\n\0" % (name, name)
            for name in range(3)
        )
    )
    held = consumer.session.subscriptions.values()
    hasty.turns_until(lambda: [len(each.unacknowledged) for each in held] == [count] * 3)
    consumer.data_received(
        b"".join(
            b"ACK\nid:%d-%d\n\n\0" % (each.ordinal, list(each.unacknowledged)[-1]) for each in held
        )
    )
    left = [3]
    while left[-1]:
        hasty.turn()
        left.append(sum(bool(each.unacknowledged) for each in held))
    assert left == [3, 2, 1, 0]


def test_an_acknowledgement_frees_what_is_only_in_memory_in_several_turns(hasty) -> None:
    """
    Of what was in one ACK nobody gets anything any more.
    """
    count = 10 * STEP
    consumer = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n\0")
    hasty.connect().data_received(b"SEND\ndestination:/queue/q\n\nx\0" * count)
    (held,) = consumer.session.subscriptions.values()
    hasty.turns_until(lambda: len(held.unacknowledged) == count)
    last = list(held.unacknowledged)[-1]
    consumer.data_received(b"ACK\nid:%d-%d\nreceipt:r\n\n\0" % (held.ordinal, last))
    queue = hasty.broker.queue("q")
    seen = []
    while queue.transients:
        before = len(queue.transients)
        hasty.turn()
        seen.append(before - len(queue.transients))
    assert max(seen) <= 2 * STEP
    assert not queue.custody.reserved
    assert hasty.broker.flow.volatile_bytes == 0
    assert b"receipt-id:r" in consumer.transport.written


def test_a_leader_confirms_a_large_entry_when_it_is_whole(hasty) -> None:
    """
    Its messages are not delivered before, and its receipts leave in steps.
    """
    consumer = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    producer = hasty.connect(b"BEGIN\ntransaction:t\n\n\0")
    part = b"SEND\ndestination:/queue/q\npersistent:true\ntransaction:t\n\nx\0"
    count = 20 * STEP
    producer.data_received(part * count + b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    hasty.turns_until(lambda: hasty.conductor.applying is not None)
    while hasty.conductor.applying is not None:
        assert b"MESSAGE" not in consumer.transport.written
        hasty.turn()
    assert hasty.broker.state.live_count() == count
    hasty.turns_until(lambda: b"receipt-id:c" in producer.transport.written)
    hasty.turns_until(lambda: consumer.transport.written.count(b"MESSAGE") == count)


def test_another_leader_may_take_over_in_the_middle_of_an_entry(hasty, send) -> None:
    """
    It is committed, so the rest of it is applied; its receipts are nobody's any more.
    """
    producer = hasty.connect(b"BEGIN\ntransaction:t\n\n\0")
    part = b"SEND\ndestination:/queue/q\npersistent:true\ntransaction:t\n\nx\0"
    producer.data_received(part * (20 * STEP) + b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    hasty.turns_until(lambda: hasty.conductor.applying is not None)
    hasty.store.is_serving = hasty.store.is_leader = False
    for _ in range(50):
        hasty.turn()
    assert not hasty.conductor.is_serving
    assert hasty.broker.state.live_count() == 20 * STEP
    assert b"receipt-id:c" not in producer.transport.written


def test_deliveries_to_many_consumers_take_several_turns(hasty) -> None:
    """
    A thousand to each of a hundred took 0.4 s in one.
    """
    subscribe = b"".join(
        b"SUBSCRIBE\nid:%d\ndestination:/queue/q\nack:client\n\n\0" % number for number in range(9)
    )
    part = b"SEND\ndestination:/queue/q\n\nx\0"
    producer = hasty.connect(part * (20 * STEP))
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    consumers = [hasty.connect(subscribe) for _ in range(5)]
    counters = hasty.conductor.counters
    seen = []
    while counters.deliveries < 20 * STEP:
        before = counters.deliveries
        hasty.turn()
        seen.append(counters.deliveries - before)
    assert max(seen) <= STEP
    assert producer is not None
    assert sum(each.transport.written.count(b"MESSAGE") for each in consumers) == 20 * STEP


def test_what_is_read_from_the_log_is_read_one_by_one(new_node, send) -> None:
    """
    Each may load an entry of megabytes, so the clock is looked at after each.
    """
    node = new_node(broker=IN_MEMORY_NONE, settings=ServerSettings(slice_seconds=0.0))
    node.serve()
    producer = node.connect(*(send(b"%d" % number) for number in range(20)))
    node.turns_until(lambda: producer.transport.written.count(b"RECEIPT") == 20)
    consumer = node.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    node.turns_until(lambda: b"MESSAGE" in consumer.transport.written)
    for count in range(1, 20):
        assert consumer.transport.written.count(b"MESSAGE") == count
        node.turn()


def test_leaving_with_many_subscriptions_takes_several_turns(hasty, send) -> None:
    """
    Ten thousand on one queue took 3.5 s; what they held is given back in its old order.
    """
    count = 3 * STEP
    subscribe = b"".join(
        b"SUBSCRIBE\nid:%d\ndestination:/queue/q\nack:client\nprefetch-count:1\n\n\0" % number
        for number in range(count)
    )
    leaver = hasty.connect(subscribe)
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    producer = hasty.connect(b"".join(send(b"%d." % number) for number in range(count)))
    hasty.turns_until(lambda: leaver.transport.written.count(b"MESSAGE") == count)
    assert producer is not None
    queue = hasty.broker.queue("q")
    heir = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    leaver.connection_lost(None)
    seen = []
    while len(queue.subscriptions) > 1:
        before = len(queue.subscriptions)
        hasty.turn()
        seen.append(before - len(queue.subscriptions))
    assert max(seen) <= STEP
    hasty.turns_until(lambda: heir.transport.written.count(b"MESSAGE") == count)
    assert len(queue.choice.ready) <= 2


def test_a_subscription_that_holds_much_gives_it_back_in_order(hasty, send) -> None:
    """
    The queue waits until all of it is there again: else new messages would go before old ones.
    """
    count = 4 * STEP
    leaver = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n\0")
    hasty.connect(b"".join(send(b"<%d>" % number) for number in range(count)))
    hasty.turns_until(lambda: leaver.transport.written.count(b"MESSAGE") == count)
    heir = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    hasty.connect(send(b"<new>"))
    leaver.connection_lost(None)
    hasty.turn()
    assert hasty.broker.errands
    hasty.turns_until(lambda: heir.transport.written.count(b"MESSAGE") == count + 1)
    written = heir.transport.written
    places = [written.index(b"<%d>" % number) for number in range(count)]
    assert places == sorted(places)


def test_many_sockets_are_written_to_in_several_turns(hasty) -> None:
    """
    One message for ten thousand subscribers is ten thousand writes.
    """
    subscribers = [
        hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/topic/t\n\n\0") for _ in range(100)
    ]
    hasty.turns_until(lambda: not hasty.conductor.context.dirty)
    for each in subscribers:
        each.transport.take()
    hasty.connect().data_received(b"SEND\ndestination:/topic/t\n\nx\0")
    seen = []
    total = 0
    while total < 100:
        hasty.turn()
        before, total = total, sum(bool(each.transport.written) for each in subscribers)
        seen.append(total - before)
    assert max(seen) <= 16


def acknowledging_all(node, send, count: int):
    """A client that was given messages and has acknowledged each in a transaction."""
    client = node.connect(
        b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\n\n\0"
        b"BEGIN\ntransaction:t\n\n\0"
    )
    node.connect(b"".join(send(b"<%d>" % number) for number in range(count)))
    node.turns_until(lambda: client.transport.written.count(b"MESSAGE") == count)
    (subscription,) = client.session.subscriptions.values()
    frames = [
        b"ACK\nid:%d-%d\ntransaction:t\n\n\0" % (subscription.ordinal, key)
        for key in list(subscription.unacknowledged)
    ]
    client.data_received(b"".join(frames))
    node.turns_until(lambda: not subscription.unacknowledged)
    return client


def test_a_rollback_takes_several_turns_and_others_go_on(hasty, send) -> None:
    """
    A hundred thousand operations took up to 220 ms; what comes behind it waits for all of it.
    """
    count = 5 * STEP
    client = acknowledging_all(hasty, send, count)
    (subscription,) = client.session.subscriptions.values()
    hasty.broker.unsubscribe(subscription)
    queue = hasty.broker.queue("q")
    heir = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    client.data_received(
        b"ABORT\ntransaction:t\nreceipt:a\n\n\0BEGIN\ntransaction:u\nreceipt:b\n\n\0"
    )
    other = hasty.connect(send(b"<new>", b"o"))
    seen = []
    while queue.custody.reserved:
        before = len(queue.custody.reserved)
        hasty.turn()
        seen.append(before - len(queue.custody.reserved))
        if queue.custody.reserved:
            assert b"RECEIPT" not in client.transport.written
            assert b"MESSAGE" not in heir.transport.written
    assert max(seen) <= STEP
    hasty.turns_until(lambda: b"receipt-id:b" in client.transport.written)
    assert b"receipt-id:a" in client.transport.written
    hasty.turns_until(lambda: heir.transport.written.count(b"MESSAGE") == count + 1)
    written = heir.transport.written
    places = [written.index(b"<%d>" % number) for number in range(count)]
    assert places == sorted(places)
    assert b"receipt-id:o" in other.transport.written


def test_who_leaves_with_a_large_transaction_takes_several_turns(hasty, send) -> None:
    """
    In the middle of an ABORT too: another client gets all of it, in the old order.
    """
    count = 5 * STEP
    client = acknowledging_all(hasty, send, count)
    queue = hasty.broker.queue("q")
    client.connection_lost(None)
    seen = []
    while queue.custody.reserved:
        before = len(queue.custody.reserved)
        hasty.turn()
        seen.append(before - len(queue.custody.reserved))
    assert max(seen) <= STEP
    heir = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    hasty.turns_until(lambda: heir.transport.written.count(b"MESSAGE") == count)


def test_a_commit_settles_what_is_only_in_memory_in_several_turns(hasty) -> None:
    """
    Nobody can have it any more, so nobody sees that it goes in steps.
    """
    count = 5 * STEP

    def send(body: bytes) -> bytes:
        return b"SEND\ndestination:/queue/q\npersistent:false\n\n%b\0" % body

    client = acknowledging_all(hasty, send, count)
    queue = hasty.broker.queue("q")
    client.data_received(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    seen = []
    while queue.transients:
        before = len(queue.transients)
        hasty.turn()
        seen.append(before - len(queue.transients))
    assert max(seen) <= 2 * STEP
    assert hasty.broker.flow.volatile_bytes == 0
    assert b"receipt-id:c" in client.transport.written


def test_what_is_published_goes_out_before_more_is_read(hasty) -> None:
    """
    A small message for many costs more to deliver than to read: what waited grew without bound,
    and queues had no deliveries meanwhile.
    """
    count = 5 * STEP
    hasty.connect(
        b"".join(b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % each for each in range(count))
    )
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    consumer = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    publisher, other = hasty.connect(), hasty.connect()
    publisher.data_received(b"SEND\ndestination:/topic/t\n\nx\0" * 40)
    other.data_received(b"SEND\ndestination:/queue/q\n\nhello\0")
    seen = []
    for _ in range(60):
        hasty.turn()
        seen.append(len(hasty.broker.publishing.deliveries))
    assert max(seen) <= count
    assert b"hello" in consumer.transport.written
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    hasty.turns_until(lambda: not hasty.broker.publishing.deliveries)
    assert len(hasty.broker.topic("t").subscriptions) == count


@pytest.mark.parametrize("persistent", [b"", b"persistent:true\n"])
@pytest.mark.parametrize("subscribers", [3, 2 * STEP])
def test_what_a_commit_publishes_goes_out_in_several_turns(
    hasty, persistent: bytes, subscribers: int
) -> None:
    """
    Five thousand messages to five hundred subscriptions took 3.7 s in one. What is published once
    it is committed goes behind all of it, and the confirms of others do not wait for it. Its own
    does: else a leader that is deposed now has confirmed what most subscribers never see.
    """
    count = 2 * STEP
    subscribe = b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0"
    subscriber = hasty.connect(b"".join(subscribe % each for each in range(subscribers)))
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    publisher, other = hasty.connect(), hasty.connect()
    part = b"SEND\ndestination:/topic/t\ntransaction:t\n\n<%d>\0"
    publisher.data_received(
        b"BEGIN\ntransaction:t\n\n\0"
        + b"".join(part % each for each in range(count))
        + b"SEND\ndestination:/queue/q\n%btransaction:t\n\nq\0" % persistent
        + b"COMMIT\ntransaction:t\nreceipt:c\n\n\0"
    )
    spreads = hasty.broker.publishing.spreads
    hasty.turns_until(lambda: any(b"<%d>" % (count - 1) == it.message.body for it in spreads))
    publisher.data_received(b"SEND\ndestination:/topic/t\n\n<%d>\0" % count)
    other.data_received(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:o\n\nx\0")
    counters = hasty.conductor.counters
    seen, confirmed_after = [], 0
    while counters.deliveries < (count + 1) * subscribers:
        before = counters.deliveries
        hasty.clock.now += 0.02
        hasty.store.commit_all()
        hasty.turn()
        seen.append(counters.deliveries - before)
        if not confirmed_after and b"receipt-id:o" in other.transport.written:
            confirmed_after = counters.deliveries
        is_out = counters.deliveries >= count * subscribers
        assert is_out or b"receipt-id:c" not in publisher.transport.written
    hasty.turns_until(lambda: b"receipt-id:c" in publisher.transport.written)
    assert max(seen) <= 2 * STEP
    assert 0 < confirmed_after < (count + 1) * subscribers
    written = subscriber.transport.written
    assert written.count(b"MESSAGE") == (count + 1) * subscribers
    places = [written.index(b"<%d>" % each) for each in range(count + 1)]
    assert places == sorted(places)
    assert not hasty.broker.receipts.in_flight
    assert hasty.broker.publishing.spread_bytes == 0


def test_what_a_commit_publishes_ends_with_the_leadership(hasty) -> None:
    """
    Nobody is connected then, and a follower holds nothing for anybody.
    """
    hasty.connect(
        b"".join(b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % each for each in range(STEP))
    )
    part = b"SEND\ndestination:/topic/t\ntransaction:t\n\nx\0"
    publisher = hasty.connect(b"BEGIN\ntransaction:t\n\n\0" + part * (3 * STEP))
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    publisher.data_received(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    hasty.turns_until(lambda: hasty.conductor.applying is not None)
    hasty.store.is_serving = hasty.store.is_leader = False
    hasty.turn()
    hasty.turns_until(lambda: hasty.conductor.applying is None)
    assert not hasty.broker.publishing
    assert not hasty.broker.receipts.in_flight
    assert not hasty.broker.errands


def test_sends_that_waited_are_done_in_several_turns(hasty) -> None:
    """
    All of them at once, when a purge makes room for all, took 0.2 s.
    """
    hasty.broker.flow.settings = BrokerSettings(memory_bytes=1000)
    client = hasty.connect(b"SEND\ndestination:/queue/full\n\n%b\0" % (b"x" * 2000))
    client.data_received(b"SEND\ndestination:/queue/q\n\nx\0" * (3 * STEP))
    other = hasty.connect(b"SEND\ndestination:/queue/q\n\nx\0" * (3 * STEP))
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    queue = hasty.broker.queue("q")
    assert client.session.waiting
    assert other.session.waiting
    hasty.broker.flow.settings = BrokerSettings()
    seen = []
    while hasty.conductor.context.waiting:
        before = queue.transient_count
        hasty.turn()
        seen.append(queue.transient_count - before)
    assert max(seen) <= STEP
    assert queue.transient_count == 6 * STEP


def test_a_temporary_queues_memory_is_given_back_in_steps(hasty) -> None:
    """
    With 670,000 messages it took 0.24 s; no message can be had from the first step on.
    """
    count = 5 * STEP
    owner = hasty.connect(b"SEND\ndestination:/temp-queue/r\n\nx\0" * count)
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    held = hasty.broker.flow.volatile_bytes
    (queue,) = hasty.broker.temporaries.queues.values()
    owner.connection_lost(None)
    hasty.turn()
    assert queue.transient_count == 0
    seen = [held]
    while seen[-1]:
        hasty.turn()
        seen.append(hasty.broker.flow.volatile_bytes)
    assert len(seen) >= count // STEP
    assert hasty.broker.flow.memory_bytes == 0


def test_batches_are_proposed_in_several_turns(hasty, send) -> None:
    """
    Each is bytes to be packed and hashed.
    """
    client = hasty.connect()
    for _ in range(6):
        client.data_received(send(b"x"))
        hasty.conductor.clients.read(hasty.clock.now)
        hasty.broker.receipts.close_batch()
    seen = []
    while hasty.broker.receipts.has_batch():
        hasty.turn()
        seen.append(len(hasty.store.entries))
    assert seen == [2, 4, 6]  # One before what is committed is applied, one after it.


def test_a_leader_with_many_queues_begins_to_serve_at_once(new_node) -> None:
    """
    A hundred thousand held the loop for 300 ms; none is looked at before somebody asks for it.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    count = 5 * STEP
    node.store.append([QueueRecord(number, f"q{number}") for number in range(1, count)], 0.0, 1)
    node.store.commit_all()
    node.turns_until(lambda: len(node.broker.state.queues) == count - 1)
    node.store.is_serving = True
    node.turns_until(lambda: node.conductor.is_serving)
    assert all(queue.listener is None for queue in node.broker.state.queues.values())


def test_a_deposed_leader_forgets_in_several_turns_and_may_lead_again(hasty, send) -> None:
    """
    Elected before it is through, it begins once more.
    """
    count = 5 * STEP
    producer = hasty.connect(
        b"".join(send(b"x").replace(b"/queue/q", b"/queue/q%d" % each) for each in range(count))
    )
    hasty.turns_until(lambda: hasty.broker.state.live_count() == count)
    assert producer is not None
    hasty.store.is_serving = hasty.store.is_leader = False
    hasty.turn()
    flow = hasty.broker.flow
    assert not hasty.conductor.is_serving
    assert flow.discards
    assert 0 < flow.memory_bytes <= count * (100 + flow.overhead)
    hasty.store.is_serving = hasty.store.is_leader = True
    hasty.turns_until(lambda: hasty.conductor.is_serving)
    hasty.turns_until(lambda: flow.memory_bytes == 0)
    heir = hasty.connect(
        b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/q%d\n\n\0" % (n, n) for n in range(count))
    )
    hasty.turns_until(lambda: heir.transport.written.count(b"MESSAGE") == count)


@pytest.mark.parametrize("is_leader", [True, False])
def test_what_a_lost_consumer_had_is_applied_in_steps(hasty, send, monkeypatch, is_leader) -> None:
    """
    However few bytes of the log tell of it: 40 name 64 messages that came back.
    """
    hasty.broker.state.format_level = RETURNS_LEVEL
    producer, consumer = hasty.connect(), hasty.connect()
    count = 20 * STEP
    producer.data_received(b"".join(send(b"x") for _ in range(count)))
    hasty.turns_until(lambda: producer.transport.written.count(b"RECEIPT") == count)
    subscribe = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\nprefetch-count:60000\n\n\0"
    consumer.data_received(subscribe)
    hasty.turns_until(lambda: consumer.transport.written.count(b"MESSAGE\n") == count)
    # One entry of all of it: it is gathered until this one is stored.
    hasty.store.is_writing = True
    consumer.connection_lost(None)
    for _ in range(100):
        hasty.turn()
    hasty.store.is_writing = False
    if not is_leader:
        batch = hasty.broker.receipts.take_batch()
        hasty.store.append(batch.records, 0, 0)
        hasty.broker.receipts.in_flight.clear()
    steps: list[int] = []
    apply_entry = hasty.broker.apply_entry

    def counted(first, records, timestamp, term) -> None:
        records = list(records)
        steps.append(sum(len(it.sequences) for it in records if isinstance(it, ReturnedRecord)))
        apply_entry(first, records, timestamp, term)

    monkeypatch.setattr(hasty.broker, "apply_entry", counted)
    index = hasty.broker.state.queues[1].index
    hasty.turns_until(lambda: index.returned(count).attempts == 1)
    assert sum(steps) == count
    assert max(steps) <= 8 * STEP


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_move_of_a_thousand_is_applied_in_steps(hasty, is_leader) -> None:
    """
    However few bytes of the log tell of it, and though half a step's records would do.
    """
    count = 1_000
    messages = [MessageRecord(1, number, b"", b"", 0) for number in range(1, count + 1)]
    move = MoveRecord(1, 2, Cause.MOVED, [Run(1, 1, count)])
    for records in ([QueueRecord(1, "q"), QueueRecord(2, "r"), *messages], [move]):
        if is_leader:
            hasty.broker.receipts.add_records(records)
        else:
            hasty.store.append(records, 0.0, 1)
    hasty.turns_until(lambda: hasty.broker.state.live_count() == count)
    target = hasty.broker.state.queues[2].index
    steps = []
    while target.live_count < count:
        before = target.live_count
        hasty.turn()
        steps.append(target.live_count - before)
    assert max(steps) <= 8 * STEP
