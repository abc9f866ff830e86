"""
One turn of the loop: what is sealed when, what is told when, and how roles change.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.numbering import Numbering
from holdfast.model.records import AcknowledgeRecord, MessageRecord, QueueRecord
from holdfast.server.settings import ServerSettings


def test_a_reply_leaves_only_after_commit(node, send) -> None:
    """
    The order rule.
    """
    connection = node.connect(send(b"x"))
    connection.transport.take()
    assert len(node.store.entries) == 1
    node.turn()
    assert connection.transport.take() == b""
    node.store.commit_all()
    node.turn()
    assert b"RECEIPT" in connection.transport.take()


def test_while_one_batch_is_written_the_next_gathers(node, send) -> None:
    """
    Group commit without a timer.
    """
    connection = node.connect(send(b"1"))
    node.store.is_writing = True
    for _ in range(3):
        connection.data_received(send(b"x"))
        node.turn()
    assert len(node.store.entries) == 1
    node.store.is_writing = False
    node.turn()
    assert len(node.store.entries) == 2
    assert node.store.entries[1].record_count == 3


def test_a_large_batch_does_not_wait(new_node, send) -> None:
    """
    Over its size it is sealed although the disk is busy.
    """
    node = new_node(BrokerSettings(batch_bytes_max=100))
    node.serve()
    connection = node.connect(send(b"1"))
    node.store.is_writing = True
    connection.data_received(send(b"x" * 200))
    node.turn()
    assert len(node.store.entries) == 2


def test_batches_under_way_are_bounded(new_node, send) -> None:
    """
    Without a quorum nothing commits, and the log does not run away.
    """
    node = new_node(settings=ServerSettings(batches_in_flight_max=2))
    node.serve()
    connection = node.connect()
    for _ in range(5):
        connection.data_received(send(b"x"))
        node.turn()
    assert len(node.store.entries) == 2
    node.settle()
    assert connection.transport.take().count(b"RECEIPT") == 5


@pytest.mark.parametrize("mode", ["auto", "client-individual"])
def test_acknowledgements_without_a_quorum_make_no_endless_record(
    new_node, send, mode: str
) -> None:
    """
    One by one they were not counted: a record of 600,000 took each follower 19 ms to read.
    """
    most = 10
    node = new_node(
        BrokerSettings(step_count_max=2),
        ServerSettings(batches_in_flight_max=1, batch_settled_count_max=most, slice_seconds=0.0),
    )
    node.serve()
    producer = node.connect(*[send(b"x") for _ in range(6 * most)])
    node.turns_until(lambda: node.broker.state.live_count() == 6 * most)
    consumer = node.connect()
    producer.data_received(send(b"waits for a quorum").replace(b"queue/q", b"queue/other"))
    node.turn()
    consumer.data_received(b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:%b\n\n\0" % mode.encode())
    for _ in range(100):
        node.turn()
    for key in range(1, 6 * most + 1):
        consumer.data_received(b"ACK\nid:1-%d\n\n\0" % key)
        node.turn()
    assert len(node.store.entries) == node.store.commit_index + 1
    node.turns_until(lambda: node.broker.state.live_count() == 1)
    counts = [
        len(record.sequences)
        for entry in node.store.entries
        for record in node.store.decode(entry)
        if isinstance(record, AcknowledgeRecord)
    ]
    assert sum(counts) == 6 * most
    assert max(counts) <= 2 * most


def test_too_much_uncommitted_stops_reading(new_node, send) -> None:
    """
    Over all connections; it goes on when enough is committed.
    """
    node = new_node(settings=ServerSettings(uncommitted_bytes_max=100))
    node.serve()
    connection = node.connect(send(b"x" * 200))
    assert not connection.transport.is_reading
    node.turn()
    assert not connection.transport.is_reading
    node.settle()
    assert connection.transport.is_reading


def test_acknowledgements_alone_wait_a_tick(node, send, subscribe) -> None:
    """
    Nobody waits for them: they ride along or go after a moment.
    """
    connection = node.connect(subscribe, send(b"x"))
    node.settle()
    entries = len(node.store.entries)
    connection.data_received(b"ACK\nid:1-1\n\n\0")
    node.turn()
    node.turn()
    assert len(node.store.entries) == entries
    node.clock.now += 0.02
    node.turn()
    assert len(node.store.entries) == entries + 1
    node.settle()
    assert node.broker.state.live_count() == 0


def test_replies_without_records_wait_for_what_is_before_them(node, send, subscribe) -> None:
    """
    And go at once if nothing is.
    """
    connection = node.connect(subscribe, send(b"x"))
    node.settle()
    connection.transport.take()
    connection.data_received(b"ACK\nid:1-1\nreceipt:a\n\n\0")
    node.turn()
    connection.data_received(b"ACK\nid:ID\\cc-1-1\nreceipt:b\n\n\0")
    node.turn()
    assert connection.transport.take() == b""
    node.settle()
    written = connection.transport.take()
    assert written.index(b"receipt-id:a") < written.index(b"receipt-id:b")


def test_a_transaction_without_records_is_published(node) -> None:
    """
    Non-persistent messages of a transaction write nothing and go out all the same.
    """
    consumer = node.connect(b"SUBSCRIBE\nid:s\ndestination:/topic/t\n\n\0")
    consumer.transport.take()
    node.connect(
        b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/topic/t\ntransaction:t\n\nx\0"
        b"COMMIT\ntransaction:t\n\n\0"
    )
    node.turn()
    assert b"MESSAGE" in consumer.transport.take()
    assert not node.store.entries


@pytest.mark.promise("F7", "F34")
def test_without_the_lease_nothing_is_delivered(node, send, subscribe) -> None:
    """
    Another leader may have given it to somebody; confirming is the quorum's business.
    """
    node.store.has_lease = False
    connection = node.connect(subscribe, send(b"x"))
    node.settle()
    written = connection.transport.take()
    assert b"RECEIPT" in written
    assert b"MESSAGE" not in written
    node.store.has_lease = True
    node.turn()
    assert b"MESSAGE" in connection.transport.take()


def test_without_the_lease_nothing_that_is_only_here_is_confirmed(node, subscribe) -> None:
    """
    Another leader may serve by now; with this one's memory the message is lost, and nobody knew.
    """
    publish = b"SEND\ndestination:/topic/t\nreceipt:v\n\nvolatile\0"
    listener = node.connect(subscribe.replace(b"/queue/q", b"/topic/t"))
    node.settle()
    listener.transport.take()
    node.store.has_lease = False
    connection = node.connect(publish, b"DISCONNECT\nreceipt:bye\n\n\0")
    node.clock.now += 1.0
    node.turn()
    assert connection.transport.take().startswith(b"CONNECTED")
    assert node.store.entries == []
    node.store.has_lease = True
    node.turn()
    assert b"volatile" in listener.transport.take()
    written = connection.transport.take()
    assert 0 <= written.find(b"receipt-id:v") < written.find(b"receipt-id:bye")


def test_what_waits_for_the_lease_does_not_go_with_what_a_quorum_has_stored(node, send) -> None:
    """
    Its answer may be old: nothing of what is only here is delivered by it, or confirmed.
    """
    node.connect(send(b"x"))
    node.settle()
    node.store.has_lease = False
    connection = node.connect(b"SEND\ndestination:/queue/q\nreceipt:v\n\nvolatile\0", send(b"y"))
    connection.transport.take()
    node.turn()
    assert b"receipt-id:v" not in connection.transport.take()
    node.settle()
    assert connection.transport.take() == b"RECEIPT\nreceipt-id:r\n\n\0"
    node.store.has_lease = True
    node.turn()
    assert connection.transport.take() == b"RECEIPT\nreceipt-id:v\n\n\0"


# Roles --------------------------------------------------------------------------------------------


def test_only_a_serving_node_takes_clients(new_node) -> None:
    """
    A follower's clients are turned away; there is also a most of them.
    """
    node = new_node(settings=ServerSettings(connection_count_max=1))
    early = node.connect()
    assert early.transport.is_aborted
    node.serve()
    assert node.role_changes == 1
    first, second = node.connect(), node.connect()
    assert not first.transport.is_aborted
    assert second.transport.is_aborted


def test_a_silent_client_makes_room_for_another(new_node) -> None:
    """
    Who has not said CONNECT goes, the oldest first; a client that has stays.
    """
    node = new_node(settings=ServerSettings(connection_count_max=2))
    node.serve()
    client, silent = node.connect(), node.open()
    newer = node.open()
    assert [it.transport.is_aborted for it in (client, silent, newer)] == [False, True, False]
    silent.connection_lost(None)
    assert not node.open().transport.is_aborted
    assert newer.transport.is_aborted
    assert len(node.conductor.clients.admission) == 2


def test_a_node_serves_when_everything_is_applied(new_node, send) -> None:
    """
    Also what its own term proposed before it ceased to serve: those numbers are taken.
    """
    node = new_node()
    node.serve()
    connection = node.connect(send(b"under way"))
    node.store.is_serving = False
    node.turn()
    assert connection.transport.is_aborted or connection.transport.is_closed
    assert b"RECEIPT" not in connection.transport.take()
    node.store.is_serving = True
    node.turn()
    assert not node.conductor.is_serving
    node.store.commit_all()
    node.turn()
    node.turn()
    assert node.conductor.is_serving
    node.connect(send(b"next"))
    node.settle()
    assert node.broker.state.live_count() == 2


def test_a_hand_over_that_is_given_up_loses_nothing(node, send, subscribe) -> None:
    """
    Confirmed non-persistent messages are in this node's memory only: it keeps them, and clients.
    """
    connection = node.connect(b"SEND\ndestination:/queue/q\nreceipt:v\n\nvolatile\0")
    node.settle()
    assert b"receipt-id:v" in connection.transport.take()
    node.store.is_handing_over, node.store.is_serving = True, False
    connection.data_received(send(b"meanwhile") + subscribe)
    for _ in range(3):
        node.clock.now += 0.1
        node.conductor.tick()
    assert b"" == connection.transport.take()
    assert not connection.transport.is_reading
    assert node.conductor.is_serving

    node.store.is_handing_over, node.store.is_serving = False, True
    node.settle()

    written = connection.transport.take()
    assert b"volatile" in written
    assert b"meanwhile" in written
    assert connection.transport.is_reading


def test_a_hand_over_that_is_done_closes_the_clients(node, send) -> None:
    """
    They find the new leader; what they had sent meanwhile was never read.
    """
    connection = node.connect()
    node.store.is_handing_over, node.store.is_serving = True, False
    connection.data_received(send(b"meanwhile"))
    node.turn()
    node.store.is_handing_over = node.store.is_leader = False
    node.turn()

    assert connection.transport.is_aborted
    assert not node.store.entries


def test_a_refused_proposal_ends_the_leadership(node, send) -> None:
    """
    What it assigned is lost, so nothing may be built on it.
    """
    node.store.is_leader = False
    connection = node.connect(send(b"x"))
    assert connection.transport.is_aborted
    assert node.broker.receipts.uncommitted_bytes == 0
    node.store.is_leader = True
    node.turn()
    node.connect(send(b"y"))
    node.settle()
    assert node.broker.state.live_count() == 1


def test_a_log_begun_anew_starts_from_nothing(node, send) -> None:
    """
    The state goes with the log it came from.
    """
    connection = node.connect(send(b"x"))
    node.settle()
    node.store.is_serving = False
    node.store.begun_anew = True
    node.turn()
    assert node.broker.state.live_count() == 0
    assert connection.transport.is_aborted or connection.transport.is_closed


def test_what_others_proposed_is_applied(new_node, send) -> None:
    """
    A follower keeps the index, so that taking over costs no replay.
    """
    leader, follower = new_node(), new_node()
    leader.serve()
    leader.connect(send(b"x"))
    leader.settle()
    follower.store.entries = leader.store.entries
    follower.store.commit_all()
    follower.turn()
    assert digest_of(follower.broker.state) == digest_of(leader.broker.state)
    assert follower.broker.flow.memory_bytes == 0


# Damage -------------------------------------------------------------------------------------------


@pytest.mark.promise("F18", "F21")
def test_a_damaged_message_is_withheld_and_offered_again(node, send, subscribe) -> None:
    """
    Not served, not lost; the next one passes, and a repair brings it back.
    """
    node.connect(send(b"first"))
    node.settle()
    node.connect(send(b"second"))
    node.settle()
    for sequence in (1, 2):
        node.broker.queue("q").leadership.flow.forget(node.broker.queue("q").cache, [sequence])
    node.store.damaged = {1}
    consumer = node.connect(subscribe)
    node.settle()
    assert b"first" not in (written := consumer.transport.take())
    assert b"second" in written
    assert [error.index for error in node.damage] == [1]
    node.store.damaged.clear()
    node.clock.now += 6
    node.conductor.tick()
    assert b"first" in consumer.transport.take()


def test_a_damaged_message_that_a_transaction_holds_is_not_offered(node, send, subscribe) -> None:
    """
    The commit would settle what somebody else has in delivery.
    """
    node.connect(send(b"first"))
    node.settle()
    node.connect(subscribe).connection_lost(None)
    node.settle()
    queue = node.broker.queue("q")
    queue.leadership.flow.forget(queue.cache, [1])
    queue.custody.redelivered.add(1)
    node.store.damaged = {1}
    consumer = node.connect(subscribe)
    node.settle()
    node.connect(
        b"BEGIN\ntransaction:t\n\n\0ACK\nid:ID\\cc-%d-1\ntransaction:t\n\n\0" % queue.number
    )
    assert queue.custody.reserved == {1}
    node.store.damaged.clear()
    node.clock.now += 6
    node.conductor.tick()
    assert b"first" not in consumer.transport.take()


def test_a_damaged_entry_stops_applying_until_it_is_repaired(new_node, send) -> None:
    """
    It is asked of a peer, and tried again after a pause.
    """
    leader, follower = new_node(), new_node()
    leader.serve()
    leader.connect(send(b"x"))
    leader.settle()
    follower.store.entries = leader.store.entries
    follower.store.damaged = {1}
    follower.store.commit_all()
    follower.turn()
    follower.turn()
    assert len(follower.store.reported) == len(follower.damage) == 1
    follower.store.damaged.clear()
    follower.clock.now += 1
    follower.turn()
    assert follower.broker.state.live_count() == 1


# Limits and time ----------------------------------------------------------------------------------


def test_a_full_memory_holds_back_producers_but_not_consumers(new_node, subscribe) -> None:
    """
    Those who can make room by acknowledging are read from.
    """
    limits = BrokerSettings(memory_bytes=1000, message_memory_overhead_bytes=100)
    node = new_node(broker=limits)
    node.serve()
    transient = b"SEND\ndestination:/queue/q\n\n" + b"x" * 400 + b"\0"
    producer = node.connect(transient * 300)
    assert not producer.transport.is_reading
    consumer = node.connect(subscribe)
    node.settle()
    assert consumer.transport.is_reading
    for serial in range(1, 301):
        consumer.data_received(b"ACK\nid:1--%d\n\n\0" % serial)
        node.turn()
        node.turn()
    node.settle()
    assert producer.transport.is_reading
    assert node.broker.flow.memory_bytes == 0


def test_a_producer_waits_for_a_blocked_topic(new_node) -> None:
    """
    Until the slow subscriber has caught up.
    """
    node = new_node(broker=BrokerSettings(topic_pending_bytes_max=100))
    node.serve()
    slow = node.connect(b"SUBSCRIBE\nid:s\ndestination:/topic/t\n\n\0")
    slow.pause_writing()
    message = b"SEND\ndestination:/topic/t\n\n" + b"x" * 200 + b"\0"
    producer = node.connect(message * 200)
    node.turn()
    assert not producer.transport.is_reading
    slow.resume_writing()
    node.settle()
    node.turn()
    node.turn()
    assert producer.transport.is_reading


def test_heart_beats_are_sent_and_silence_is_noticed(node) -> None:
    """
    A paused client's silence is ours, and not held against it.
    """
    beating = b"STOMP\naccept-version:1.2\nheart-beat:1000,1000\n\n\0"
    node.connect()
    connection = node.connect()
    other = node.conductor
    silent = type(connection)(other.clients)
    silent.connection_made(type(connection.transport)())
    silent.data_received(beating)
    node.turn()
    silent.transport.take()
    node.clock.now += 0.6
    other.tick()
    assert silent.transport.take() == b"\n"
    other.clients.pause(silent)
    for _ in range(30):
        node.clock.now += 0.2
        other.heart_beats.begin(other.connections)
        other.heart_beats.step(node.clock.now, lambda: False)
    assert not silent.transport.is_aborted
    silent.is_paused = False
    for _ in range(30):
        node.clock.now += 0.2
        other.heart_beats.begin(other.connections)
        other.heart_beats.step(node.clock.now, lambda: False)
    assert silent.transport.is_aborted


@pytest.mark.promise("F17")
def test_a_full_disk_refuses_and_says_when_it_is_over(node, send) -> None:
    """
    Looked at with every tick.
    """
    node.store.is_low = True
    node.clock.now += node.conductor.settings.tick_seconds
    connection = node.connect(send(b"x"))
    assert b"store-full" in connection.transport.take()
    node.store.is_low = False
    connection.data_received(send(b"x"))
    node.settle()
    assert b"RECEIPT" in connection.transport.take()


def test_a_session_that_breaks_costs_only_its_connection(node, send, monkeypatch) -> None:
    """
    A mistake of ours met by one client's frame must not take the broker from the others.
    """
    broken, other = node.connect(), node.connect()

    def fail(data: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broken.session, "receive", fail)
    broken.data_received(b"x")
    other.data_received(send(b"x"))
    node.settle()
    assert broken.transport.is_aborted
    assert b"RECEIPT" in other.transport.take()


def test_nothing_goes_on_after_a_failure(node, send, monkeypatch) -> None:
    """
    A turn left half done is not built upon.
    """
    error = OSError("disk")

    def fail(now: float) -> None:
        raise error

    monkeypatch.setattr(node.store, "turn", fail)
    node.conductor.turn()
    assert node.failures == [error]
    monkeypatch.undo()
    node.conductor.turn()
    node.conductor.tick()
    assert node.failures == [error]


@pytest.mark.parametrize("count", [1, 3])
def test_a_turn_is_scheduled_once(node, count) -> None:
    """
    However much arrives before it.
    """
    calls: list[object] = []
    node.conductor.loop = SimpleNamespace(call_soon=calls.append)  # type: ignore[assignment]
    for _ in range(count):
        node.conductor.schedule()
    assert calls == [node.conductor.turn]
    node.conductor.stored(SimpleNamespace(failure=None, seconds=0.1))  # type: ignore[arg-type]
    assert node.conductor.is_scheduled
    node.conductor.turn()
    assert len(calls) == 1


def test_another_leaders_entry_confirms_nothing(node, send) -> None:
    """
    It stands where ours would have, and is committed in the very turn in which we step down.
    """
    connection = node.connect(send(b"x"))
    connection.transport.take()
    (ours,) = node.store.entries
    node.store.entries.clear()
    node.store.term += 1
    node.store.append([QueueRecord(9, "theirs")], 0.0, 1)
    node.store.is_serving = node.store.is_leader = False
    assert node.store.entries[0].index == ours.index

    node.store.commit_all()
    node.turn()

    assert b"RECEIPT" not in connection.transport.take()
    assert node.broker.state.live_count() == 0
    assert node.broker.state.queues[9].name == "theirs"


def test_a_new_generation_gives_numbers_of_its_own(new_node, send, subscribe) -> None:
    """
    A copy that goes on alone may lag: its first message must not get the id of a lost one.
    """
    node = new_node()
    node.store.numbering = Numbering(generation=2)
    node.serve()
    client = node.connect(subscribe, send(b"x"))
    node.settle()
    assert b"message-id:ID\\cc-1-%d\n" % ((2 << 40) + 1) in client.transport.take()


def test_two_large_requests_of_one_read_are_two_entries(new_node, send) -> None:
    """
    What is over the size of a batch is closed, so no entry grows with what comes at once.
    """
    node = new_node(BrokerSettings(batch_bytes_max=1000))
    node.serve()
    connection = node.connect()
    for name in (b"1", b"2"):
        connection.data_received(
            b"BEGIN\ntransaction:%b\n\n\0" % name
            + b"".join(
                b"SEND\ndestination:/queue/q\npersistent:true\ntransaction:%b\n\n%b\0"
                % (name, b"x" * 300)
                for _ in range(3)
            )
        )
    node.turn()
    connection.data_received(
        b"".join(b"COMMIT\ntransaction:%b\nreceipt:r%b\n\n\0" % (it, it) for it in (b"1", b"2"))
    )
    node.turn()
    counts = [
        sum(isinstance(it, MessageRecord) for it in node.store.decode(entry))
        for entry in node.store.entries
    ]
    assert [it for it in counts if it] == [3, 3]
    node.settle()
    assert connection.transport.take().count(b"RECEIPT") == 2


def test_cycles_are_looked_for_at_each_tick(node) -> None:
    """
    Within the turn, whose length counts; not in those that what arrives brings about.
    """
    looked: list[float] = []
    node.conductor.collect_cycles = looked.append
    node.conductor.tick()
    node.turn()
    assert looked == [node.clock.now]


def test_only_of_a_turn_that_may_be_the_longest_it_is_asked_how_long_it_worked(
    node, monkeypatch
) -> None:
    """
    To ask costs a system call, and what took less time cannot have worked for longer.
    """
    node.serve()
    loop, clock = node.conductor, node.clock
    worked, asked = [0.0], [0]

    def thread_cpu() -> float:
        asked[0] += 1
        return worked[0]

    def turn_of(seconds: float, cpu_seconds: float) -> int:
        def work(_now: float) -> None:
            clock.now += seconds
            worked[0] += cpu_seconds

        before = asked[0]
        loop._guarded(work)
        return asked[0] - before

    monkeypatch.setattr(type(clock), "thread_cpu", staticmethod(thread_cpu))
    assert turn_of(2.0, 1.0) == 2
    assert turn_of(0.5, 0.5) == 1
    assert turn_of(1.5, 1.25) == 2
    counters = loop.counters
    assert (counters.turn_seconds_max, counters.turn_cpu_seconds_max) == (2.0, 1.25)


def test_whoever_writes_as_time_passes_knows_that_the_disk_is_almost_full(node) -> None:
    """
    What expires to where it would be stored, and what is scheduled again and again, wait for room.
    """
    for is_low in (True, False):
        node.store.is_low = is_low
        node.conductor.look_for_room(node.clock.monotonic())
        broker = node.broker
        assert (broker.expiring.is_full, broker.firing.is_full) == (is_low, is_low)
