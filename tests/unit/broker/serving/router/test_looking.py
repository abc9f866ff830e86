"""
Each message is looked at once: when it is in memory, or as soon as it is read; and a class that is
new finds what was there before it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router.examiner import Examiner
from holdfast.broker.serving.router.looking import Looking
from holdfast.broker.serving.router.sifting import Sifting
from holdfast.model.records import MessageRecord
from tests.unit.broker.serving.router.wishes import Wish, subscribe


def send(desk, *bodies: str) -> None:
    for body in bodies:
        desk.send(body.encode())
    desk.turn()


def sifting(desk) -> Sifting:
    found = desk.queue().sifting
    assert isinstance(found, Sifting)
    return found


def test_each_message_is_looked_at_once(desk, new_client) -> None:
    """However often consumers have room again: it is parked, or left over."""
    wish = Wish("a", is_found_by_word=False)
    client, other = new_client(), new_client()
    subscribe(desk, client, "b", prefetch=1)
    consumer = subscribe(desk, other, wish, prefetch=1)
    send(desk, *"abababab")
    for key in (1, 3, 5, 7):
        desk.broker.acknowledge(consumer, key, other, None)
        desk.turn()
    assert other.keys == [1, 3, 5, 7]
    assert client.keys == [2]
    assert wish.asked_count == 8
    assert sifting(desk).kept.parked.count == 3


def test_ten_thousand_selectors_cost_a_message_what_one_does(desk, new_client) -> None:
    """Q19: those that ask for a word under a name are found by it."""
    wishes = [Wish(f"reply{number}") for number in range(1_000)]
    client = new_client()
    for wish in wishes:
        subscribe(desk, client, wish)
    send(desk, "reply7", "reply999", "reply1000")
    assert client.keys == [1, 2]
    assert [wish.asked_count for wish in wishes if wish.asked_count] == [1, 1]


def test_an_answer_that_was_there_before_is_found_without_looking(desk, new_client) -> None:
    """Nothing else is looked at again for whoever comes for it."""
    client = new_client()
    subscribe(desk, client, "nothing")
    send(desk, *[f"reply{number}" for number in range(500)])
    wish = Wish("reply123")
    subscribe(desk, client, wish)
    desk.turn()
    assert client.keys == [124]
    assert wish.asked_count == 1


def test_who_comes_later_looks_through_what_was_there(desk, new_client) -> None:
    """Q20: in order, as far as there is room for what is found, beside what comes new."""
    first, late = new_client(), new_client()
    subscribe(desk, first, "a")
    send(desk, *"abcabc")
    wish = Wish("b", is_found_by_word=False)
    consumer = subscribe(desk, late, wish, prefetch=1)
    sifting = desk.queue().sifting
    assert sifting.unlooked_count == 6
    desk.turn()
    assert (late.keys, wish.asked_count, sifting.unlooked_count) == ([2], 3, 0)
    send(desk, "b", "a")
    assert (late.keys, first.keys) == ([2], [1, 4, 8])
    for key in (2, 5):
        desk.broker.acknowledge(consumer, key, late, None)
        desk.turn()
    assert (late.keys, sifting.unlooked_count) == ([2, 5, 7], 0)


def test_what_is_not_in_memory_is_asked_for(desk, new_client) -> None:
    """One at a time, in the name of somebody who never gets it."""
    send(desk, *"ab")
    queue = desk.queue()
    queue.leadership.flow.forget(queue.cache, [1, 2])
    client = new_client()
    subscribe(desk, client, "b")
    asked = []
    for step in desk.broker.dispatch():
        for consumer, key, message, number, _ in step:
            if isinstance(consumer, Examiner):
                assert message is None
                asked.append(key)
                consumer.examine(key, desk.read(number))
            else:
                client.deliveries.append((key, False))
    assert (asked, client.keys) == ([1, 2], [2])


@pytest.fixture
def order(desk) -> Looking:
    """An order of a queue with two messages, a and b."""
    for body in (b"a", b"b"):
        desk.send(body)
    desk.turn()
    order = Looking(desk.queue(), Plain(desk.queue()))
    order._reads = Wish("a")
    order._turns.left = 10
    return order


def forget(desk) -> None:
    queue = desk.queue()
    queue.leadership.flow.forget(queue.cache, [1, 2])


def record_of(desk, key: int) -> MessageRecord:
    return desk.read(desk.queue().index.record_number(key))


def values(order: Looking) -> object:
    assert order._look is not None
    return order._look.values


def test_what_is_in_memory_is_read_at_once(desk, order) -> None:
    """Also what is there only; and it takes of what may be done in the step."""
    order._begin(1)
    assert values(order) == {"word": "a", "deliveries": 0}
    desk.broker.send_transient(desk.queue(), b"", b"c", None)
    (key,) = desk.queue().transients
    assert isinstance(desk.queue().transients[key], TransientMessage)
    order._begin(key)
    assert values(order) == {"word": "c", "deliveries": 0}
    assert order._turns.left == 8


def test_what_is_not_is_read_when_it_comes(desk, order) -> None:
    """What comes of another message, or again, changes nothing."""
    forget(desk)
    order._begin(2)
    assert values(order) is None
    order.examined(1, record_of(desk, 1))
    assert values(order) is None
    order.examined(2, record_of(desk, 2))
    assert values(order) == {"word": "b", "deliveries": 0}
    order.examined(2, record_of(desk, 1))
    assert values(order) == {"word": "b", "deliveries": 0}


def test_a_mistake_made_meanwhile_is_kept_for_who_asks_next(desk, order, monkeypatch) -> None:
    """Whoever conducts has read it, and is not to fail of it."""
    forget(desk)
    order._begin(1)
    fault = ValueError("no such thing")

    def fails(*_arguments: object) -> None:
        raise fault

    monkeypatch.setattr(order._reads, "values_of", fails)
    order.examined(1, record_of(desk, 1))
    assert order._failure is fault


def test_what_has_ended_is_not_there(desk, order) -> None:
    """Neither of those that are stored nor of the others."""
    assert order._is_there(1)
    assert not order._is_there(-1)
    desk.queue().index.remove([1])
    assert not order._is_there(1)
