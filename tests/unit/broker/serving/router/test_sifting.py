"""
Each message goes to somebody who wants it, in order; what that costs does not grow with the queue.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import Claim
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.router.router import Router
from holdfast.broker.serving.router.sifting import Sifting
from holdfast.model.limits import CONSUMER_PRIORITY_MAX
from tests.unit.broker.serving.router.wishes import Wish, subscribe


def send(desk, *bodies: str) -> None:
    for body in bodies:
        desk.send(body.encode())
    desk.turn()


def sifting(desk) -> Sifting:
    found = desk.queue().sifting
    assert isinstance(found, Sifting)
    return found


def test_who_wants_a_message_gets_it_and_the_rest_stays(desk, new_client) -> None:
    """Q18: also one that stands behind any number that nobody wants."""
    send(desk, *["a"] * 1_500, "b")
    client = new_client()
    subscribe(desk, client, "b")
    desk.turn()
    assert client.keys == [1_501]
    assert len(sifting(desk).kept.left_over) == 1_500


def test_what_was_given_back_comes_first_and_is_looked_at_again(desk, new_client) -> None:
    """Q21: what it says of its deliveries has changed."""
    first, second = new_client(), new_client()
    holder = subscribe(desk, first, "a", prefetch=2)
    subscribe(desk, second, Wish("a", deliveries=2, is_found_by_word=False))
    send(desk, *"aaaa")
    assert (first.keys, second.keys) == ([1, 2], [])
    desk.broker.unsubscribe(holder)
    desk.broker.errands.finish()
    desk.turn()
    assert second.keys == [1, 2]
    third = new_client()
    subscribe(desk, third, "a")
    desk.turn()
    assert third.keys == [3, 4]


def test_the_highest_priority_comes_first_of_those_who_want_it(desk, new_client) -> None:
    """Others get what it does not want, and all once it has no room."""
    high, low = new_client(), new_client()
    subscribe(desk, low, None)
    subscribe(desk, high, "a", prefetch=1, claim=Claim(5))
    send(desk, *"baa")
    assert (high.keys, low.keys) == ([2], [1, 3])


def test_the_only_one_gets_what_it_wants_alone(desk, new_client) -> None:
    """What it does not want stays, though others want it."""
    sole, other = new_client(), new_client()
    subscribe(desk, other, None)
    subscribe(desk, sole, "a", claim=Claim(CONSUMER_PRIORITY_MAX, is_exclusive=True))
    send(desk, *"aba")
    assert (sole.keys, other.keys) == ([1, 3], [])


def test_a_queue_is_served_as_before_once_nobody_selects(desk, new_client) -> None:
    """M10: in the old order, with what was parked, left over, and in memory only."""
    picky, rest = new_client(), new_client()
    consumer = subscribe(desk, picky, "b", prefetch=1)
    send(desk, *"abc")
    desk.broker.send_transient(desk.queue(), b"", b"b")
    desk.broker.send_transient(desk.queue(), b"", b"d")
    send(desk, *"ba")
    assert isinstance(desk.queue().choice, Router)
    subscribe(desk, rest, None, prefetch=1)
    desk.broker.unsubscribe(consumer)
    desk.broker.errands.finish()
    desk.turn()
    (holder,) = rest.subscriptions.values()
    for _ in range(6):
        desk.broker.acknowledge(holder, rest.keys[-1], rest, None)
        desk.turn()
    assert rest.keys == [1, 2, 3, -1, -2, 4, 5]
    assert type(desk.queue().choice) is Plain
    assert desk.queue().sifting is None


def test_a_message_that_is_gone_is_not_parked_any_more(desk, new_client) -> None:
    """What is acknowledged late, moved, or purged: its place is free at once."""
    client = new_client()
    consumer = subscribe(desk, client, "a", prefetch=1)
    subscribe(desk, new_client(), "nothing")
    send(desk, *"aaab")
    kept = sifting(desk).kept
    assert (kept.parked.count, len(kept.left_over)) == (2, 1)
    assert desk.broker.moving.is_at_hand(desk.queue(), 2)
    desk.queue().gone([2, 4])
    assert (kept.parked.count, len(kept.left_over)) == (1, 0)
    desk.broker.purge("orders", client, b"r")
    desk.turn()
    assert not kept
    send(desk, "a")
    desk.broker.acknowledge(consumer, 1, client, None)
    desk.turn()
    assert client.keys[-1] == 5


def test_at_the_limit_nothing_more_is_looked_at(desk, new_client) -> None:
    """Until some of what is parked is taken; then it goes on, and nothing was lost."""
    client, other = new_client(), new_client()
    consumer = subscribe(desk, client, "a", prefetch=1)
    subscribe(desk, other, "b")
    sifting(desk).kept.parked.count_max = 3
    send(desk, *"aaaaab")
    subscribe(desk, new_client(), None)
    found = sifting(desk)
    assert (other.keys, found.is_full, found.parked_count, found.selector_count) == ([], True, 3, 2)
    desk.broker.unsubscribe([*desk.queue().subscriptions][-1])
    for key in (1, 2):
        desk.broker.acknowledge(consumer, key, client, None)
        desk.turn()
    assert other.keys == [6]


def test_what_is_known_by_words_is_let_go_of_with_the_last_who_asks(desk, new_client) -> None:
    """In steps, and it counts no more for other queues."""
    client = new_client()
    subscribe(desk, client, "b")
    send(desk, *"aaac")
    leadership = desk.queue().leadership
    assert leadership.known_count == 4
    other = new_client()
    subscribe(desk, other, None, prefetch=1)
    desk.broker.unsubscribe(client.subscriptions.pop("s0"))
    desk.turn()
    assert desk.queue().sifting is None
    assert leadership.known_count == 0
