"""
Who gets the next message.
"""

from __future__ import annotations

from itertools import chain

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.queue import Queue
from holdfast.broker.settings import BrokerSettings

STEP = BrokerSettings().step_count_max


def test_competing_consumers_take_turns(desk, new_client) -> None:
    """
    One message to each, round and round.
    """
    clients = [new_client() for _ in range(3)]
    for client in clients:
        desk.subscribe(client=client)
    for number in range(7):
        desk.send(b"%d" % number)
    desk.turn()
    assert [client.keys for client in clients] == [[1, 4, 7], [2, 5], [3, 6]]


def test_a_full_consumer_is_skipped(desk, new_client) -> None:
    """
    A slow one holds nobody up, and never has more than its prefetch.
    """
    slow, quick = new_client(), new_client()
    first = desk.subscribe(client=slow, prefetch=2)
    desk.subscribe(client=quick)
    for number in range(10):
        desk.send(b"%d" % number)
    desk.turn()
    assert slow.keys == [1, 3]
    assert quick.keys == [2, 4, 5, 6, 7, 8, 9, 10]
    assert not first.is_ready
    desk.send(b"more")
    desk.broker.acknowledge(first, 1, slow, None)
    desk.broker.acknowledge(first, 3, slow, None)
    desk.turn()
    assert quick.keys[-1] == 11 or slow.keys[-1] == 11
    assert first.is_ready


def test_a_consumer_whose_socket_is_behind_gets_nothing(desk, new_client) -> None:
    """
    Room in bytes counts down by what is delivered, and comes back when the socket has taken it.
    """
    client = new_client()
    client.room_bytes = 10
    desk.subscribe(client=client)
    for _ in range(4):
        desk.send(b"x" * 6)
    desk.turn()
    assert client.keys == [1, 2]
    client.room_bytes = 10
    desk.broker.resume(client)
    desk.turn()
    assert client.keys == [1, 2, 3, 4]


def test_messages_not_in_memory_come_with_their_place(desk, new_client) -> None:
    """
    Then the content is read from the log by record number.
    """
    desk.send(b"x")
    desk.turn()
    desk.fail_over()
    desk.queue().leadership.flow.forget(desk.queue().cache, [1])
    desk.subscribe(client=new_client())
    ((_, key, message, record_number, flagged),) = chain.from_iterable(desk.broker.dispatch())
    assert (key, message, record_number, flagged) == (1, None, 2, 2)


def test_only_a_subscription_with_room_becomes_ready(desk, new_client) -> None:
    """
    Once, and not after it is closed.
    """
    subscription = desk.subscribe(prefetch=1)
    queue = desk.queue()
    assert not queue.choice.make_ready(subscription)
    desk.broker.unsubscribe(subscription)
    assert not queue.choice.make_ready(subscription)


def test_auto_is_bounded_by_the_socket_alone(desk, new_client) -> None:
    """
    Nothing is unacknowledged, so prefetch never fills.
    """
    client = new_client()
    desk.subscribe(client=client, mode=AcknowledgeMode.AUTO, prefetch=1)
    for _ in range(5):
        desk.send(b"x")
    desk.turn()
    assert client.keys == [1, 2, 3, 4, 5]
    assert desk.state.live_count() == 0


def test_a_queue_that_nobody_consumes_from_is_not_looked_at(desk, new_client) -> None:
    """
    Its first consumer finds everything; until then each turn would look in vain.
    """
    desk.send(b"x")
    desk.turn()
    assert not desk.broker.destinations.leadership.touched
    client = new_client()
    desk.subscribe(client=client)
    desk.turn()
    assert client.keys == [1]


def test_a_step_is_short_and_ends_with_what_must_be_read(desk, new_client) -> None:
    """
    The loop looks at the clock between two steps; to read one message may take as long as many.
    """
    for _ in range(2 * STEP + 2):
        desk.send(b"x")
    desk.turn()
    desk.queue().leadership.flow.forget(desk.queue().cache, [3])
    desk.subscribe(client=new_client(), prefetch=10_000)
    steps = [[key for _, key, *_ in step] for step in desk.broker.dispatch()]
    assert [len(step) for step in steps] == [3, STEP, STEP - 1]
    assert list(chain.from_iterable(steps)) == list(range(1, 2 * STEP + 3))


def test_what_is_built_anew_between_two_steps_goes_on_anew(desk, new_client) -> None:
    """
    A session that breaks at a delivery costs its queue's half: the old one assigns nothing more.
    """
    for _ in range(2 * STEP):
        desk.send(b"x")
    desk.turn()
    broken = desk.subscribe(client=new_client(), prefetch=10_000)
    queue = desk.queue()
    steps = desk.broker.dispatch()
    next(steps)
    desk.broker.renew(queue, set())
    desk.subscribe(prefetch=1)
    assert [key for step in steps for _, key, *_ in step] == [1]
    assert not broken.unacknowledged


def dispatch_and_measure(broker, length) -> tuple[list[int], int]:
    """Go through the dispatch; gives the keys that went out, and by how much `length` shrank."""
    keys, most, before = [], 0, length()
    for step in broker.dispatch():
        keys += [delivery[1] for delivery in step]
        most, before = max(most, before - length()), length()
    return keys, most


def test_what_nobody_can_have_is_gone_past_in_steps(desk) -> None:
    """
    A transaction may settle a hundred thousand messages by their ids, given back or offered again:
    to go past all of them at once would keep the loop for a third of a second.
    """
    count = 10 * STEP
    queue = filled(desk, count + 1)
    queue.choice.cursor = count // 2 + 1
    queue.give_back([*range(1, count // 2 + 1)], redelivered=True)
    for key in range(1, count + 1):
        queue.custody.reserve(key)
    desk.subscribe()
    left = lambda: len(queue.choice.returned) + count + 1 - queue.choice.cursor  # noqa: E731 - a length
    keys, most = dispatch_and_measure(desk.broker, left)
    assert keys == [count + 1]
    assert 0 < most <= STEP + 2


def test_what_is_gone_is_passed_over_in_steps(desk) -> None:
    """
    What was given back and settled since stands in the line until somebody comes by.
    """
    count = 10 * STEP
    queue = filled(desk, count + 1)
    queue.choice.cursor = count + 1
    queue.give_back([*range(1, count + 1)], redelivered=True)
    queue.index.remove(range(1, count + 1))
    desk.subscribe()
    keys, most = dispatch_and_measure(desk.broker, lambda: len(queue.choice.returned))
    assert keys == [count + 1]
    assert 0 < most <= STEP


def filled(desk, count: int) -> Queue:
    for _ in range(count):
        desk.send(b"x")
    desk.turn()
    return desk.queue("orders")


def test_large_messages_count_for_several_in_a_step(desk, new_client) -> None:
    """
    The headers of 64 messages, 250 KiB each, were written for old clients in one turn of seconds.
    """
    for _ in range(3):
        desk.send(b"x" * 250_000)
    for _ in range(STEP):
        desk.send(b"x")
    desk.turn()
    desk.subscribe(client=new_client())
    assert [len(step) for step in desk.broker.dispatch()] == [2, 3, STEP - 2]
