"""
What waits to be said of single messages keeps its order and has a bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.broker.untold import BATCHES_BYTES_MAX, Untold, UntoldMessages

CONSUMED, DEAD = ("MessageConsumed",), ("Expired", "MessageDLQd")


def taken(untold: UntoldMessages) -> list[tuple[object, ...]]:
    return [each for each in untold.taken() if each is not None]


def test_they_come_in_the_order_in_which_it_happened(desk) -> None:
    """
    Whether those that are alike came one after the other or not.
    """
    orders, stock = desk.broker.queue("orders"), desk.broker.queue("stock")
    untold = UntoldMessages(100, 10)
    for kinds, place, keys in (
        *((CONSUMED, orders, [1, 2]), (CONSUMED, orders, [3]), (CONSUMED, stock, [4])),
        *((DEAD, stock, [5]), (CONSUMED, orders, [6])),
    ):
        assert untold.add(kinds, place, keys) == 0
    assert untold.count == 6
    assert taken(untold) == [
        *((CONSUMED, orders, key, ()) for key in (1, 2, 3)),
        *((CONSUMED, stock, 4, ()), (DEAD, stock, 5, ()), (CONSUMED, orders, 6, ())),
    ]
    assert untold.count == 0


def test_what_is_too_much_is_told_to_who_adds_it(desk) -> None:
    """
    The first of them have room; those behind are missed.
    """
    orders = desk.broker.queue("orders")
    untold = UntoldMessages(3, 10)
    assert untold.add(CONSUMED, orders, [1, 2, 3, 4, 5]) == 2
    assert untold.add(CONSUMED, orders, [6]) == 1
    taking = untold.taken()
    next(taking)
    assert untold.add(CONSUMED, orders, [7, 8]) == 1
    assert [each.key for each in taking if each is not None] == [2, 3, 7]
    untold.add(CONSUMED, orders, [9])
    untold.clear()
    assert (untold.count, taken(untold)) == (0, [])


def test_those_of_a_batch_are_looked_for_in_their_turn(desk) -> None:
    """
    What the records take that are kept for it has a bound, but for a batch alone.
    """
    orders = desk.broker.queue("orders")
    untold = UntoldMessages(10, 10)
    batch = [Untold(CONSUMED, orders, 2, ()), None, Untold(CONSUMED, orders, 3, ())]
    untold.add(CONSUMED, orders, [1])
    assert untold.add_batch(iter(batch), 3, 2 * BATCHES_BYTES_MAX) == 0
    assert untold.add_batch(iter(batch), 3, 1) == 3
    assert untold.add_batch(iter(()), 7, 0) == 7
    untold.add(CONSUMED, orders, [4])
    assert untold.count == 5
    assert [key for _, _, key, _ in taken(untold)] == [1, 2, 3, 4]
    assert untold.count == 0
    assert untold.add_batch(iter(batch), 3, 1) == 0


def test_more_of_the_last_may_come_while_it_is_told_of(desk) -> None:
    """
    Nothing is forgotten that is added as the last of them was just taken.
    """
    orders = desk.broker.queue("orders")
    untold = UntoldMessages(10, 10)
    untold.add(CONSUMED, orders, [1])
    taking = untold.taken()
    assert next(taking) == (CONSUMED, orders, 1, ())
    untold.add(CONSUMED, orders, [2])
    assert [*taking] == [(CONSUMED, orders, 2, ())]
    assert untold.count == 0


def test_those_that_are_apart_have_a_bound_of_their_own(desk) -> None:
    """
    One by one, to two consumers in turns, each takes a hundred times what it does among its like.
    """
    orders, stock = desk.broker.queue("orders"), desk.broker.queue("stock")
    untold = UntoldMessages(100, 3)
    missed = [untold.add(CONSUMED, place, [1, 2]) for place in (orders, stock) * 3]
    assert missed == [0, 0, 0, 2, 0, 2]  # The last run goes on: it takes no room for another.
    assert untold.add_batch(iter(()), 5, 1) == 5
    assert untold.count == 8
    assert len(taken(untold)) == 8
    assert untold.count == 0


def test_a_source_that_fails_is_over_and_those_behind_it_are_told(desk) -> None:
    """
    What a batch brought is looked for only then; there is room again for as much.
    """
    orders = desk.broker.queue("orders")
    untold, told, failed = UntoldMessages(10, 10), [], []

    def found() -> Iterator[Untold | None]:
        yield Untold(CONSUMED, orders, 1, ())
        raise ValueError("a record of it")

    def tell(each: Untold) -> int:
        told.append(each.key)
        return 1

    untold.add_batch(found(), 5, 100)
    untold.add(CONSUMED, orders, [6, 7])
    for _ in untold.told(tell, lambda error, count: failed.append((str(error), count)), 64):
        pass
    assert told == [1, 6, 7] and failed == [("a record of it", 1)]
    assert untold.count == 0 and untold.add(CONSUMED, orders, range(10)) == 0
