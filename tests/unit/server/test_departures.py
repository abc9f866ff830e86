"""
Clients that go or are sent away, ten thousand at once: in slices.

The slices are of no length, so each turn does one step of each kind of work.
"""

from __future__ import annotations

import itertools

from holdfast.replication.driver_view import QUORUM_LOST

SUBSCRIBE = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n\0"


def largest_step(node, count, until: int) -> int:
    """Turn until there are so many left; give how many went in one turn at most."""
    seen = [count()]
    for _ in range(1000):
        if seen[-1] == until:
            return max(before - after for before, after in itertools.pairwise(seen))
        node.clock.now += 0.02
        node.store.commit_all()
        node.turn()
        seen.append(count())
    raise AssertionError("it never comes to an end")


def settled(node) -> None:
    for _ in range(200):
        node.store.commit_all()
        node.turn()


def test_clients_that_are_lost_at_once_leave_one_by_one(hasty, send) -> None:
    """
    Each may hold much; nothing more is delivered to any of them, and what they held goes on.
    """
    clients = [hasty.connect(SUBSCRIBE) for _ in range(30)]
    settled(hasty)
    for client in clients:
        client.connection_lost(None)
    queue = hasty.broker.queue("q")
    assert len(queue.subscriptions) == 30
    sender = hasty.connect(send(b"x", b"r"))
    assert largest_step(hasty, lambda: len(queue.subscriptions), 0) == 1
    settled(hasty)
    assert b"receipt-id:r" in sender.transport.written
    assert not any(b"MESSAGE" in client.transport.written for client in clients)
    heir = hasty.connect(SUBSCRIBE)
    settled(hasty)
    assert b"MESSAGE" in heir.transport.written
    assert all(client.session.connection is None for client in clients)


def test_a_deposed_leader_closes_its_clients_one_by_one(hasty) -> None:
    """
    Ten thousand took half a second, in which a deposed leader answered nobody. None is served.
    """
    clients = [hasty.connect(SUBSCRIBE) for _ in range(30)]
    settled(hasty)
    hasty.store.is_serving = hasty.store.is_leader = False
    hasty.store.term += 1
    hasty.turn()
    assert not hasty.conductor.is_serving
    assert not hasty.conductor.connections
    clients[-1].data_received(b"SEND\ndestination:/queue/q\nreceipt:late\n\nx\0")

    def open_count() -> int:
        return sum(not client.transport.is_aborted for client in clients)

    assert largest_step(hasty, open_count, 0) == 1
    assert not any(b"late" in client.transport.written for client in clients)
    assert not hasty.broker.queue("q").transients


def test_a_last_word_reaches_everybody(hasty) -> None:
    """
    Also those whose turn comes when this node leads again; they are not its clients any more.
    """
    clients = [hasty.connect() for _ in range(5)]
    hasty.conductor.role.end(QUORUM_LOST)
    hasty.turn()
    assert hasty.conductor.is_serving
    newcomer = hasty.connect()
    settled(hasty)
    assert all(b"quorum-lost" in client.transport.written for client in clients)
    assert all(client.transport.is_closed for client in clients)
    assert hasty.conductor.connections == {newcomer}


def test_a_node_that_ends_closes_all_at_once(hasty) -> None:
    """
    There is no next turn.
    """
    clients = [hasty.connect() for _ in range(5)]
    hasty.conductor.close()
    assert all(client.transport.is_aborted for client in clients)


def test_what_the_lost_held_is_dropped_with_the_leadership(hasty) -> None:
    """
    There is nothing left to give it back to.
    """
    clients = [hasty.connect(SUBSCRIBE) for _ in range(5)]
    for client in clients:
        client.connection_lost(None)
    hasty.conductor.role.end()
    settled(hasty)
    assert not hasty.conductor.departures
    assert hasty.conductor.containment.mistake_count == 0
