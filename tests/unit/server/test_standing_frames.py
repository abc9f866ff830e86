"""
A frame that was begun has to come on: who withholds its rest holds memory for as long as it likes.
"""

from __future__ import annotations

import pytest

from holdfast.server.settings import ServerSettings
from holdfast.server.standing_frames import PROGRESS_BYTES

HEAD = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\ncontent-length:%d\n\n"
SECONDS = 10


@pytest.fixture
def timed(new_node):
    """A node where a frame may stand still for ten seconds."""
    node = new_node(settings=ServerSettings(unfinished_seconds_max=SECONDS))
    node.serve()
    return node


def wait(node, seconds: float) -> None:
    """Let time pass in steps, with a look in each."""
    for _ in range(int(seconds)):
        node.clock.now += 1
        node.conductor.held_memory.close_standing(node.clock.now)
    node.turn()


@pytest.mark.parametrize("begun", [HEAD % 5000 + b"x" * 400, b"SEND\ndestination:/que", b"ACK"])
def test_a_frame_that_stands_still_closes_its_connection(timed, begun: bytes) -> None:
    """In its body or its head; who asked for no heart-beats held what it had for ever."""
    client, other = timed.connect(), timed.connect()
    client.data_received(begun)
    timed.turn()
    wait(timed, SECONDS)
    assert not client.transport.is_closed
    wait(timed, 2)
    last = client.transport.take()
    assert b"code:unfinished-too-long" in last
    assert b"less than 1,024 of them came in the last 10 s" in last
    assert client.transport.is_closed
    assert timed.conductor.held_memory.unfinished.bytes == 0
    assert client.session.protocol.unfinished_bytes == 0
    assert not other.transport.is_closed, "one that has begun none may be silent"


def test_one_that_comes_on_slowly_is_served(timed) -> None:
    """A link of a hundred bytes a second is slow, and no enemy; one byte a second is one."""
    slow, dripping = timed.connect(), timed.connect()
    for client in (slow, dripping):
        client.data_received(HEAD % 6000)
    for second in range(40):
        if not second % 9:
            slow.data_received(b"x" * PROGRESS_BYTES)
        dripping.data_received(b"x")
        timed.turn()
        wait(timed, 1)
        assert not slow.transport.is_closed
        if second < SECONDS:
            assert not dripping.transport.is_closed
    assert dripping.transport.is_closed
    slow.data_received(b"x" * (6000 - 5 * PROGRESS_BYTES) + b"\0")
    timed.settle()
    assert b"RECEIPT" in slow.transport.take()


def test_who_sends_small_frames_all_the_time_never_stands_still(timed) -> None:
    """Each is cut at the same place, and there is as much of each as of the one before."""
    client = timed.connect()
    whole = HEAD % 10 + b"0123456789\0"
    client.data_received(whole[:30])
    for _ in range(3 * SECONDS):
        timed.turn()
        wait(timed, 1)
        client.data_received(whole[30:] + whole[:30])
    timed.settle()
    assert not client.transport.is_closed
    assert client.transport.take().count(b"RECEIPT") == 3 * SECONDS


def test_time_in_which_nobody_reads_is_not_the_clients(timed, monkeypatch) -> None:
    """It waits for room, or the loop was stopped and what came lies unread."""
    client = timed.connect()
    client.data_received(HEAD % 5000 + b"x" * 400)
    timed.turn()
    client.is_paused = True
    wait(timed, 3 * SECONDS)
    client.is_paused = False
    wait(timed, SECONDS - 1)
    assert not client.transport.is_closed
    monkeypatch.setattr(type(client), "has_unread", True)
    wait(timed, 3)
    assert not client.transport.is_closed
    monkeypatch.setattr(type(client), "has_unread", False)
    wait(timed, SECONDS + 2)
    assert client.transport.is_closed


def test_ten_thousand_take_several_ticks(timed) -> None:
    """A look at all of them at once would be a stop of the loop."""
    clients = [timed.connect() for _ in range(300)]
    for client in clients:
        client.data_received(b"SEND\n")
    timed.turn()
    standing = timed.conductor.held_memory._standing
    counts = []
    for _ in range(4):
        before = len(standing._seen)
        standing.look(timed.clock.now)
        counts.append(len(standing._seen) - before)
    assert counts == [128, 128, 44, 0]
    for client in clients:
        client.data_received(b"destination:/queue/q\n\n\0")
    timed.settle()
    wait(timed, 2)
    assert not standing._seen, "nothing is kept of who has ended his frame"
