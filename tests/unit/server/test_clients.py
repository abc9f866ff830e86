"""
The clients of one node, as they come, are read, wait and go. What they ask is tested with the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.broker.errands import IsSpent
from holdfast.broker.settings import BrokerSettings
from holdfast.protocols.detect import by_words
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.security.principal import ANONYMOUS
from holdfast.server.connection import ClientConnection
from holdfast.server.protocols import served
from holdfast.server.settings import ServerSettings
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Session


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


def test_a_crowd_that_comes_is_read_behind_who_is_there(new_node, send) -> None:
    """
    He waited for all of ten thousand logins that came before what he sent, a second and longer.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    node.serve()
    client = node.connect()
    crowd = [node.open() for _ in range(100)]
    for each in crowd:
        each.data_received(b"STOMP\naccept-version:1.2\n\n\0")
    client.data_received(send(b"x"))
    clients = node.conductor.clients
    clients.read(node.clock.now)
    assert not client.incoming
    assert [it.session.is_connected for it in crowd] == [True] + [False] * 99
    for left in range(98, -1, -1):  # And he who goes on keeps nobody of it out.
        client.data_received(send(b"x"))
        clients.read(node.clock.now)
        assert len(clients.coming) == left
    assert all(it.session.is_connected for it in crowd)


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
    assert not clients.receipts.proposed_count


def test_an_answer_that_breaks_a_session_costs_that_client(node, send) -> None:
    """
    Whoever answers is told nothing of it, and the socket does not stay behind without a deadline.
    """
    node.serve()
    node.conductor.context.check = lambda session, credential: None
    broken, other = node.open(), node.open()
    for client in (broken, other):
        client.data_received(b"CONNECT\naccept-version:1.2\n\n\0" + send(b"x"))
    node.settle()

    def fail(answer: object) -> None:
        raise ValueError

    broken.session.authenticated = fail
    clients = node.conductor.clients
    clients.authenticated(broken, ANONYMOUS)
    clients.authenticated(other, ANONYMOUS)
    node.settle()
    assert broken.transport.is_aborted
    assert node.conductor.containment.mistake_count == 1
    taken = other.transport.take()
    assert b"CONNECTED" in taken
    assert b"RECEIPT" in taken


def test_who_breaks_at_its_first_bytes_is_closed(new_node) -> None:
    """
    By then the session that chose the protocol has given way, and knows no connection any more.
    """
    (stomp,) = served(StompSettings())

    def accept(arrival: Arrival) -> Session:
        session = stomp.accept(arrival)

        def fail(data: bytes, is_spent: IsSpent) -> bool:
            raise ValueError

        session.receive = fail  # type: ignore[method-assign]
        return session

    other = Registration("OTHER", by_words([b"HELO"], b" "), accept)
    node = new_node()
    node.serve()
    client = node.open(stomp, other)
    client.data_received(b"HELO there")
    node.settle()
    assert client.session.protocol_name == "STOMP 1.0"
    assert client.transport.is_aborted
    assert client.session.is_closing


def test_thousands_of_logins_that_wait_are_not_looked_at_in_each_turn(node, send) -> None:
    """
    A hash takes long on purpose; until it is there nothing is to be done for its client.
    """
    node.serve()
    node.conductor.context.check = lambda session, credential: None
    waiting = node.open()
    waiting.data_received(b"CONNECT\naccept-version:1.2\n\n\0")
    node.settle()
    clients = node.conductor.clients
    assert waiting.is_paused
    assert not clients.paused
    clients.authenticated(waiting, ANONYMOUS)
    node.settle()
    assert not waiting.is_paused
    waiting.data_received(send(b"x"))
    node.settle()
    assert b"RECEIPT" in waiting.transport.take()


def test_who_waited_for_room_is_read_again_once_there_is_some(new_node) -> None:
    """
    It is not looked at before something of it was done.
    """
    settings = BrokerSettings(memory_bytes=1000, waiting_bytes_max=2000)
    node = new_node(settings)
    node.serve()
    client = node.connect()
    sends = b"SEND\ndestination:/queue/q\n\n" + b"x" * 900 + b"\0"
    client.data_received(sends * 6)
    node.settle()
    assert client.session.is_full
    assert client.is_paused
    assert not node.conductor.clients.paused
    consumer = node.connect(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:auto\n\n\0")
    for _ in range(20):
        node.settle()
    assert consumer.transport.take().count(b"MESSAGE\n") == 6
    assert not client.is_paused


def test_what_is_lent_of_the_room_is_asked_for_as_a_client_comes(node) -> None:
    """
    Handshakes that wait for a place use what clients leave; each one inside leaves less.
    """
    node.serve()
    clients = node.conductor.clients
    left: list[int] = []
    clients.make_way = lambda: left.append(clients.admission.count_max - len(clients.admission))
    node.open()
    node.open()
    assert left[0] - left[1] == 1


CONNECT = b"CONNECT\naccept-version:1.2\nholdfast-client:secret\nclient-id:c\n\n\0"


def never_read(node, client: ClientConnection) -> None:
    client.data_received(CONNECT)


def never_answered(node, client: ClientConnection) -> None:
    node.conductor.context.check = lambda session, credential: None
    client.data_received(CONNECT)
    node.settle()
    client.connection_lost(None)
    node.conductor.clients.authenticated(client, ANONYMOUS)


def refused(node, client: ClientConnection) -> None:
    client.data_received(CONNECT.replace(b"1.2", b"9.9"))
    node.settle()


def let_in(node, client: ClientConnection) -> None:
    client.data_received(CONNECT)
    node.settle()


def refused_by_name(node, client: ClientConnection) -> None:
    let_in(node, node.open())
    client.data_received(CONNECT.replace(b"secret", b"other"))
    node.settle()


def let_in_twice(node, client: ClientConnection) -> None:
    let_in(node, client)
    let_in(node, client)


def said_goodbye(node, client: ClientConnection) -> None:
    let_in(node, client)
    client.data_received(b"DISCONNECT\nreceipt:r\n\n\0")
    node.settle()


def followed(node, client: ClientConnection) -> None:
    let_in(node, client)
    let_in(node, node.open())


def broken(node, client: ClientConnection) -> None:
    let_in(node, client)
    node.conductor.containment.broke(client.session, ValueError())


def broken_as_it_is_let_in(node, client: ClientConnection) -> None:
    client.session.write = None  # type: ignore[attr-defined]
    let_in(node, client)


def with_more_unread(node, client: ClientConnection) -> None:
    let_in(node, client)
    client.data_received(b"SEND\ndestination:/queue/q\n\nx\0")


@pytest.mark.parametrize(
    "end",
    [
        *(never_read, never_answered, refused, refused_by_name, let_in, let_in_twice, said_goodbye),
        *(followed, broken, broken_as_it_is_let_in, with_more_unread),
    ],
)
@pytest.mark.parametrize("is_any_protocol", [False, True], ids=["STOMP", "any protocol"])
def test_a_connection_gives_its_place_back_however_it_ends(
    node, end: Callable[..., None], *, is_any_protocol: bool
) -> None:
    """
    Once its socket is gone nothing of it is counted, and nobody finds its name in use. Before that
    it is counted if it was let in, whatever became of it since.
    """
    (stomp,) = served(StompSettings())
    other = Registration("OTHER", by_words([b"HELO"], b" "), stomp.accept)
    context, clients = node.conductor.context, node.conductor.clients
    client = node.open(stomp, other) if is_any_protocol else node.open()
    end(node, client)
    places = context.connection_shares.users
    assert len(places) == sum(
        it.session.is_connected and not it.is_lost for it in clients.connections
    )
    for connection in list(clients.connections):
        if not connection.is_lost:
            connection.connection_lost(None)
    node.settle()
    assert (places, clients.connections) == ({}, set())
    assert not (context.client_ids or context.shown_by)
    assert not (context.leaving_by or context.leaving_shown)
