"""
What is written leaves in slices, by connections and by bytes, and a large body is nobody's copy.

As in test_turn_budget the slices are of no length, so each turn does one step of each kind of work.
"""

from __future__ import annotations

import itertools

BODY = b"x" * (512 * 1024)
SUBSCRIBE = b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0"


def subscribers(node, count: int):
    clients = [node.connect(SUBSCRIBE % number) for number in range(count)]
    node.turns_until(lambda: len(node.broker.topic("t").subscriptions) == count)
    node.turns_until(lambda: not node.conductor.context.dirty)
    for client in clients:
        client.transport.take()
    return clients


def publish(node, body: bytes):
    head = b"SEND\ndestination:/topic/t\ncontent-length:%d\n\n" % len(body)
    return node.connect(head + body + b"\0")


def test_a_large_body_is_the_same_for_all_sockets(node) -> None:
    """
    64 subscribers that did not read made 4 GB of one message of 60 MB.
    """
    clients = subscribers(node, 3)
    publish(node, BODY)
    node.settle()
    bodies = [
        piece for client in clients for piece in client.transport.pieces if len(piece) == len(BODY)
    ]
    assert len(bodies) == 3
    assert all(body is bodies[0] for body in bodies)
    for client in clients:
        written = client.transport.take()
        assert written.startswith(b"MESSAGE\nsubscription:")
        assert written.endswith(b"\n\n" + BODY + b"\0")


def test_large_messages_leave_one_connection_at_a_time(hasty) -> None:
    """
    A turn was as long as it takes to write them to sixteen connections: half a second.
    """
    clients = subscribers(hasty, 20)
    for client in clients:
        client.transport.unsent = len(BODY)  # As it will be: they do not read.
    publish(hasty, BODY)
    counts = [0]
    while counts[-1] < len(clients):
        hasty.turn()
        counts.append(sum(len(client.transport.written) > len(BODY) for client in clients))
    assert max(after - before for before, after in itertools.pairwise(counts)) == 1


def test_small_ones_leave_for_sixteen_connections_at_a_time(hasty) -> None:
    """
    To look at the clock after each would cost more than to write it.
    """
    clients = subscribers(hasty, 40)
    publish(hasty, b"x")
    counts = [0]
    while counts[-1] < len(clients):
        hasty.turn()
        counts.append(sum(bool(client.transport.written) for client in clients))
    assert [count for count in counts if count] == [16, 32, 40]
