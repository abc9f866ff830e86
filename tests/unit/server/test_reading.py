"""
Shares of what clients may bring before they are served.
"""

from __future__ import annotations

from holdfast.model.limits import KiB
from holdfast.server.reading import SHARE_BYTES_MIN, Reading
from holdfast.server.settings import ServerSettings

SETTINGS = ServerSettings(incoming_bytes_max=64 * KiB, incoming_total_bytes_max=256 * KiB)


def bring(connection, data: bytes) -> bytes:
    """Let a socket give what it has, as far as it is read; gives the rest."""
    while data and connection.transport.is_reading:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]
    return data


def test_few_have_all_they_may_have_and_many_share() -> None:
    """
    The share is what is read at once; beyond very many it shrinks no more.
    """
    reading = Reading(SETTINGS)
    shares = {}
    for count in (0, 1, 4, 8, 10_000, 1):
        reading.share(count)
        assert len(reading.room) == reading.share_bytes
        shares[count] = reading.share_bytes
    assert shares == {0: 64 * KiB, 1: 64 * KiB, 4: 64 * KiB, 8: 32 * KiB, 10_000: SHARE_BYTES_MIN}


def test_what_many_bring_together_is_bounded_and_all_of_it_served(new_node, send) -> None:
    """
    Of 540 clients that sent faster than they were served 190 MiB waited, of 1,250 twice as much.

    Each is read a piece at a time, and on once that is served; what they share the buffer for is
    each one's own.
    """
    node = new_node(settings=SETTINGS)
    node.serve()
    connections = [node.connect() for _ in range(32)]
    frames = [
        b"".join(send(b"%d of %d" % (each, client) + b"x" * KiB, b"r") for each in range(60))
        for client in range(32)
    ]
    left = frames
    most = 0
    for _ in range(100):
        left = [bring(*each) for each in zip(connections, left, strict=True)]
        most = max(most, sum(len(data) for it in connections for data in it.incoming))
        node.settle()
    assert SETTINGS.incoming_total_bytes_max <= most <= 2 * SETTINGS.incoming_total_bytes_max
    assert not any(left)
    receipts = [it.transport.take().count(b"RECEIPT") for it in connections]
    assert receipts == [60] * 32
    queue = node.broker.queue("q")
    bodies = {record.body.rstrip(b"x") for record in queue.cache.values()}
    assert bodies == {b"%d of %d" % (each, client) for each in range(60) for client in range(32)}


def test_who_is_left_has_the_shares_of_those_who_went(new_node) -> None:
    """
    A crowd that came and went does not slow those who stay.
    """
    node = new_node(settings=SETTINGS)
    node.serve()
    stays, *others = [node.connect() for _ in range(32)]
    assert len(stays.get_buffer(-1)) == 8 * KiB
    for each in others:
        each.connection_lost(None)
    assert len(stays.get_buffer(-1)) == 64 * KiB
