"""
What clients make the node hold has a bound over all kinds; who has the most goes.
"""

from __future__ import annotations

import pytest

from holdfast.server.settings import ServerSettings

BODY = b"SEND\ndestination:/queue/q\ncontent-length:9999\n\n"
IN_TRANSACTION = b"SEND\ndestination:/queue/q\ntransaction:t\ncontent-length:%d\n\n%b\0"


@pytest.fixture
def small(new_node):
    """A node that holds ten thousand bytes for all clients."""
    node = new_node(settings=ServerSettings(held_bytes_max=10_000, output_high_bytes=100))
    node.serve()
    return node


def tick(node) -> None:
    """Let the node look."""
    node.conductor.tick()


def begin_body(node, size: int):
    """Connect somebody who sends so much of a body and stops."""
    client = node.connect()
    client.transport.take()
    client.data_received(BODY + b"x" * size)
    node.turn()
    return client


def open_transaction(node, size: int):
    """Connect somebody who leaves a transaction open with so much in it."""
    client = node.connect()
    client.transport.take()
    client.data_received(b"BEGIN\ntransaction:t\n\n\0" + IN_TRANSACTION % (size, b"x" * size))
    node.turn()
    return client


def read_nothing(node, size: int):
    """Connect somebody for whose socket so much waits."""
    client = node.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/%d\n\n\0" % size)
    client.transport.take()
    client.transport.unsent = size
    client.data_received(b"UNSUBSCRIBE\nid:none\n\n\0")  # It is answered by an ERROR.
    node.turn()
    client.transport.take()
    client.pause_writing()
    return client


KINDS = (begin_body, open_transaction, read_nothing)


@pytest.mark.parametrize("worst", KINDS)
def test_who_makes_the_node_hold_the_most_is_closed(small, worst) -> None:
    """
    Whatever it is; it is told why. Those with less never notice, of whatever kind they are.
    """
    others = [kind(small, 1000) for kind in KINDS if kind is not worst]
    tick(small)
    large = worst(small, 7000)
    assert not large.transport.is_closed
    last = begin_body(small, 1000)
    tick(small)
    assert b"code:too-much-held" in large.transport.take()
    assert large.transport.is_closed
    assert not large.session.subscriptions
    assert not large.session.transactions
    assert not any(each.transport.is_closed for each in (*others, last))


def test_who_goes_takes_nobody_along(small) -> None:
    """
    What it held counts until its socket is closed, which takes as long as it likes.
    """
    other = read_nothing(small, 4500)
    large = read_nothing(small, 7000)
    for _ in range(3):
        tick(small)
    assert (large.transport.is_closed, other.transport.is_closed) == (True, False)
    assert not large.transport.is_aborted
    large.connection_lost(None)
    small.turn()
    assert small.conductor.held_memory.bytes == 4500


def test_those_who_go_are_ended_at_once_where_others_come(small) -> None:
    """
    Their last words would wait for a while: whoever comes again and again would fill the memory.
    """
    first = read_nothing(small, 11_000)
    tick(small)
    assert not first.transport.is_aborted
    second = read_nothing(small, 5000)
    tick(small)
    assert first.transport.is_aborted
    assert not second.transport.is_closed
    assert small.conductor.held_memory.bytes == 5000


def test_what_a_socket_has_taken_since_is_nobodys(small) -> None:
    """
    Small answers leave without a word: before anybody is closed it is looked who has them still.
    """
    clients = [read_nothing(small, 6000) for _ in range(2)]
    assert small.conductor.held_memory.bytes == 12_000
    for each in clients:
        each.transport.unsent = 0
    tick(small)
    assert small.conductor.held_memory.bytes == 0
    assert not any(each.transport.is_closed for each in clients)


def test_from_half_of_it_on_who_takes_nothing_is_not_read(small) -> None:
    """
    First it is slowed down, and closed only if that does not help.
    """
    client = read_nothing(small, 4500)
    tick(small)
    client.data_received(b"UNSUBSCRIBE\nid:none\n\n\0")
    small.turn()
    assert b"ERROR" in client.transport.take()
    begin_body(small, 1000)
    tick(small)
    client.data_received(b"UNSUBSCRIBE\nid:none\n\n\0")
    small.turn()
    assert client.transport.take() == b""
    assert not client.transport.is_reading
    client.transport.unsent = 0
    client.resume_writing()
    small.settle()
    assert b"ERROR" in client.transport.take()
    assert small.conductor.held_memory.unsent_bytes == 0


def test_headers_that_have_not_come_whole_count_too(small) -> None:
    """
    A frame that is not whole is held, however far it has come.
    """
    client = small.connect()
    client.data_received(b"SEND\nx:" + b"y" * 5000)
    small.turn()
    assert small.conductor.held_memory.bytes == 5007
    client.data_received(b"\ndestination:/queue/q\n\nbody\0")
    small.turn()
    assert small.conductor.held_memory.bytes == 0


def test_nothing_is_held_for_those_who_are_gone(small) -> None:
    """
    Nor for anybody when the leadership ends.
    """
    for kind in KINDS:
        kind(small, 1000).connection_lost(None)
    small.settle()
    assert small.conductor.held_memory.bytes == 0
    for kind in KINDS:
        kind(small, 1000)
    small.conductor.role.end()
    assert small.conductor.held_memory.bytes == 0


def test_open_transactions_are_not_looked_at_one_by_one(new_node) -> None:
    """
    160,000 empty ones made each look of an overfull node 45 ms long.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=10_000))
    node.serve()
    clients = [open_transaction(node, 500) for _ in range(3)]
    for client in clients[:2]:
        client.data_received(b"COMMIT\ntransaction:t\n\n\0BEGIN\ntransaction:u\n\n\0")
    clients[0].data_received(b"ABORT\ntransaction:u\n\n\0")
    large = open_transaction(node, 9000)
    node.settle()
    for client in (*clients, large):
        transactions = client.session.transactions
        held = sum(each.held_bytes for each in transactions.values())
        assert client.session.transaction_bytes == held
        client.session.transactions = dict.fromkeys(transactions)  # Whoever looks at one fails.
    assert [bool(each.session.transaction_bytes) for each in clients] == [False, True, True]
    large.session.transactions = {}
    with pytest.raises(StopIteration) as looked_at:
        steps = node.conductor.held_memory._by_connection(clients)
        while True:
            next(steps)
    sizes = looked_at.value.value
    assert sizes == {each: each.session.transaction_bytes for each in clients[1:]}


def crowd(node, count: int, asked: list[object]) -> list:
    """Clients who read nothing; it is noted how often their sockets are asked."""
    clients = [read_nothing(node, 6000) for _ in range(count)]
    for each in clients:
        ask = each.transport.get_write_buffer_size

        def counted(ask=ask) -> int:
            asked.append(ask)
            return ask()

        each.transport.get_write_buffer_size = counted
    return clients


def test_a_look_at_many_is_done_in_slices(new_node) -> None:
    """
    Ten thousand connections that read nothing made turns of 200 ms.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=900_000, output_high_bytes=100))
    node.serve()
    asked: list[object] = []
    clients = crowd(node, 200, asked)
    node.settle()
    closed_before = 0
    for _ in range(80):
        asked.clear()
        node.conductor.held_memory.look(node.conductor.connections, 1e9, lambda: True)
        closed = sum(each.transport.is_closed for each in clients)
        assert len(asked) <= 64
        assert closed - closed_before <= 1
        closed_before = closed
    assert closed == 50


def test_who_goes_is_not_looked_at_again_and_again(new_node) -> None:
    """
    Until their sockets were closed, for seconds, each tick took 20 ms: others were not served.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=90_000, output_high_bytes=100))
    node.serve()
    asked: list[object] = []
    clients = crowd(node, 20, asked)
    tick(node)
    assert sum(each.transport.is_closed for each in clients) == 5
    node.settle()
    asked.clear()
    for _ in range(5):
        tick(node)
    assert asked == []


def test_who_was_lost_during_a_look_holds_nothing_after_it(new_node) -> None:
    """
    Its size was asked once more, and then counted for ever.
    """
    settings = ServerSettings(held_bytes_max=900_000, slice_seconds=0.0, output_high_bytes=100)
    node = new_node(settings=settings)
    node.serve()
    clients = crowd(node, 200, [])
    while not all(each.has_unsent for each in clients):
        node.turn()
    for each in reversed(clients):
        tick(node)
        each.connection_lost(None)
    node.settle()
    assert node.conductor.held_memory.bytes == 0
    crowd(node, 200, [])
    tick(node)
    node.conductor.role.end()
    tick(node)
    assert node.conductor.held_memory.bytes == 0
