"""
Which clients do nothing, and what is told to one that goes for another.
"""

from __future__ import annotations

import pytest

from holdfast.security.principal import Principal
from holdfast.server.idleness import IDLE_SECONDS, give_way, is_session_idle
from holdfast.server.settings import ServerSettings

BEGIN = b"BEGIN\ntransaction:t\n\n\0"
SILENT = b""


@pytest.fixture
def full(new_node):
    """A node with room for two clients."""
    node = new_node(settings=ServerSettings(connection_count_max=2))
    node.serve()
    return node


def pass_time(node, seconds: float = 61.0) -> None:
    node.clock.now += seconds
    node.turn()


def test_idle_clients_do_not_keep_others_out(full) -> None:
    """
    They have said who they are, and nothing since: the oldest makes room, and is told why.
    """
    first, second = full.connect(), full.connect()
    late = full.connect()
    assert late.transport.is_aborted
    pass_time(full)
    third = full.connect()
    told = first.transport.take()
    assert b"code:port-full" in told
    assert first.transport.is_closed
    assert not (second.transport.is_closed or third.transport.is_aborted)
    first.connection_lost(None)
    full.turn()
    assert full.conductor.connections == {second, third}
    assert full.conductor.clients.admission.turned_away == 2


@pytest.mark.parametrize("what", ["subscription", "transaction", "heart-beat", "frame"])
def test_who_does_something_stays(full, subscribe, send, what: str) -> None:
    """
    A consumer waits for messages, a transaction for its end, and a beat says that somebody lives.
    """
    data = {"subscription": subscribe, "transaction": BEGIN}.get(what)
    for _ in range(2):
        full.connect(*([data] if data else []))
    connections = list(full.conductor.connections)
    full.settle()
    pass_time(full)
    for connection in connections:
        if what in {"heart-beat", "frame"}:
            connection.data_received(b"\n" if what == "heart-beat" else send(b"x"))
    full.turn()
    full.settle()
    assert full.connect().transport.is_aborted
    assert full.conductor.connections == set(connections)


def test_one_that_does_not_take_its_last_words_goes_at_once(full) -> None:
    """
    Its descriptor is needed for the one that comes.
    """
    first, _ = full.connect(), full.connect()
    first.transport.unsent = 10
    pass_time(full)
    full.connect()
    assert first.transport.is_aborted


def test_what_was_turned_away_is_counted(full) -> None:
    """
    For the metrics: an operator can be told before somebody complains.
    """
    for _ in range(5):
        full.connect()
    assert full.conductor.clients.admission.turned_away == 3
    assert full.conductor.clients.admission.count_max == 2


@pytest.mark.parametrize("unsent", [0, 1])
def test_who_gives_way_is_told_so_unless_he_does_not_listen(node, unsent: int) -> None:
    """
    What he does not take would keep his socket open, and the place is another one's already.
    """
    client = node.connect()
    client.transport.unsent = unsent
    give_way(client.session, "why")
    give_way(client.session, "again")
    node.turn()
    assert client.transport.is_aborted == bool(unsent)
    assert client.transport.take().count(b"ERROR") == 1


def test_whose_session_has_no_socket_any_more_is_not_idle(node) -> None:
    """
    It is on its way out already.
    """
    client = node.connect()
    session, later = client.session, node.clock.now + IDLE_SECONDS
    assert is_session_idle(session, later)
    session.connection = None
    assert not is_session_idle(session, later)


def test_a_user_who_has_his_share_gets_the_place_of_what_he_left_idle(new_node) -> None:
    """
    After a minute without a word, and not before.
    """
    node = new_node(settings=ServerSettings(connection_count_max=4))
    node.serve()
    node.conductor.broker.access_book.has_authorities = True
    node.conductor.context.check = lambda session, credential: Principal(
        "ann", frozenset({"admin"})
    )
    mine = [node.connect() for _ in range(3)]
    assert not any(it.session.is_closing for it in mine)
    for late in (node.connect(), node.connect()):
        assert late.session.is_closing
        late.connection_lost(None)
    node.clock.now += IDLE_SECONDS
    assert not node.connect().session.is_closing
    assert [it.session.is_closing for it in mine] == [True, False, False]
