"""
A message for very many subscribers holds up neither the loop nor anybody but its own publisher.

As in test_turn_budget the slices are of no length, so each turn does one step of each kind of work.
"""

from __future__ import annotations

import itertools

from holdfast.broker.settings import BrokerSettings

STEP = BrokerSettings().step_count_max
COUNT = 6 * STEP


def subscribed(node):
    """A client with very many subscriptions to one topic."""
    client = node.connect(
        b"".join(b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % each for each in range(COUNT))
    )
    node.turns_until(lambda: len(node.broker.topic("t").subscriptions) == COUNT)
    return client


def test_a_message_for_many_goes_out_in_slices(hasty) -> None:
    """
    100,000 subscriptions held the loop for 260 ms; now no turn does more than a step of them.
    """
    many = subscribed(hasty)
    publisher = hasty.connect(b"SEND\ndestination:/topic/t\nreceipt:p\n\nx\0")
    seen = [0]
    while seen[-1] < COUNT:
        hasty.turn()
        seen.append(many.transport.written.count(b"MESSAGE"))
        assert len(hasty.broker.publishing.deliveries) <= STEP
        # Else a leader that is deposed now has confirmed what most of them never see.
        is_handed_out = not hasty.broker.publishing.spreads
        assert is_handed_out or b"receipt-id:p" not in publisher.transport.written
    assert max(after - before for before, after in itertools.pairwise(seen)) <= STEP
    hasty.turns_until(lambda: b"receipt-id:p" in publisher.transport.written)
    assert not hasty.broker.publishing


def test_a_message_for_many_that_do_not_read_waits_for_them_in_slices(hasty) -> None:
    """
    Nothing is delivered, and yet the time is looked at.
    """
    many = subscribed(hasty)
    many.session.room_bytes = 0
    subscriptions = list(many.session.subscriptions.values())
    hasty.connect(b"SEND\ndestination:/topic/t\n\nx\0")
    many.session.room_bytes = 0
    seen = [0]
    while seen[-1] < COUNT:
        hasty.turn()
        many.session.room_bytes = 0
        seen.append(sum(bool(each.pending) for each in subscriptions))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= STEP


def test_everybody_else_is_served_meanwhile(hasty, send) -> None:
    """
    Queues have their deliveries and receipts while a topic's message is on its way.
    """
    many = subscribed(hasty)
    consumer = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    honest = hasty.connect()
    hasty.connect(b"SEND\ndestination:/topic/t\n\nx\0" * 20)
    honest.data_received(send(b"hello", b"r"))
    hasty.turns_until(
        lambda: (
            b"receipt-id:r" in honest.transport.written and b"hello" in consumer.transport.written
        ),
        count_max=8,
    )
    assert many.transport.written.count(b"MESSAGE") < COUNT


def test_its_publisher_goes_on_when_it_is_out(hasty) -> None:
    """
    Else more would come in than goes out: at any time one message of each publisher is on its way.
    """
    many = subscribed(hasty)
    publisher = hasty.connect(
        b"SEND\ndestination:/topic/t\n\nx\0" * 5 + b"SEND\ndestination:/queue/q\nreceipt:l\n\n\0"
    )
    while b"receipt-id:l" not in publisher.transport.written:
        assert len(hasty.broker.publishing.spreads) <= 1
        hasty.turn()
    hasty.turns_until(lambda: many.transport.written.count(b"MESSAGE") == 5 * COUNT)


def test_many_queues_with_nothing_to_give_are_looked_at_in_slices(hasty, send) -> None:
    """
    A hundred thousand that were just filled, and that nobody consumes from, took 10 ms.
    """
    frames = [send(b"x", b"%d" % each).replace(b"/q\n", b"/q%d\n" % each) for each in range(COUNT)]
    hasty.connect(b"".join(frames))
    hasty.turns_until(lambda: hasty.broker.state.live_count() == COUNT)
    leadership = hasty.broker.destinations.leadership
    for queue in leadership.by_name.values():
        queue.touch()
    seen = [len(leadership.touched)]
    while seen[-1]:
        hasty.turn()
        seen.append(len(leadership.touched))
    assert max(before - after for before, after in itertools.pairwise(seen)) <= STEP


def test_what_is_published_is_confirmed_when_most_of_it_is_out(hasty) -> None:
    """
    The lease may end before the rest goes: nobody is to count on what then dies with this leader.
    """
    count = 2 * STEP
    listener = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/topic/t\n\n\0")
    publisher = hasty.connect()
    hasty.store.has_lease = False
    publish = b"SEND\ndestination:/topic/t\n\nx\0"
    publisher.data_received(publish * count)
    hasty.turns_until(lambda: len(hasty.broker.publishing.deliveries) == count)
    hasty.store.has_lease = True
    hasty.conductor.context.is_lease_over = False
    publisher.session.receive(b"SEND\ndestination:/topic/t\nreceipt:p\n\nlast\0")
    assert b"RECEIPT" not in b"".join(publisher.session.out)
    hasty.turns_until(lambda: b"receipt-id:p" in publisher.transport.written)
    assert listener.transport.written.count(b"MESSAGE") >= count + 1 - STEP
