"""
Heart-beats of many clients, in slices. What a beat means is tested with the loop.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest

from holdfast.protocols.detect import by_words
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.server.connection import ClientConnection
from holdfast.server.heart_beats import HeartBeats
from holdfast.server.pace import REST_SECONDS_MAX
from holdfast.server.settings import ServerSettings
from holdfast.sessions.registration import Registration
from holdfast.sessions.stomp_connecting import HEART_BEAT_MS_MIN

BEATING = b"STOMP\naccept-version:1.2\nheart-beat:1000,1000\n\n\0"


def test_the_shortest_interval_is_kept_by_a_node_at_rest() -> None:
    """
    Beats agreed for 100 ms came every 160, as each second look was too early: a real client left.
    """
    settings = ServerSettings()
    assert settings.heart_beat_tick_seconds < REST_SECONDS_MAX
    due = HEART_BEAT_MS_MIN / 1000 * StompSettings().heart_beat_send_fraction
    assert due + REST_SECONDS_MAX < HEART_BEAT_MS_MIN / 1000


def test_ten_thousand_that_are_due_at_once_get_their_beats_in_slices(new_node) -> None:
    """
    Each is a write. Everybody gets exactly one, and who left meanwhile none.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    node.serve()
    clients = [node.open() for _ in range(100)]
    for client in clients:
        client.data_received(BEATING)
    while any(not client.transport.written for client in clients):
        node.turn()
    for client in clients:
        client.transport.take()
    node.clock.now += 0.6
    clients[-1].is_lost = True
    seen = [0]
    node.conductor.tick()
    while node.conductor.heart_beats.is_under_way:
        seen.append(sum(bool(client.transport.written) for client in clients))
        node.turn()
    seen.append(sum(bool(client.transport.written) for client in clients))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 16
    assert [client.transport.written for client in clients] == [b"\n"] * 99 + [b""]


def test_clients_that_are_quiet_and_well_are_not_looked_at_before_their_time(
    new_node, monkeypatch
) -> None:
    """Ten rounds a second over ten thousand of them cost a comparison each."""
    node = new_node()
    node.serve()
    silent = [node.open() for _ in range(5)]
    for client in silent:
        client.data_received(b"STOMP\naccept-version:1.2\nheart-beat:0,0\n\n\0")
    beating = node.open()
    beating.data_received(BEATING)
    unknown = node.open()  # Has not said yet what it wants.
    for _ in range(3):
        node.turn()
    looks: list[object] = []
    look = HeartBeats._look

    def counted(self: HeartBeats, connection: ClientConnection, now: float) -> None:
        looks.append(connection)
        look(self, connection, now)

    monkeypatch.setattr(HeartBeats, "_look", counted)
    for _ in range(20):
        node.clock.now += 0.1
        beating.data_received(b"\n")
        node.conductor.tick()
    assert looks.count(unknown) == 20
    assert [looks.count(client) for client in silent] == [1] * 5
    assert 1 <= looks.count(beating) <= 10


def test_no_beats_heap_up_for_a_client_that_reads_nothing(new_node) -> None:
    """Ten a second waited for it, for days, and were counted nowhere."""
    node = new_node()
    node.serve()
    client = node.open()
    client.data_received(BEATING)
    node.turn()
    client.transport.take()
    client.transport.unsent = 1

    def beats(count: int) -> bytes:
        for _ in range(count):
            node.clock.now += 0.5
            client.data_received(b"\n")
            node.conductor.tick()
        return client.transport.take()

    assert beats(20) == b""
    client.transport.unsent = 0
    assert len(beats(20)) > 5
    assert not client.transport.is_aborted


def test_silence_while_a_client_was_not_read_is_not_held_against_it(new_node) -> None:
    """Who is not read cannot be heard; its time begins anew when it is read again."""
    node = new_node()
    node.serve()
    client = node.open()
    client.data_received(BEATING)
    node.turn()
    client.is_paused = True
    for _ in range(100):
        node.clock.now += 0.1
        node.conductor.tick()
    client.is_paused = False
    node.clock.now += 0.9
    node.conductor.tick()
    assert not client.transport.is_aborted
    node.clock.now += 60.0
    node.conductor.tick()
    assert client.transport.is_aborted


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The socket of a client here, and the client's end of it."""
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_beats_that_wait_to_be_read_are_no_silence(new_node, wire) -> None:
    """
    A loop that was stopped, or had ten thousand logins to read, ended clients whose beats lay in
    its own sockets.
    """
    node = new_node()
    node.serve()
    client = node.open()
    client.data_received(BEATING)
    node.turn()
    client.transport.opened, there = wire
    there.send(b"\n")
    node.clock.now += 60.0
    node.conductor.tick()
    assert not client.transport.is_aborted
    client.data_received(client.transport.opened.recv(1))
    node.turn()
    node.clock.now += 60.0
    node.conductor.tick()
    assert client.transport.is_aborted


def test_beats_that_were_read_and_wait_for_their_turn_are_no_silence(new_node) -> None:
    """The slice of a turn may have been spent on others again and again."""
    node = new_node()
    node.serve()
    client = node.open()
    client.data_received(BEATING)
    node.turn()
    client.data_received(b"\n")
    node.clock.now += 60.0
    node.conductor.heart_beats.begin(node.conductor.connections)
    node.conductor.heart_beats.step(node.clock.now, lambda: False)
    assert not client.transport.is_aborted


@pytest.mark.parametrize("is_undecided", [False, True])
def test_a_connect_that_waits_to_be_read_is_read_first(new_node, wire, is_undecided) -> None:
    """
    Of ten thousand who came at once thousands were ended after 30 s, with their logins unread.
    """
    node = new_node()
    node.serve()
    spoken = node.conductor.clients.protocols
    other = Registration("OTHER", by_words([b"HELO"], b" "), spoken[0].accept)
    client = node.open(*spoken, *([other] if is_undecided else []))
    client.transport.opened, there = wire
    there.send(BEATING)
    for _ in range(20):
        node.clock.now += 31.0
        node.conductor.tick()
    assert not client.transport.is_aborted
    client.data_received(client.transport.opened.recv(4096))
    node.turn()
    assert client.transport.take().startswith(b"CONNECTED")


def test_who_goes_on_without_saying_who_he_is_gains_one_reading(new_node, wire) -> None:
    """Bytes that never end keep nobody a place beyond his time."""
    node = new_node()
    node.serve()
    client = node.open()
    client.transport.opened, there = wire
    there.send(b"\n" * 10)
    node.clock.now += 31.0
    node.conductor.tick()
    assert not client.transport.is_aborted
    node.clock.now += 0.1
    client.data_received(client.transport.opened.recv(1))
    node.turn()
    node.clock.now += 0.1
    node.conductor.tick()
    assert client.transport.is_aborted
