"""
A client that asks and does not take the answers: it waits, and nobody waits for it.
"""

from __future__ import annotations

from holdfast.broker.settings import BrokerSettings

COUNT = 4 * BrokerSettings().step_count_max


def grow_deaf(client) -> None:
    """Let more than may be unsent wait for a client that takes nothing."""
    client.pause_writing()
    client.transport.unsent = 3 << 20


def test_an_abort_goes_on_though_its_client_takes_nothing(hasty, send, subscribe) -> None:
    """
    Until all is given back the queue is nobody's: one client that took no answers kept it for good.
    """
    hasty.connect(*[send(b"%d" % each) for each in range(COUNT)])
    hasty.turns_until(lambda: hasty.broker.state.live_count() == COUNT)
    client = hasty.connect(subscribe)
    hasty.turns_until(lambda: client.transport.written.count(b"MESSAGE\n") == COUNT)
    lines = client.transport.take().split(b"\n")
    client.data_received(b"BEGIN\ntransaction:t\n\n\0")
    for each in [line[4:] for line in lines if line.startswith(b"ack:")]:
        client.data_received(b"ACK\nid:%b\ntransaction:t\n\n\0" % each)
    client.data_received(b"UNSUBSCRIBE\nid:s\n\n\0ABORT\ntransaction:t\nreceipt:a\n\n\0")
    client.data_received(send(b"behind", b"b"))
    hasty.turns_until(lambda: hasty.broker.queue("q").is_held)
    grow_deaf(client)
    other = hasty.connect(subscribe)
    hasty.turns_until(lambda: other.transport.written.count(b"MESSAGE\n") == COUNT)
    # What it sent behind is not done: its answers would only add to those that it does not take.
    assert hasty.broker.state.live_count() == COUNT
    client.transport.unsent = 0
    client.resume_writing()
    hasty.turns_until(lambda: b"receipt-id:b" in client.transport.written)
    assert b"receipt-id:a" in client.transport.written


def test_clients_that_read_again_at_once_are_looked_at_one_after_the_other(
    hasty, send, subscribe, monkeypatch
) -> None:
    """
    20 of them with 10,000 subscriptions each took 45 ms between two turns.
    """
    clients = [hasty.connect(subscribe) for _ in range(6)]
    hasty.turns_until(lambda: len(hasty.broker.queue("q").subscriptions) == 6)
    for each in clients:
        each.pause_writing()
    hasty.connect(*[send(b"%d" % number) for number in range(12)])
    hasty.turns_until(lambda: hasty.broker.state.live_count() == 12)
    hasty.turns_until(lambda: not hasty.broker.has_to_dispatch)
    resumed = []
    resume = hasty.broker.resume
    monkeypatch.setattr(
        hasty.broker, "resume", lambda session: (resumed.append(session), resume(session))
    )
    clients[3].connection_lost(None)
    for each in clients[:3] + clients[4:]:
        each.resume_writing()
    assert not resumed
    for count in range(1, 6):
        hasty.turn()
        assert len(resumed) == count
    hasty.turns_until(
        lambda: sum(each.transport.written.count(b"MESSAGE\n") for each in clients) == 12
    )
    assert not clients[3].transport.written.count(b"MESSAGE\n")
