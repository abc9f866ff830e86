"""
Frames that have not come whole have a bound over all clients; who has the largest goes.
"""

from __future__ import annotations

import pytest

from holdfast.model.shares import STRANGERS
from holdfast.security.principal import Principal
from holdfast.server.settings import ServerSettings
from holdfast.server.unfinished_frames import UnfinishedFrames

HEAD = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\ncontent-length:%d\n\n"


@pytest.fixture
def small(new_node):
    """A node with room for a thousand bytes of such frames."""
    node = new_node(settings=ServerSettings(unfinished_bytes_max=1000))
    node.serve()
    return node


def begin(node, size: int):
    """Connect somebody who sends so much of a larger body and stops."""
    client = node.connect()
    client.data_received(HEAD % (size + 500) + b"x" * size)
    node.turn()
    return client


def test_who_has_begun_the_largest_frame_is_closed(small) -> None:
    """
    It is told why; the others end their frames as if nothing had been.
    """
    modest = begin(small, 300)
    large = begin(small, 600)
    assert not large.transport.is_closed
    other = begin(small, 200)
    last = large.transport.take()
    assert b"code:too-much-unfinished" in last
    assert large.transport.is_closed
    assert small.conductor.held_memory.unfinished.bytes == 500
    assert large.session.protocol.unfinished_bytes == 0
    for client in (modest, other):
        client.data_received(b"x" * 500 + b"\0")
    small.settle()
    assert all(b"RECEIPT" in client.transport.take() for client in (modest, other))
    assert small.conductor.held_memory.unfinished.bytes == 0


def test_it_goes_on_until_there_is_room(small) -> None:
    """
    One chunk may be worth several frames of others.
    """
    clients = [begin(small, 180) for _ in range(5)]
    large = begin(small, 700)
    assert large.transport.is_closed
    assert not any(client.transport.is_closed for client in clients)


def test_who_leaves_counts_no_more(small) -> None:
    """
    Nor does anybody when the leadership ends.
    """
    begin(small, 900).connection_lost(None)
    small.turn()
    assert small.conductor.held_memory.unfinished.bytes == 0
    begin(small, 900)
    small.conductor.role.end()
    assert small.conductor.held_memory.unfinished.bytes == 0


def test_who_holds_the_most_by_small_frames_is_closed_and_not_who_has_the_largest() -> None:
    """
    Of all connections of a user, until there is room.
    """
    frames = UnfinishedFrames(1000, lambda connection: connection[:3])
    for number in range(9):
        frames.note(f"eve {number}", 100)
    frames.note("ann", 290)
    closed = []
    while (found := frames.take_largest()) is not None:
        closed.append(found[0])
        assert "of the user who holds the most, with 100 so far" in found[1]
    assert closed == ["eve 0", "eve 1"]
    assert frames.sizes["ann"] == 290
    frames.note("ann", 950)
    found = frames.take_largest()
    assert found is not None
    assert found[0] == "ann", "she holds the most by now"


def test_a_users_connections_are_known_by_the_user(small) -> None:
    """
    Without users nobody is, and the largest goes; and all are one to whom nothing is granted.
    """
    first, other = begin(small, 300), begin(small, 400)
    whose = small.conductor.held_memory._whose
    assert (whose(first), whose(other)) == (None, None)
    book = small.conductor.broker.access_book
    book.has_authorities = True
    viewer = frozenset({"viewer"})
    first.session.principal, other.session.principal = Principal("eve"), Principal("ann", viewer)
    assert (whose(first), whose(other)) == (STRANGERS, "ann")
