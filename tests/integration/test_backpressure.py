"""
Slow consumers, full memory and backlogs: producers wait or are told; the broker does not grow.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MiB = 1 << 20


def memory_bytes(node: LocalNode) -> int:
    """The process's resident memory."""
    pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[1])
    return pages * 4096


def publish_for(client: StompSocket, seconds: float, frame: bytes) -> int:
    """Write frames without waiting for anything, as far as the broker takes them."""
    client.socket.settimeout(0.2)
    sent = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(TimeoutError):
            sent += client.socket.send(frame)
    return sent


def test_a_subscriber_that_does_not_read_costs_no_memory(start_cluster):
    """
    A topic's subscriber stops reading: its producer has to wait, the broker's memory stays flat,
    heart-beats go on both ways, and another connection is served as if nothing was.
    """
    node = start_cluster("single", "--memory", "64MiB").leader()
    body = b"x" * 8192
    frame = b"SEND\ndestination:/topic/slow\ncontent-length:8192\n\n" + body + b"\0"
    with (
        StompSocket(node.stomp_port, receive_bytes=65_536) as lazy,
        StompSocket(node.stomp_port) as producer,
        StompSocket(node.stomp_port) as bystander,
    ):
        for client in (lazy, producer, bystander):
            client.connect()
        lazy.subscribe("/topic/slow", "auto")
        with StompSocket(node.stomp_port) as beating:
            beating.connect(heart_beat="0,200")
            publish_for(producer, 1.0, frame)
            before = memory_bytes(node)
            sent = publish_for(producer, 4.0, frame * 8)
            after = memory_bytes(node)
            answer = bystander.publish("/queue/bystander", b"at once")
            beats = beating.socket.recv(1000)

    assert answer.command == "RECEIPT"
    assert beats.count(b"\n") >= 5
    assert after - before < 48 * MiB, f"{sent:,} bytes were taken"


def test_a_backlog_beyond_memory_is_on_disk_and_drained_in_order(start_cluster):
    """
    Messages nobody takes fill the log, not the memory: with a limit of 16 MiB, 40 MiB wait; the
    node restarts quickly and gives all of them in order.
    """
    node = start_cluster("single", "--memory", "16MiB", "--segment", "4MiB").leader()
    address = f"127.0.0.1:{node.stomp_port}"
    empty = memory_bytes(node)
    settings = LoadSettings(consumers=0, count_max=20_000, body_bytes=2048, rate=50_000)
    with Load([address], settings) as load:
        load.wait_all_confirmed()
        full = memory_bytes(node)
        node.kill()
        began = time.monotonic()
        node.start()
        node.wait_until(lambda status: status["serving"], "serving")
        start_seconds = time.monotonic() - began
        drain = Load([address], LoadSettings(producers=0, body_bytes=2048))
        drain.ledger = load.ledger
        with drain:
            account = drain.finish()

    assert full - empty < 100 * MiB
    assert start_seconds < 15
    assert (account.delivered, account.lost, account.reordered) == (20_000, 0, 0)
    assert account.corrupt == 0


@pytest.mark.promise("F41")
def test_one_old_message_does_not_pin_the_log(start_cluster):
    """
    One message stays unacknowledged while 48 MiB flow through another queue: the log is cleaned
    from its old end and stays small, and the old message is there, also after a kill.
    """
    node = start_cluster("single", "--segment", "1MiB").leader()
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.publish("/queue/old", b"the old one")
        first = node.status()["store"]["first_index"]
        settings = LoadSettings(count_max=12_000, body_bytes=4096, rate=50_000, window=200)
        with Load([f"127.0.0.1:{node.stomp_port}"], settings) as load:
            load.wait_all_confirmed(seconds=60)
            account = load.finish()
        status = node.wait_until(
            lambda status: status["store"]["bytes_on_disk"] < 12 * MiB, "cleaned"
        )
        node.kill()
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/old")
        kept = client.read_message()

    assert (account.lost, account.corrupt, account.unflagged) == (0, 0, 0)
    assert status["store"]["first_index"] > first
    assert kept.body == b"the old one"


def test_a_slow_queue_consumer_gets_its_window_and_no_more(start_cluster):
    """
    A consumer that acknowledges nothing holds its prefetch; the rest waits for the others.
    """
    node = start_cluster("single").leader()
    with StompSocket(node.stomp_port) as slow, StompSocket(node.stomp_port) as quick:
        for client in (slow, quick):
            client.connect()
        slow.subscribe("/queue/fair", headers={"activemq.prefetchSize": "3"})
        for number in range(30):
            quick.publish("/queue/fair", b"%d" % number)
        quick.subscribe("/queue/fair", "auto", {"activemq.prefetchSize": "100"})
        rest = [quick.read_message() for _ in range(27)] + list(quick.read_all())
        held = [slow.read_message() for _ in range(3)] + list(slow.read_all())

    assert [frame.body for frame in held] == [b"0", b"1", b"2"]
    assert [frame.body for frame in rest] == [b"%d" % number for number in range(3, 30)]
