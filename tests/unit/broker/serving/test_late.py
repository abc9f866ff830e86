"""
Late acknowledgements count for what may have been delivered before and is nobody's now.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving import late
from holdfast.broker.serving.comebacks import Coming
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.late import find_late, last_holder
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import UnknownDeliveryError
from tests.unit.broker.served import leadership_with


@pytest.fixture
def leadership() -> Leadership:
    return leadership_with()


@pytest.fixture
def state(leadership: Leadership) -> BrokerState:
    """Queue 1 holds 1 to 6; a former leader may have delivered up to 4; 1 to 3 went out again."""
    state = BrokerState(BrokerSettings())
    lasting = state.queues[1] = LastingQueue(1, "q")
    for sequence in range(1, 7):
        lasting.index.put(sequence, sequence, 1)
    lasting.next_sequence = 7
    lasting.dispatch_mark = 4
    queue = leadership.serve(lasting)
    queue.choice.cursor = 4
    holder = Subscription(None, "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=9)  # type: ignore[arg-type]
    holder.unacknowledged = {1: None}
    queue.subscriptions[holder] = None
    queue.transients[-1] = TransientMessage(-1, b"", b"", 6)
    state.next_queue_number = 3
    return state


def given_back(queue: Queue) -> None:
    queue.give_back([2], redelivered=True)


def reserved(queue: Queue) -> None:
    queue.custody.reserve(4)


def purged(queue: Queue) -> None:
    queue.purging_through = 6


def its_holder_goes(queue: Queue) -> None:
    (holder,) = queue.subscriptions
    queue.close_subscription(holder)
    next(queue.take_back(holder, 0))  # It holds more than is given back in one step.


def nothing(_queue: Queue) -> None:
    pass


@pytest.mark.parametrize(
    ("queue_number", "key", "prepare", "outcome"),
    [
        (1, 4, nothing, "taken"),
        (1, 1, its_holder_goes, "taken"),
        (1, 2, given_back, "taken"),
        (1, 3, nothing, "settled"),  # It went out, and nobody has it: its end is on its way.
        (1, 6, purged, "settled"),
        (2, 1, nothing, "settled"),  # Deleted.
        (1, 1, nothing, "somebody else"),
        (1, 4, reserved, "in a transaction that is not finished"),
        (1, 5, nothing, "not delivered"),  # Above what the former leader may have delivered.
        (1, 7, nothing, "not delivered"),
        (1, 0, nothing, "not delivered"),
        (1, -1, nothing, "not delivered"),
        (1, -9, nothing, "not delivered"),
        (0, 1, nothing, "not delivered"),
        (3, 1, nothing, "not delivered"),
    ],
)
def test_what_a_late_word_counts_for(
    state, leadership, queue_number, key, prepare, outcome
) -> None:
    """
    Taken, settled already, or refused with the reason.
    """
    queue = leadership.by_name["q"]
    prepare(queue)
    if outcome in {"taken", "settled"}:
        found = find_late(state, leadership, queue_number, key)
        assert found is (queue if outcome == "taken" else None)
    else:
        with pytest.raises(UnknownDeliveryError, match=outcome):
            find_late(state, leadership, queue_number, key)


def test_of_very_many_subscriptions_none_is_asked(desk, monkeypatch) -> None:
    """
    200,000 held the loop for 15 ms, for each late word; what is settled is known anyway.
    """
    monkeypatch.setattr(late, "_LOOKED_AT_MAX", 1)
    desk.send(b"one")
    desk.send(b"two")
    desk.turn()
    holder = desk.subscribe()
    desk.subscribe()
    desk.turn()
    with pytest.raises(UnknownDeliveryError, match="somebody else"):
        desk.broker.acknowledge_identity(1, 1, desk.client, None)
    desk.broker.acknowledge(holder, 1, desk.client, None)
    for subscription in desk.queue().subscriptions:
        subscription.unacknowledged = None
    desk.broker.acknowledge_identity(1, 1, desk.client, b"settled")
    desk.turn()
    assert desk.client.replies == [b"settled"]


def test_who_gave_a_message_back_last_is_known_where_he_can_be_known_again(
    state: BrokerState, leadership: Leadership
) -> None:
    """While it is just coming back, too; of what somebody has, and of what is gone, nothing is."""
    queue = late.served(state, leadership, 1)
    assert queue is not None
    (holder,) = queue.subscriptions
    holder.client = "client-id c"
    queue.custody.had_by[2] = "client-id d"
    found = [last_holder(state, leadership, 1, key) for key in (1, 2, 3)]
    assert found == ["", "client-id d", ""]
    queue.custody.returning[holder] = None
    assert last_holder(state, leadership, 1, 1) == "client-id c"
    queue.custody.made_comebacks().under_way[2] = Coming("client-id e", is_awaited=True)
    assert last_holder(state, leadership, 1, 2) == "client-id e"
    assert last_holder(state, leadership, 9, 1) == ""
