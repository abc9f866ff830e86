"""
The clients of one node, as they come, are read, wait and go. What they ask is tested with the loop.
"""

from __future__ import annotations

from holdfast.server.settings import ServerSettings
from holdfast.sessions.credentials import ANONYMOUS


def test_nobody_is_served_by_who_does_not_lead(node) -> None:
    """
    The socket is closed at once, and no place is taken.
    """
    node.store.is_serving = False
    node.turn()
    connection = node.open()
    assert connection.transport.is_aborted
    assert not node.conductor.clients.connections
    assert len(node.conductor.clients.admission) == 0


def test_who_was_not_read_goes_first_in_the_next_turn(new_node, send) -> None:
    """
    A slice without time reads one of them; nobody is passed over twice.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    node.serve()
    waiting = [node.connect() for _ in range(3)]
    for client in waiting:
        client.data_received(send(b"x"))
    clients = node.conductor.clients
    assert clients.ready == waiting
    for left in (2, 1, 0):
        clients.read(node.clock.now)
        assert clients.ready == waiting[3 - left :]


def test_an_answer_for_who_is_gone_is_nobodys(node) -> None:
    """
    It may have taken longer than the client had patience.
    """
    node.serve()
    client = node.connect()
    client.connection_lost(None)
    node.settle()
    node.conductor.clients.authenticated(client, ANONYMOUS)
    assert node.conductor.clients.ready == []


def test_a_hand_over_leaves_unread_what_comes(node, send) -> None:
    """
    If it is given up all goes on, with what came still there.
    """
    node.serve()
    client = node.connect()
    client.data_received(send(b"x"))
    node.store.is_handing_over = True
    node.turn()
    assert client.is_paused
    assert client.incoming
    node.store.is_handing_over = False
    node.settle()
    assert not client.incoming
    assert not client.is_paused


def test_everybody_is_sent_away_and_forgotten(node, send) -> None:
    """
    A leadership that begins again begins with nobody.
    """
    node.serve()
    client = node.connect()
    client.data_received(send(b"x"))
    clients = node.conductor.clients
    clients.send_away("the leader is another node")
    clients.attend(node.clock.now)
    assert (clients.connections, clients.ready) == (set(), [])
    assert not clients.paused
    assert b"the leader is another node" in client.transport.take()


def test_a_commit_lets_those_go_on_who_waited_for_it(node) -> None:
    """
    What came since the last one is counted anew.
    """
    clients = node.conductor.clients
    clients.received_bytes = 5
    before = clients.commit_count
    clients.committed()
    assert (clients.received_bytes, clients.commit_count) == (0, before + 1)
    assert not clients.is_committing
