"""
One client's socket: reading, pausing, writing, closing.
"""

from __future__ import annotations

import gc
import weakref

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.server.settings import ServerSettings


def test_bytes_wait_for_the_next_turn_and_answers_leave_in_one_write(node, send) -> None:
    """
    What arrives between turns is handled together.
    """
    connection = node.connect()
    for number in range(3):
        connection.data_received(send(b"x", b"%d" % number))
    assert node.conductor.clients.ready == [connection]
    assert connection.transport.written == b""
    node.settle()
    receipts = connection.transport.take()
    assert [receipts.count(b"receipt-id:%d" % number) for number in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("there", "here", "is_private"),
    [
        ("10.0.0.9", "10.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("", "", False),
    ],
)
def test_nobody_reads_what_stays_on_this_machine(node, there, here, is_private) -> None:
    """
    By loopback or by an address of its own; else TLS is needed. The admin port judges the same.
    """
    connection = node.connect()
    more = connection.transport.more
    more |= {"peername": (there, 5), "sockname": (here, 6)} if there else {"peername": None}
    assert connection.is_private is is_private
    more["sslcontext"] = object()
    assert connection.is_private


def test_a_client_ahead_of_the_disk_is_not_read(new_node, send) -> None:
    """
    Beyond its bytes a connection waits until a commit; its receipts come meanwhile.
    """
    node = new_node(settings=ServerSettings(connection_uncommitted_bytes_max=200))
    node.serve()
    connection = node.connect()
    connection.data_received(send(b"x" * 150))
    connection.data_received(send(b"x" * 150))
    assert not connection.transport.is_reading
    node.turn()
    assert not connection.transport.is_reading
    node.settle()
    assert connection.transport.is_reading
    assert connection.transport.take().count(b"RECEIPT") == 2
    assert connection.uncommitted_bytes == 0


def test_a_client_ahead_of_the_loop_is_not_read_before_it_is_served(new_node) -> None:
    """
    Four clients that asked faster than they were served took a node 100 MiB a second.
    """
    settings = ServerSettings(slice_seconds=0.0, read_bytes_max=1000, incoming_bytes_max=5000)
    node = new_node(settings=settings)
    node.serve()
    connection = node.connect()
    frames = b"UNSUBSCRIBE\nid:nothing\n\n\0" * 200
    taken = 0
    for _ in range(200):
        if connection.transport.is_reading:
            connection.data_received(frames)
            taken += 1
        node.turn()
        assert sum(map(len, connection.incoming)) <= settings.incoming_bytes_max + len(frames)
        assert connection.is_ready or connection.transport.is_reading
    assert 10 < taken < 200


def test_a_client_that_takes_no_answers_is_not_served(new_node, send) -> None:
    """
    What it asks for would pile up; it is gone on with where it was, when its socket has caught up.
    """
    settings = ServerSettings(read_bytes_max=100, unsent_bytes_max=500)
    node = new_node(settings=settings)
    node.serve()
    connection = node.connect()
    transport = connection.transport
    connection.pause_writing()
    transport.unsent = 501
    connection.data_received(b"ACK\nid:nothing\n\n\0" * 100 + send(b"x"))
    other = node.connect(send(b"y"))
    node.settle()
    assert transport.written == b""
    assert not transport.is_reading
    assert b"RECEIPT" in other.transport.take()
    transport.unsent = 0
    connection.resume_writing()
    node.settle()
    assert transport.written.count(b"ERROR") == 100
    assert transport.written.count(b"RECEIPT") == 1
    assert transport.is_reading


def test_who_takes_no_answers_and_goes_is_heard_to_the_end(new_node, send) -> None:
    """
    What it sent before it went is stored, as always; then it is forgotten.
    """
    node = new_node(settings=ServerSettings(unsent_bytes_max=500))
    node.serve()
    connection = node.connect()
    connection.pause_writing()
    connection.transport.unsent = 501
    connection.data_received(send(b"x"))
    node.turn()
    assert not node.store.entries
    connection.connection_lost(None)
    node.settle()
    assert node.broker.state.live_count() == 1
    assert not node.conductor.connections


def test_a_socket_that_is_behind_gets_no_deliveries(node, send, subscribe) -> None:
    """
    Others do; it goes on when its socket has taken most.
    """
    slow = node.connect(subscribe)
    slow.transport.take()
    slow.pause_writing()
    producer = node.connect(send(b"1"))
    node.settle()
    assert b"MESSAGE" not in slow.transport.take()
    assert b"RECEIPT" in producer.transport.take()
    slow.resume_writing()
    node.turn()
    assert b"MESSAGE" in slow.transport.take()


def test_room_is_what_the_socket_has_taken(new_node, send, subscribe) -> None:
    """
    Unsent bytes count against what may be handed to a connection.
    """
    node = new_node(settings=ServerSettings(output_bytes_max=5000))
    node.serve()
    consumer = node.connect(subscribe)
    consumer.transport.unsent = 1000
    node.connect(send(b"1"))
    node.settle()
    assert consumer.session.room_bytes == 4000


def test_a_lost_client_gives_back_what_it_held(node, send, subscribe) -> None:
    """
    And nothing more is written to it.
    """
    consumer = node.connect(subscribe)
    node.connect(send(b"1"))
    node.settle()
    consumer.transport.take()
    consumer.connection_lost(None)
    other = node.connect(subscribe)
    node.settle()
    assert b"redelivered:true" in other.transport.take()
    assert consumer.transport.written == b""
    assert consumer not in node.conductor.connections


def test_a_lost_connection_leaves_nothing_behind(node, send, subscribe) -> None:
    """
    Not even until the collector of cycles comes, which is seldom: many short visits cost nothing.
    """
    connection = node.connect(subscribe, send(b"1"))
    node.settle()
    session = weakref.ref(connection.session)
    gc.disable()
    try:
        connection.connection_lost(None)
        del connection
        node.settle()
        assert session() is None
    finally:
        gc.enable()


def test_a_connection_that_said_goodbye_is_closed(node) -> None:
    """
    With or without a receipt.
    """
    plain = node.connect(b"DISCONNECT\n\n\0")
    asked = node.connect(b"DISCONNECT\nreceipt:d\n\n\0")
    assert plain.transport.is_closed
    assert asked.transport.is_closed
    assert b"receipt-id:d" in asked.transport.take()


def test_a_protocol_error_closes_after_its_error(node) -> None:
    """
    The client is told first.
    """
    connection = node.connect(b"NONSENSE\n\n\0")
    assert b"unknown-command" in connection.transport.take()
    assert connection.transport.is_closed


@pytest.mark.parametrize("receipt", [b"", b"receipt:d\n"])
def test_who_reads_nothing_after_its_goodbye_is_ended(node, receipt: bytes) -> None:
    """
    What it was sent need not ever leave; the connection would stay, and its place with it.
    """
    connection = node.connect()
    connection.transport.unsent = 1000
    connection.data_received(b"DISCONNECT\n%b\n\0" % receipt)
    node.settle()
    assert connection.transport.is_closed
    assert not connection.transport.is_aborted
    node.clock.now += node.conductor.settings.drain_seconds + 1
    node.conductor.tick()
    assert connection.transport.is_aborted


def test_a_protocol_error_is_not_waited_on_for_ever(node) -> None:
    """
    Whoever closes with an ERROR has the same time for it.
    """
    connection = node.connect()
    connection.transport.unsent = 1000
    connection.data_received(b"NONSENSE\n\n\0")
    node.turn()
    assert connection.transport.is_closed
    node.clock.now += node.conductor.settings.drain_seconds + 1
    node.conductor.tick()
    assert connection.transport.is_aborted


def test_a_goodbye_gives_back_an_open_transaction_behind_waiting_sends(new_node, subscribe) -> None:
    """
    It waits for them; then what the transaction acknowledged goes to somebody else, flagged.
    """
    node = new_node(broker=BrokerSettings(memory_bytes=1))
    node.serve()
    leaver = node.connect(
        subscribe,
        b"SEND\ndestination:/queue/q\npersistent:true\n\nheld\0",
        b"SEND\ndestination:/queue/v\n\nfirst\0",
    )
    node.settle()
    assert b"held" in leaver.transport.take()
    leaver.data_received(
        b"BEGIN\ntransaction:t\n\n\0ACK\nid:1-1\ntransaction:t\n\n\0"
        b"SEND\ndestination:/queue/v\n\nsecond\0DISCONNECT\nreceipt:d\n\n\0"
    )
    node.settle()
    assert leaver.transport.take() == b""
    assert leaver.session.waiting
    other = node.connect(
        subscribe,
        subscribe.replace(b"id:s", b"id:v").replace(b"/q\nack:client-individual", b"/v\nack:auto"),
    )
    node.settle()
    node.settle()
    given = other.transport.take()
    assert b"first" in given
    assert b"redelivered:true" in given
    assert b"held" in given
    assert b"receipt-id:d" in leaver.transport.take()
    assert leaver.transport.is_closed


def test_a_client_that_breaks_the_rules_leaves_nothing_to_the_collector_of_cycles(node) -> None:
    """
    It stops the loop for all that it looks at, so it runs seldom: thousands of such clients would
    pile up in memory.
    """

    def come_and_go() -> None:
        connection = node.connect(b"NONSENSE\n\n\0")
        node.settle()
        connection.connection_lost(None)
        node.settle()

    def left() -> int:
        gc.collect()
        for _ in range(5):
            come_and_go()
        return gc.collect()

    come_and_go()
    gc.disable()
    try:
        # What tests before this one left may end meanwhile, once; such a client would leave it
        # each time.
        assert min(left() for _ in range(4)) == 0
    finally:
        gc.enable()


def test_room_of_what_an_ended_subscription_is_not_sent_is_there_again(node, send) -> None:
    """
    A message of a topic may be on its way to a subscription that ends before it is written. It is
    not written then, and the client's other subscriptions must not wait for it to be.
    """
    consumer = node.connect(
        b"SUBSCRIBE\nid:t\ndestination:/topic/t\n\n\0"
        b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:auto\n\n\0"
    )
    producer = node.connect()
    body = b"x" * (node.conductor.settings.output_bytes_max + 1)
    producer.data_received(b"SEND\ndestination:/topic/t\n\n%b\0" % body)
    consumer.data_received(b"UNSUBSCRIBE\nid:t\n\n\0")
    node.turns_until(lambda: not node.broker.has_to_dispatch and not node.conductor.clients.ready)
    assert b"xxx" not in consumer.transport.take()
    producer.data_received(send(b"of the queue"))
    node.settle()
    assert b"of the queue" in consumer.transport.take()


def test_receipts_of_all_clients_that_wait_for_a_commit_have_a_bound(new_node, send) -> None:
    """
    While a disk hangs or is full nothing is committed, and each client has what it asked for kept:
    8 MiB, and there may be ten thousand of them.
    """
    node = new_node(settings=ServerSettings(received_bytes_max=30_000))
    node.serve()
    node.connect(send(b"under way"))
    clients = [node.connect() for _ in range(20)]
    ask = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nreceipt:%b\n\n\0UNSUBSCRIBE\nid:s\n\n\0"
    for _ in range(5):
        for client in clients:
            if client.transport.is_reading:
                client.data_received(ask % (b"r" * 1_000))
        node.turn()
    replies = [reply for batch in node.broker.receipts.in_flight for reply in batch.replies]
    # Each is noticed when it sends once more: of 100 KB, 30 and 1 for each client.
    assert 30_000 < sum(len(receipt) for _, receipt in replies) < 51_000
    assert not any(client.transport.is_reading for client in clients)
    node.settle()
    assert all(client.transport.is_reading for client in clients)
    assert not node.broker.receipts.in_flight
    clients[0].data_received(ask % b"again")
    node.settle()
    assert b"receipt-id:again" in clients[0].transport.take()
