"""
ABORT puts what was acknowledged back into delivery, in steps, whatever happens between two of them.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import UnknownDeliveryError

STEP = 4
KEYS = 3 * STEP + 1
LATER = 2 * STEP + 1
STEPS = 10


@pytest.fixture
def desk(new_desk):
    return new_desk(BrokerSettings(step_count_max=STEP))


def holding(desk):
    """A subscription that acknowledged so many in a transaction, and has so many more."""
    consumer = desk.subscribe(mode=AcknowledgeMode.CLIENT)
    for _ in range(KEYS + LATER):
        desk.send(b"x")
    desk.turn()
    transaction = desk.broker.begin("t")
    transaction.add_settlement(consumer, list(range(1, KEYS + 1)))
    return consumer, transaction


def test_the_window_is_as_it_was_and_no_step_is_long(desk) -> None:
    """
    With 100,000 before 65,535 it was one step of 9 to 20 ms.
    """
    consumer, transaction = holding(desk)
    reserved, sizes = [KEYS], [LATER]
    for _ in desk.broker.abort(transaction):
        reserved.append(len(desk.queue().custody.reserved))
        sizes.append(len(consumer.unacknowledged))
        assert reserved[-1] + sizes[-1] == KEYS + LATER
    assert max(before - after for before, after in pairwise(reserved)) == STEP
    assert max(after - before for before, after in pairwise(sizes)) == STEP
    assert len(reserved) > STEPS
    assert list(consumer.unacknowledged) == list(range(1, KEYS + LATER + 1))
    assert not desk.queue().custody.reserved
    desk.broker.acknowledge(consumer, KEYS, desk.client, b"done")
    desk.turn()
    assert desk.state.live_count() == LATER


def test_a_late_acknowledgement_by_somebody_else_is_refused_all_the_while(desk) -> None:
    """
    Each is reserved or in delivery: were one neither, it would count as settled.
    """
    _, transaction = holding(desk)
    for _ in desk.broker.abort(transaction):
        for key in range(1, KEYS + LATER + 1):
            with pytest.raises(UnknownDeliveryError):
                desk.broker.acknowledge_identity(1, key, desk.client, None)


@pytest.mark.parametrize("when", range(STEPS + 1))
def test_a_subscription_that_is_closed_between_two_steps_loses_nothing(desk, when: int) -> None:
    """
    Whatever is back, and whatever is not, goes to the next consumer once, and says so.
    """
    consumer, transaction = holding(desk)
    abort = desk.broker.abort(transaction)
    for _ in range(when):
        next(abort)
    desk.broker.unsubscribe(consumer)
    other = desk.subscribe()
    for _ in abort:
        desk.dispatch()
    desk.broker.errands.finish()
    desk.turn()
    assert sorted(other.receiver.deliveries) == [(key, True) for key in range(1, KEYS + LATER + 1)]
    assert not desk.queue().custody.reserved
    assert not desk.queue().is_held


def test_it_gets_nothing_meanwhile_and_others_do(desk) -> None:
    """
    What came between would stand in the wrong place; afterwards it is served as before.
    """
    consumer, transaction = holding(desk)
    before = len(consumer.receiver.deliveries)
    other = None
    for _ in desk.broker.abort(transaction):
        if other is None:
            other = desk.subscribe()
            for _ in range(3):
                desk.send(b"y")
            desk.turn()
            assert len(other.receiver.deliveries) == 3
        assert len(consumer.receiver.deliveries) == before
    desk.broker.unsubscribe(other)
    for _ in range(3):
        desk.send(b"z")
    desk.turn()
    assert len(consumer.receiver.deliveries) == before + 6
    assert list(consumer.unacknowledged)[: KEYS + LATER] == list(range(1, KEYS + LATER + 1))


def test_a_subscription_to_a_topic_is_as_it_was(desk) -> None:
    """
    What is published meanwhile waits for it.
    """
    consumer = desk.subscribe(mode=AcknowledgeMode.CLIENT)
    desk.broker.unsubscribe(consumer)
    consumer.queue, consumer.is_closed, consumer.prefetch = None, False, 100
    topic = desk.broker.topic("t")
    desk.broker.subscribe(consumer, topic)
    for _ in range(KEYS + LATER):
        desk.broker.publish(topic, b"", b"x")
    desk.turn()
    keys = list(consumer.unacknowledged)
    transaction = desk.broker.begin("t")
    transaction.add_settlement(consumer, keys[:KEYS])
    for _ in desk.broker.abort(transaction):
        if not consumer.pending:
            desk.broker.publish(topic, b"", b"y")
    desk.turn()
    assert list(consumer.unacknowledged)[: KEYS + LATER] == keys
    assert len(consumer.unacknowledged) > len(keys)
    assert not consumer.pending
