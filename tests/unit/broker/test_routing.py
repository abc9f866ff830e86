"""
Consumers get what is on queues, up to the mark that was asked for ahead of it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import DispatchMarkRecord


@pytest.fixture
def short(new_desk):
    """A desk whose marks run only four ahead."""
    return new_desk(BrokerSettings(dispatch_mark_step_min=4, dispatch_mark_step_max=16))


def test_a_backlog_is_drained_in_growing_steps(short, new_client) -> None:
    """
    Nothing goes out above the committed mark; steps double so that marks stay rare.
    """
    for _ in range(100):
        short.send(b"x")
    client = new_client()
    short.subscribe(client=client, prefetch=1000)
    queue = short.queue()
    marks = 0
    while len(client.keys) < 100:
        short.dispatch()
        assert all(key <= queue.lasting.dispatch_mark for key in client.keys)
        marks += sum(isinstance(r, DispatchMarkRecord) for r in short.broker.receipts.batch.records)
        short.seal()
        short.commit()
    assert client.keys == list(range(1, 101))
    assert marks < 15


def test_a_live_stream_asks_for_its_mark_ahead(short, new_client) -> None:
    """
    While somebody consumes, sending advances the mark before dispatch comes to it.
    """
    client = new_client()
    short.subscribe(client=client, mode=AcknowledgeMode.AUTO)
    for number in range(1, 50):
        short.send(b"x")
        short.seal()
        short.commit()
        short.dispatch()
        assert client.keys[-1] == number
    queue = short.queue()
    assert queue.lasting.dispatch_mark - 49 <= 8


def test_the_mark_goes_on_after_a_failover(short, new_client) -> None:
    """
    With the cursor at the mark a new leader asks for more, and flags what is below.
    """
    for _ in range(30):
        short.send(b"x")
    short.subscribe(client=new_client(), prefetch=10)
    short.turn()
    for _ in range(3):
        short.fail_over()
        client = new_client()
        short.subscribe(client=client, prefetch=1000)
        mark = short.queue().flag_through
        short.turn()
        assert client.deliveries == [(key, key <= mark) for key in range(1, 31)]


def test_what_has_the_name_of_a_deleted_queue_is_given(desk) -> None:
    """
    A record for the deleted one would be lost; a topic that nobody uses any more is fine as it is.
    """
    routing = desk.broker.routing
    deleted, topic = desk.queue(), desk.broker.topic("news")
    assert routing.current_of(deleted) is deleted
    desk.turn()
    desk.broker.delete("orders", desk.client, b"d")
    topic.delete()
    again = routing.current_of(deleted)
    assert (again.name, again.is_deleted) == ("orders", False)
    assert routing.current_of(topic) is desk.broker.destinations.topics["news"]


def test_who_consumes_is_counted(desk) -> None:
    """
    With what it takes of the memory for subscriptions, until it leaves.
    """
    flow = desk.broker.flow
    subscription = desk.subscribe()
    assert (flow.subscription_count, flow.subscription_bytes) == (1, subscription.cost_bytes)
    desk.broker.unsubscribe(subscription)
    assert (flow.subscription_count, flow.subscription_bytes) == (0, 0)


def test_a_turn_that_ends_between_two_queues_forgets_none(new_desk) -> None:
    """
    Whoever dispatches may stop after any step, also after one that only tells that time has passed.
    """
    desk = new_desk(BrokerSettings(step_count_max=1))
    consumers = [desk.subscribe(name) for name in ("a", "b", "c")]
    desk.turn()
    for name in ("a", "b", "c"):
        desk.send(b"x", name)
    desk.seal()
    desk.commit()
    given = []
    while desk.broker.has_to_dispatch:
        steps = desk.broker.dispatch()
        given += [key for _, key, *_ in next(steps, [])]
        steps.close()
        desk.seal()
        desk.commit()
    assert given == [1, 1, 1]
    assert [len(each.unacknowledged) for each in consumers] == [1, 1, 1]
