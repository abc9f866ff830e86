"""
Shelves of neighbouring keys: as one mapping, or one set, of which no step is long.
"""

from __future__ import annotations

import gc
import random
import sys
from collections import deque
from collections.abc import Iterator

import pytest

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import SHELF_SHIFT, OrderedKeys, ShelvedSet, Shelves

SIZE = 1 << SHELF_SHIFT
FEW = SIZE >> 4


@pytest.mark.parametrize("seed", range(10))
def test_shelves_are_as_one_mapping(seed) -> None:
    """
    Whatever is put and taken, one by one or many at once, also under keys below zero.
    """
    chance = random.Random(seed)
    shelves: Shelves[str] = Shelves()
    known: dict[int, str] = {}
    for _ in range(80):
        first = chance.randrange(-3 * SIZE, 3 * SIZE)
        keys = [first + place for place in range(chance.choice((1, 2, 40, 2 * SIZE)))]
        match chance.randrange(5):
            case 0:
                values = [str(key) for key in keys]
                shelves.put_next(first, values)
                known.update(zip(keys, values, strict=True))
            case 1:
                chance.shuffle(keys)
                there = [known.pop(key) for key in keys if key in known]
                assert sorted(shelves.take_all(keys)) == sorted(there)
            case 2:
                shelves[first] = known[first] = "one"
            case 3:
                assert shelves.take(first) == known.pop(first, None)
            case _:
                assert (first in shelves, shelves.find(first)) == (first in known, known.get(first))
        assert (len(shelves), bool(shelves)) == (len(known), bool(known))
        assert all(shelves.shelves.values()) or len(shelves.shelves) == 1
    assert shelves == known
    while known:
        key, value = shelves.popitem()
        assert known.pop(key) == value
    assert not shelves.shelves


@pytest.mark.parametrize("seed", range(10))
def test_shelved_keys_are_as_one_set(seed) -> None:
    """
    The same of keys alone.
    """
    chance = random.Random(seed)
    shelved, known = ShelvedSet(), set[int]()
    for _ in range(80):
        first = chance.randrange(-3 * SIZE, 3 * SIZE)
        keys = [first + place for place in range(chance.choice((1, 2, 40, 2 * SIZE)))]
        chance.shuffle(keys)
        match chance.randrange(4):
            case 0:
                shelved.update(keys)
                known.update(keys)
            case 1:
                shelved.difference_update(keys)
                known.difference_update(keys)
            case 2:
                shelved.add(first)
                known.add(first)
            case _:
                shelved.discard(first)
                known.discard(first)
        assert (first in shelved, bool(shelved)) == (first in known, bool(known))
        assert len(shelved) == len(known)
        assert all(shelved.shelves.values())
    assert shelved == known
    while known:
        known.remove(shelved.pop())
    assert not shelved.shelves


@pytest.mark.parametrize("seed", range(10))
def test_of_ordered_keys_the_lowest_is_at_hand(seed) -> None:
    """
    Whatever comes and goes; where shelves come and go for ever, what is known of them is bounded.
    """
    chance = random.Random(seed)
    ordered, known = OrderedKeys(), set[int]()
    for _ in range(400):
        first = chance.randrange(1, 9 * SIZE)
        keys = range(first, first + chance.choice((1, 2, 40)))
        if chance.randrange(2):
            ordered.update(keys)
            known.update(keys)
        else:
            ordered.difference_update(keys)
            known.difference_update(keys)
        assert ordered.first() == min(known, default=0)
    ordered.add(1)
    for _ in range(1_000):
        ordered.add(20 * SIZE)
        ordered.discard(20 * SIZE)
    assert len(ordered._numbers) < 100
    for lowest in sorted(ordered):
        assert ordered.first() == lowest
        ordered.discard(lowest)
    assert (ordered.first(), set(ordered)) == (0, set())


@pytest.mark.parametrize("keys", [[5, 5, 7], [*range(40), *range(10)], [*range(60), 70]])
def test_keys_that_come_twice_or_apart_are_put_as_they_are(keys) -> None:
    """
    Neighbours are put at once; these are not all neighbours.
    """
    assert ShelvedSet(keys) == set(keys)


def test_what_is_not_there_is_an_error_only_where_it_is_asked_for_by_name() -> None:
    """
    To look, or to take what is gone already, makes no shelf.
    """
    shelves: Shelves[str] = Shelves()
    with pytest.raises(KeyError):
        shelves[1]
    with pytest.raises(KeyError):
        del shelves[1]
    assert (shelves.find(1), shelves.take(1), shelves.take_all([1, 2])) == (None, None, [])
    ShelvedSet().discard(1)
    assert 1 not in shelves
    assert "1" not in shelves
    assert not shelves.shelves


def test_nothing_is_built_anew_beyond_a_shelf() -> None:
    """
    What stands on one shelf is all that may have to be moved when one more comes.
    """
    shelves: Shelves[int] = Shelves()
    shelved = ShelvedSet()
    for key in range(20 * SIZE):
        shelves[-key] = key
        shelved.add(key)
    assert max(map(len, shelves.shelves.values())) <= SIZE
    assert max(map(int.bit_length, shelved.shelves.values())) <= SIZE


def test_one_that_is_left_on_each_shelf_pins_no_whole_shelf() -> None:
    """
    One message in 512 that nobody acknowledges: their shelves take room for few, not for all.
    """
    count = 40
    shelves: Shelves[int | None] = Shelves()
    shelved = ShelvedSet()
    for number in range(count):
        first = number * SIZE
        keys = list(range(first, first + SIZE))
        shelves.put_next(first, keys)
        shelved.update(keys)
        for half in (keys[1 : SIZE // 2], keys[SIZE // 2 :]):
            shelves.take_all(half)
            shelved.difference_update(half)
    full = sys.getsizeof(dict.fromkeys(range(SIZE)))
    assert len(shelves) == len(shelved) == count
    assert max(map(sys.getsizeof, shelves.shelves.values())) < full // 6
    assert max(map(sys.getsizeof, shelved.shelves.values())) <= 100


def test_ones_taken_singly_leave_a_small_shelf_too() -> None:
    """
    However they go.
    """
    shelves: Shelves[int] = Shelves()
    shelved = ShelvedSet()
    keys = list(range(SIZE))
    shelves.put_next(0, keys)
    shelved.update(keys)
    for key in keys[FEW:]:
        shelves.take(key)
        shelved.discard(key)
    assert len(shelves) == len(shelved) == FEW
    assert sys.getsizeof(shelves.shelves[0]) < 3_000
    assert sys.getsizeof(shelved.shelves[0]) <= 100


def mappings_of(queue: Queue) -> Iterator[dict[object, object] | set[object]]:
    """Give every mapping and every set in which this queue has something."""
    seen, left = set[int](), [queue]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict | set):
            yield each
        is_ours = type(each).__module__.startswith("holdfast.broker.serving")
        if is_ours or isinstance(each, dict | set | list | deque):
            left += gc.get_referents(each)


def test_whatever_happens_to_its_messages_a_queue_has_no_large_mapping(desk, new_client) -> None:
    """
    What grows by copying itself stops everybody: 350,000 messages made one SEND take 15 ms.

    Stored or not, in delivery, given back, acknowledged in a transaction: nothing that is known of
    each message stands in one piece. (What one consumer has is bounded by its prefetch.)
    """
    queue = desk.queue()
    for number in range(1_000):
        desk.broker.send_transient(queue, b"", b"x")
        desk.send(b"%d" % number)
    desk.turn()
    seen = []
    for _ in range(4):
        subscription = desk.subscribe(client=new_client(), prefetch=SIZE)
        subscription.client = "known again"
        seen.append(subscription)
    desk.turn()
    transaction = desk.broker.begin("t")
    for each in seen[1:]:
        transaction.add_settlement(each, list(each.unacknowledged))
    given_back = len(seen[0].unacknowledged)
    for each in seen:
        desk.broker.unsubscribe(each)
        desk.broker.errands.finish()
    assert given_back < len(queue.custody.reserved) > SIZE
    assert SIZE >= max(map(len, mappings_of(queue)))
    for _ in desk.broker.abort(transaction):
        pass
    custody = queue.custody
    for known in (custody.redelivered, custody.had_by, queue.choice.returned):
        assert len(known) == 2_000
    assert len(queue.transients) == len(queue.cache) == 1_000
    assert SIZE >= max(map(len, mappings_of(queue)))


def test_a_set_takes_all_of_another_one_shelf_by_shelf() -> None:
    """What both have is there once; the other one stays as it is."""
    one, other = ShelvedSet([1, 2, -3]), ShelvedSet([2, 600, -3, -4])
    one.merge(other)
    assert set(one) == {1, 2, 600, -3, -4}
    other.add(601)
    assert 601 not in one
