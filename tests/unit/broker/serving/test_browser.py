"""
Looking through a queue takes nothing from it, and shows all that is on it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.browser import END_KEY
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription


@pytest.fixture
def browse(desk, new_client):
    def browse(prefetch: int = 100, mode=AcknowledgeMode.INDIVIDUAL, client=None):
        client = client or new_client()
        subscription = Subscription(client, "b", mode=mode, prefetch=prefetch)
        client.subscriptions["b"] = subscription
        desk.broker.browse(subscription, desk.queue())
        return subscription

    return browse


def keys(subscription) -> list[int]:
    return subscription.receiver.keys


def acknowledge(desk, subscription, key: int) -> None:
    desk.broker.acknowledge(subscription, key, subscription.receiver, None)
    desk.turn()


def test_all_that_is_there_is_shown_in_order_and_stays(desk, browse) -> None:
    """What is not stored too, at its place; then the end, once."""
    for _ in range(3):
        desk.broker.send_transient(desk.queue(), b"", b"in memory")
        desk.send(b"stored")
    desk.broker.send_transient(desk.queue(), b"", b"in memory")
    desk.turn()
    looking = browse()
    desk.send(b"later")
    desk.broker.send_transient(desk.queue(), b"", b"later")
    desk.turn()
    assert keys(looking) == [-1, 1, -2, 2, -3, 3, -4, END_KEY]
    taking = desk.subscribe()
    desk.turn()
    assert keys(taking) == [-1, 1, -2, 2, -3, 3, -4, 4, -5]
    assert not any(flagged for _, flagged in taking.receiver.deliveries)
    assert desk.state.live_count() == 4


def test_no_more_is_shown_than_there_is_room_for(desk, browse) -> None:
    """To acknowledge makes room and settles nothing, also in a transaction."""
    for _ in range(4):
        desk.send(b"x")
    desk.turn()
    looking = browse(prefetch=2)
    desk.turn()
    assert keys(looking) == [1, 2]
    acknowledge(desk, looking, 1)
    assert keys(looking) == [1, 2, 3]
    transaction = desk.broker.begin("t")
    transaction.add_settlement(looking, [2, 3])
    desk.broker.refill(looking)
    desk.turn()
    assert keys(looking) == [1, 2, 3, 4, END_KEY]
    desk.broker.commit(transaction, looking.receiver, b"c")
    desk.broker.errands.finish()
    acknowledge(desk, looking, 4)
    acknowledge(desk, looking, END_KEY)
    assert keys(looking) == [1, 2, 3, 4, END_KEY]
    assert desk.state.live_count() == 4


def test_what_is_in_delivery_is_shown_and_what_is_gone_is_not(desk, browse) -> None:
    """Whoever has it goes on having it."""
    for _ in range(6):
        desk.send(b"x")
    desk.turn()
    taking = desk.subscribe(prefetch=4)
    desk.turn()
    looking = browse(prefetch=1)
    desk.turn()
    acknowledge(desk, taking, 3)
    for key in (1, 2, 4):
        acknowledge(desk, looking, key)
    assert keys(looking) == [1, 2, 4, 5]
    assert list(taking.unacknowledged) == [1, 2, 4, 5]
    desk.broker.purge("orders", desk.client, b"p")
    acknowledge(desk, looking, 5)
    assert keys(looking) == [1, 2, 4, 5, END_KEY]


def test_what_came_back_says_so(desk, browse) -> None:
    """To look at it does not count."""
    desk.broker.state.format_level = 4
    desk.send(b"x")
    desk.send(b"x")
    desk.turn()
    taking = desk.subscribe(prefetch=1)
    desk.turn()
    desk.broker.unsubscribe(taking)
    desk.turn()
    for _ in range(2):
        looking = browse()
        desk.turn()
        assert looking.receiver.counts == [(1, 2), (2, 0), (END_KEY, 0)]


def test_who_leaves_is_shown_nothing_more(desk, browse) -> None:
    """And a queue may be deleted while somebody looks through it."""
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    leaving, staying = browse(prefetch=1), browse(prefetch=1)
    counted = desk.broker.flow.subscription_count
    desk.broker.unsubscribe(leaving)
    desk.turn()
    assert (keys(leaving), keys(staying)) == ([], [1])
    assert desk.broker.flow.subscription_count == counted - 1
    desk.broker.delete("orders", desk.client, b"d")
    acknowledge(desk, staying, 1)
    assert keys(staying) == [1, END_KEY]


def test_many_messages_are_shown_in_steps_while_others_are_served(desk, browse, new_client) -> None:
    """Q57: beside a consumer of the same queue, and other browsers, each in its turn."""
    for _ in range(200):
        desk.send(b"x")
    desk.turn()
    for _ in range(600):
        desk.broker.send_transient(desk.queue(), b"", b"in memory")
    looking = [browse(prefetch=1_000, mode=AcknowledgeMode.AUTO) for _ in range(2)]
    desk.subscribe(prefetch=1_000, client=new_client())
    steps = [len(step) for step in desk.broker.dispatch()]
    assert max(steps) <= 64
    assert sum(steps) == 2 * 801 + 800
    assert all(browsing.browser.is_over for browsing in looking)


def test_damaged_messages_are_left_out(desk, browse) -> None:
    """They are read again when somebody is to get them."""
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    desk.queue().custody.spoil(2)
    looking = browse()
    desk.turn()
    assert keys(looking) == [1, 3, END_KEY]


def test_large_messages_count_for_several(desk, browse) -> None:
    """A step is short, whatever it shows; what must be read is the last of one."""
    for _ in range(4):
        desk.send(b"x" * (40 << 12))
    desk.turn()
    browse(mode=AcknowledgeMode.AUTO)
    assert [len(step) for step in desk.broker.dispatch()] == [2, 2, 1]
    desk.fail_over()
    browse(mode=AcknowledgeMode.AUTO)
    assert [len(step) for step in desk.broker.dispatch()] == [1, 1, 1, 1, 1]


def test_a_mistake_ends_it_and_is_told(desk, browse, monkeypatch) -> None:
    """Of us: the queue is built anew, and nobody is shown the same for ever."""
    desk.send(b"x")
    desk.turn()
    looking = browse()
    monkeypatch.setattr(type(looking.browser), "next_key", lambda _browser: 1 // 0)
    desk.dispatch()
    ((queue, error),) = desk.broker.broken
    assert (queue, type(error)) == (desk.queue(), ZeroDivisionError)
    assert not desk.broker.destinations.leadership.browsing
