"""
Heart-beats of many clients, in slices. What a beat means is tested with the loop.
"""

from __future__ import annotations

import itertools

from holdfast.server.settings import ServerSettings

BEATING = b"STOMP\naccept-version:1.2\nheart-beat:1000,1000\n\n\0"


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
