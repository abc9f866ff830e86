"""
What only this node has is confirmed when it is out, and while no other leader may serve.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.broker.settings import BrokerSettings

STEP = BrokerSettings().step_count_max
MANY = 6 * STEP


def volatile(destination: bytes, receipt: bytes = b"v") -> bytes:
    return b"SEND\ndestination:%b\nreceipt:%b\n\nvolatile\0" % (destination, receipt)


def committing(destination: bytes) -> bytes:
    return (
        b"BEGIN\ntransaction:t\n\n\0"
        b"SEND\ndestination:%b\ntransaction:t\n\nvolatile\0"
        b"COMMIT\ntransaction:t\nreceipt:v\n\n\0" % destination
    )


def listening(node, count: int = 1):
    """A client with so many subscriptions to a topic."""
    subscribe = b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0"
    client = node.connect(b"".join(subscribe % each for each in range(count)))
    node.turns_until(lambda: len(node.broker.topic("t").subscriptions) == count)
    client.transport.take()
    return client


def pause_once(node) -> None:
    """Let the lease be held as the next turn begins, and never after that."""
    answers = iter([True])

    def holds_lease(_now: float) -> bool:
        node.store.has_lease = False
        return next(answers, False)

    node.store.holds_lease = holds_lease


@pytest.mark.parametrize("destination", [b"/topic/t", b"/queue/volatile"])
def test_a_pause_between_reading_and_delivering_is_seen(node, destination: bytes) -> None:
    """
    The turn began with the lease. It ends without: nothing is delivered, so nothing is confirmed.
    """
    listener = listening(node)
    publisher = node.connect()
    pause_once(node)
    publisher.data_received(volatile(destination))
    node.turn()
    node.turn()
    assert (listener.transport.written, publisher.transport.written) == (b"", b"")
    node.store.has_lease = True
    node.store.holds_lease = lambda _now: True
    node.turn()
    assert publisher.transport.take() == b"RECEIPT\nreceipt-id:v\n\n\0"
    assert listener.transport.written.count(b"MESSAGE") == (destination == b"/topic/t")


@pytest.mark.parametrize("frames", [volatile(b"/topic/t"), committing(b"/topic/t")])
def test_a_message_that_may_not_go_out_yet_is_not_confirmed(node, frames: bytes) -> None:
    """
    Who led before may deliver yet, so this one does not: a receipt now would be for nobody.
    """
    listener = listening(node)
    publisher = node.connect()
    node.store.may_dispatch = lambda _now: False
    publisher.data_received(frames)
    for _ in range(3):
        node.settle()
    assert (listener.transport.written, publisher.transport.written) == (b"", b"")
    node.store.may_dispatch = lambda _now: True
    node.turn()
    assert listener.transport.written.count(b"MESSAGE") == 1
    assert publisher.transport.written == b"RECEIPT\nreceipt-id:v\n\n\0"


def test_a_commit_is_confirmed_when_its_messages_are_out(hasty, send) -> None:
    """
    Told before, 10,000 subscribers of a leader that ended just then had seen none of it. Others
    whose messages went with it into one batch are told at once.
    """
    many = listening(hasty, MANY)
    publisher, other = hasty.connect(), hasty.connect()
    publisher.data_received(committing(b"/topic/t"))
    other.data_received(send(b"x", b"o"))
    told_after = 0
    while b"RECEIPT" not in publisher.transport.written:
        hasty.clock.now += 0.02
        hasty.store.commit_all()
        hasty.turn()
        seen = many.transport.written.count(b"MESSAGE")
        assert seen == MANY or b"RECEIPT" not in publisher.transport.written
        if not told_after and b"receipt-id:o" in other.transport.written:
            told_after = 1 + seen
    assert 0 < told_after < MANY


def test_a_commit_to_nobody_does_not_wait_for_what_others_publish(hasty) -> None:
    """
    Its messages go to a queue, and are there.
    """
    many = listening(hasty, MANY)
    publisher = hasty.connect()
    hasty.connect(b"SEND\ndestination:/topic/t\n\nx\0")
    publisher.data_received(committing(b"/queue/volatile"))
    hasty.turns_until(lambda: b"RECEIPT" in publisher.transport.written)
    assert many.transport.written.count(b"MESSAGE") < MANY


@pytest.mark.parametrize("frames", [volatile(b"/topic/t"), committing(b"/topic/t")])
def test_a_leadership_that_ends_confirms_nothing_more(node, frames: bytes) -> None:
    """
    What it had is gone with it, and who asked is sent away.
    """
    listening(node)
    publisher = node.connect()
    node.store.may_dispatch = lambda _now: False
    publisher.data_received(frames)
    node.settle()
    node.store.is_serving = node.store.is_leader = False
    node.turn()
    node.turn()
    assert b"RECEIPT" not in publisher.transport.written
    assert not node.broker.publishing.receipts
    assert not node.broker.publishing.unspread


@pytest.mark.parametrize("frames", [volatile(b"/topic/t"), committing(b"/topic/t")])
def test_a_goodbye_comes_behind_what_is_not_confirmed_yet(node, frames: bytes) -> None:
    """
    Its receipt says that all before it is done, and closes the connection.
    """
    listening(node)
    publisher = node.connect()
    node.store.may_dispatch = lambda _now: False
    publisher.data_received(frames + b"DISCONNECT\nreceipt:bye\n\n\0")
    node.settle()
    assert publisher.transport.written == b""
    assert not publisher.transport.is_closed
    node.store.may_dispatch = lambda _now: True
    node.turn()
    receipt = b"RECEIPT\nreceipt-id:%b\n\n\0"
    assert publisher.transport.written == receipt % b"v" + receipt % b"bye"
    assert publisher.transport.is_closed


def test_very_many_are_told_in_slices(hasty) -> None:
    """
    After an outage all who waited could be told in one turn.
    """
    publisher = hasty.connect()
    hasty.store.has_lease = False
    publisher.data_received(
        b"".join(volatile(b"/queue/volatile", b"%d" % each) for each in range(MANY))
    )
    hasty.turns_until(lambda: len(hasty.broker.publishing.receipts) == MANY)
    hasty.store.has_lease = True
    told = [0]
    while told[-1] < MANY:
        hasty.turn()
        told.append(publisher.transport.written.count(b"RECEIPT"))
    assert max(after - before for before, after in pairwise(told)) == STEP


def test_who_cannot_be_told_costs_the_others_nothing(node, monkeypatch) -> None:
    """
    A mistake of ours costs the client it came from.
    """
    broken, other = node.connect(), node.connect()
    monkeypatch.setattr(broken.session, "confirm", None, raising=False)
    for client in (broken, other):
        client.data_received(volatile(b"/queue/volatile"))
    node.turn()
    assert broken.transport.is_aborted
    assert b"receipt-id:v" in other.transport.written
    assert node.conductor.containment.mistake_count == 1
