"""
Damaged messages: nobody gets them, nothing loses them.
"""

from __future__ import annotations

import re
from functools import partial

import pytest

from holdfast.broker.lasting.seen_ranges import Seen
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.model.records import MessageRecord
from holdfast.server.settings import ServerSettings


def test_what_is_damaged_is_offered_again_when_it_may_be_whole(node, send, subscribe) -> None:
    """
    Not at once, and not by every tick: a peer needs time to mend it.
    """
    node.connect(send(b"first"))
    node.settle()
    node.broker.queue("q").leadership.flow.forget(node.broker.queue("q").cache, [1])
    node.store.damaged = {1}
    consumer = node.connect(subscribe)
    withheld = node.conductor.withheld
    assert len(withheld) == 1
    assert node.conductor.counters.damaged == 1
    node.store.damaged.clear()
    withheld.offer_again(node.clock.now - 1)
    node.turn()
    assert b"MESSAGE" not in consumer.transport.take()
    withheld.offer_again(node.clock.now)
    node.turn()
    assert not withheld
    assert b"\n\nfirst\0" in consumer.transport.take()


def test_damage_of_a_former_leadership_is_forgotten(node, send, subscribe) -> None:
    """
    A new leadership finds the message by its own cursor; offering it twice would deliver it twice.
    """
    node.connect(send(b"first"))
    node.settle()
    node.broker.queue("q").leadership.flow.forget(node.broker.queue("q").cache, [1])
    node.store.damaged = {1}
    node.connect(subscribe)
    node.settle()
    assert node.conductor.withheld
    node.store.is_serving = False
    node.turn()
    node.store.damaged.clear()
    node.store.is_serving = True
    node.turn()
    consumer = node.connect(subscribe)
    node.clock.now += 6
    node.conductor.tick()
    node.settle()
    assert consumer.transport.take().count(b"MESSAGE") == 1


def test_a_rejected_message_that_cannot_be_read_comes_again_once_it_can(
    node, send, subscribe
) -> None:
    """
    It has no way to the dead letters now. Its consumer is told and holds it no more: with whoever
    does not ask twice it would stay for as long as the connection does.
    """
    node.connect(send(b"first"))
    node.settle()
    consumer = node.connect(subscribe)
    name = re.search(rb"\nack:(.*)\n", consumer.transport.take())
    assert name is not None
    node.broker.queue("q").leadership.flow.forget(node.broker.queue("q").cache, [1])
    node.store.damaged = {1}
    consumer.data_received(b"NACK\nid:%b\nreceipt:1\n\n\0" % name[1])
    node.settle()
    written = consumer.transport.take()
    assert b"ERROR" in written
    assert b"receipt-id:1" in written
    assert len(node.conductor.withheld) == 1
    node.store.damaged.clear()
    node.conductor.withheld.offer_again(node.clock.now)
    node.turn()
    again = consumer.transport.take()
    assert b"redelivered:true" in again
    assert b"\n\nfirst\0" in again


SPOILT_COUNT = 1_500


@pytest.fixture
def spoilt(new_node, send, subscribe):
    """A node with a whole message behind many that were in damaged entries, all delivered."""
    node = new_node(BrokerSettings(memory_bytes=0), ServerSettings(slice_seconds=0.0))
    node.serve()
    begin, commit = b"BEGIN\ntransaction:t\n\n\0", b"COMMIT\ntransaction:t\n\n\0"
    frame = b"SEND\ndestination:/queue/q\npersistent:true\ntransaction:t\n\nspoilt\0"
    node.connect(begin + frame * SPOILT_COUNT + commit)
    node.turns_until(lambda: node.broker.state.live_count() == SPOILT_COUNT)
    node.store.damaged = set(range(1, len(node.store.entries) + 1))
    node.connect(send(b"whole"))
    node.turns_until(lambda: node.broker.state.live_count() > SPOILT_COUNT)
    node.tries = 0
    node.store.read = partial(_read, node, node.store.entries[-1])
    node.consumer = node.connect(subscribe.replace(b"\n\n", b"\nprefetch-count:10000\n\n"))
    node.turns_until(lambda: b"whole" in node.consumer.transport.written)
    return node


def _read(node, whole, number: int) -> MessageRecord:
    node.tries += 1
    if number < whole.first_record and node.store.damaged:
        raise CorruptEntryError("bad", index=1)
    return MessageRecord(1, number, b"", b"whole" if number >= whole.first_record else b"m", 5)


def test_damaged_messages_take_no_room_from_the_whole_ones_behind_them(spoilt) -> None:
    """
    A spoilt entry may hold thousands of messages. Each is read for a consumer that is then sent
    nothing of it, so whatever room it was given out must be there again for the rest.
    """
    assert SPOILT_COUNT * 1024 > 2 * spoilt.conductor.settings.output_bytes_max
    assert len(spoilt.conductor.withheld) == SPOILT_COUNT
    assert spoilt.consumer.transport.take().count(b"MESSAGE") == 1
    assert spoilt.consumer.session.room_bytes > 0


def test_a_damaged_entry_is_told_of_once(spoilt) -> None:
    """
    Not for each of its messages: whoever looks for the place in the log would not find it.
    """
    assert len(spoilt.damage) == 1
    assert spoilt.conductor.counters.damaged == SPOILT_COUNT


def test_nothing_of_a_damaged_entry_is_tried_again_before_it_is_whole(spoilt) -> None:
    """
    Whole messages would wait behind a hundred thousand that are tried in vain every few seconds.
    """
    tries = spoilt.tries
    for _ in range(100):
        spoilt.clock.now += 1
        spoilt.conductor.tick()
        spoilt.turn()
    assert spoilt.tries == tries
    assert len(spoilt.conductor.withheld) == SPOILT_COUNT


def test_what_is_whole_again_is_offered_in_steps(spoilt) -> None:
    """
    All at once it would keep the loop from everybody: 1.4 s for a hundred thousand.
    """
    spoilt.store.damaged.clear()
    spoilt.clock.now += 6
    spoilt.conductor.tick()
    withheld = spoilt.conductor.withheld
    step_count = spoilt.broker.settings.step_count_max
    most = 0
    while withheld:
        before = len(withheld)
        spoilt.turn()
        most = max(most, before - len(withheld))
    assert 0 < most <= 2 * step_count
    written = spoilt.consumer.transport.written
    spoilt.turns_until(lambda: spoilt.consumer.transport.written.count(b"MESSAGE") > SPOILT_COUNT)
    assert b"redelivered" not in written


def test_what_is_gone_meanwhile_is_not_kept(spoilt) -> None:
    """
    A purge removes withheld messages too, and the list of them must not outlive it.
    """
    spoilt.broker.purge("q", spoilt.consumer.session, b"purged")
    spoilt.turns_until(lambda: not spoilt.broker.state.live_count())
    spoilt.clock.now += 6
    spoilt.conductor.tick()
    spoilt.turns_until(lambda: not spoilt.conductor.withheld)


@pytest.fixture
def kept(node, send, subscribe):
    """A node that withholds its one message, which a client of an earlier leader had."""
    node.connect(send(b"first"))
    node.settle()
    queue = node.broker.queue("q")
    queue.leadership.flow.forget(queue.cache, [1])
    queue.flag_through, queue.flag_seen = 1, Seen(1, ())
    node.store.damaged = {1}
    node.consumer = node.connect(subscribe)
    node.settle()
    assert len(node.conductor.withheld) == 1
    return node


def offered(node) -> int:
    """Let everything be whole and be offered again; how many deliveries that makes."""
    node.store.damaged.clear()
    for _ in range(3):
        node.clock.now += 6
        node.conductor.tick()
        node.settle()
    assert not node.conductor.withheld
    return node.consumer.transport.take().count(b"MESSAGE")


def test_a_client_that_rolls_back_makes_nobody_note_a_message_twice(kept) -> None:
    """
    Each time it is tried in vain: it took memory without end, and two got it at once afterwards.
    """
    for _ in range(5):
        transaction = kept.broker.begin("t")
        kept.broker.hold_identity(transaction, 1, 1)
        for _ in kept.broker.abort(transaction):
            pass
        kept.clock.now += 1
        kept.settle()
    assert len(kept.conductor.withheld) == 1
    assert kept.conductor.counters.damaged == 1
    assert offered(kept) == 1


def test_what_was_acknowledged_late_is_not_offered_before_that_is_in_the_log(kept) -> None:
    """
    Its client was told that it is settled.
    """
    kept.broker.acknowledge_identity(1, 1, kept.consumer.session, None)
    assert offered(kept) == 0
    assert not kept.broker.state.live_count()


def test_what_somebody_got_from_a_queue_built_anew_is_not_offered_to_another(
    kept, subscribe
) -> None:
    """
    The queue knows of no damage any more, and its message was read.
    """
    kept.broker.renew(kept.broker.queue("q"), set())
    kept.store.damaged.clear()
    first = kept.connect(subscribe)
    second = kept.connect(subscribe)
    kept.settle()
    offered(kept)
    written = first.transport.take() + second.transport.take()
    assert written.count(b"MESSAGE") == 1


def test_who_looks_through_a_queue_gets_the_next_one(node, send, subscribe) -> None:
    """
    It holds nobody up, and keeps the damaged message from nobody: whoever is to get it finds out.
    """
    for body in (b"first", b"second"):
        node.connect(send(body))
        node.settle()
    queue = node.broker.queue("q")
    queue.leadership.flow.forget(queue.cache, [1])
    node.store.damaged = {1}
    browser = node.connect(subscribe.replace(b"\nid:", b"\nbrowser:true\nid:"))
    node.settle()
    written = browser.transport.take()
    assert b"\n\nsecond\0" in written
    assert written.count(b"MESSAGE") == 2
    assert b"\nbrowser:end\n" in written
    assert not node.conductor.withheld
    assert not queue.is_withheld(1)
    node.store.damaged.clear()
    node.connect(subscribe)
    node.settle()
    assert node.conductor.counters.damaged == 0


def test_a_damaged_message_is_looked_at_again_by_who_selects(node, send) -> None:
    """
    Nobody knows who wants it before it can be read; others behind it go on meanwhile.
    """
    for body in (b"first", b"second"):
        node.connect(send(body))
        node.settle()
    queue = node.broker.queue("q")
    queue.leadership.flow.forget(queue.cache, [1, 2])
    node.store.damaged = {1}
    consumer = node.connect(
        b"SUBSCRIBE\nid:1\ndestination:/queue/q\nselector:AMQSize > 0\n\n\0",
    )
    node.settle()
    withheld = node.conductor.withheld
    assert len(withheld) == 1
    written = consumer.transport.take()
    assert b"\n\nsecond\0" in written
    assert b"\n\nfirst\0" not in written
    node.store.damaged.clear()
    withheld.offer_again(node.clock.now)
    node.settle()
    assert b"\n\nfirst\0" in consumer.transport.take()
    # Nothing that was only looked at counts as delivered.
    assert node.conductor.counters.deliveries == 2
