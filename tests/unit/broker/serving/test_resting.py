"""
What rests comes when it is due, and takes a few bytes until then.
"""

from __future__ import annotations

import random
import sys

import pytest

from holdfast.broker.serving.resting import Resting

SHELF = 512


@pytest.mark.parametrize("seed", range(20))
def test_what_rests_comes_once_it_is_due_and_not_before(seed: int) -> None:
    """
    Whatever else is taken meanwhile, is told to rest once more, for longer or not as long.
    """
    chance = random.Random(seed)
    resting, known, now = Resting(), dict[int, int](), 1_000
    for _ in range(600):
        key = chance.randrange(-2 * SHELF, 2 * SHELF)
        match chance.randrange(4):
            case 0 | 1:
                due_ms = now + chance.randrange(1, 200)
                is_first = all(due_ms < other for other in known.values())
                told = resting.put(key, due_ms)
                # Of what was taken before it was due the alarm may still stand.
                assert told or not is_first or resting.soonest <= due_ms
                known[key] = due_ms
            case 2:
                some = sorted(known)[:5]
                for each in (key, *some):
                    resting.take(each)
                    known.pop(each, None)
            case _:
                now += chance.randrange(30)
                due = set(resting.due(now, 10_000))
                assert due == {each for each, due_ms in known.items() if due_ms <= now}
                for each in due:
                    del known[each]
        assert len(resting) == len(known)
        assert (key in resting) == (key in known)
        assert not known or 0 < resting.soonest <= min(known.values())
    assert sorted(resting.due(10_000, 10_000)) == sorted(known)
    assert (resting.soonest, resting.due(10_000, 10)) == (0, [])


def test_those_that_are_due_first_come_first() -> None:
    """
    As many as are asked for, in the order of a shelf's time.
    """
    resting = Resting()
    assert [resting.put(key, due) for key, due in ((5, 30), (6, 10), (700, 20))] == [
        True,
        True,
        False,
    ]
    assert resting.due(9, 10) == []
    assert resting.due(20, 1) == [6]
    assert resting.due(25, 10) == [700]
    assert (resting.soonest, resting.due(30, 10), resting.soonest) == (30, [5], 0)


def test_to_look_for_what_is_due_is_bounded() -> None:
    """
    Of a thousand on a few shelves, and of shelves that are empty by now.
    """
    resting = Resting()
    for key in range(1, 1_001):
        resting.put(key, 10)
    assert [len(resting.due(10, 64)) for _ in range(3)] == [64, 64, 64]
    for key in range(10 * SHELF, 110 * SHELF, SHELF):
        resting.put(key, 5)
        resting.take(key)
    seen = []
    while resting.soonest:
        seen.append(len(resting.due(10, 64)))
    assert sum(seen) == 1_000 - 3 * 64
    assert max(seen) <= 64


def test_what_comes_and_goes_leaves_nothing() -> None:
    """
    What was taken before it was due stands nowhere for long: it may have been due in a week.
    """
    resting = Resting()
    resting.put(1, 10**12)
    for number in range(5_000):
        resting.put(2 + number % 300, 10**12 + number)
        resting.take(2 + number % 300)
        resting.put(SHELF, 10**12 - number)
    assert len(resting) == 2
    shelves = resting._shelves.values()
    assert sum(len(shelf.slots) for shelf in shelves) < 50
    assert len(resting._alarms) < 50


def test_a_million_take_some_ten_bytes_each() -> None:
    """
    Each was a key in three mappings and a place in a heap: 300 bytes. (A twentieth of them here.)
    """
    count = 50_000
    resting = Resting()
    for key in range(1, count + 1):
        resting.put(key, 10**12 + key * 7 % 1_000)
    parts: list[object] = [resting._shelves, resting._alarms._seen, resting._alarms._unseen]
    for shelf in resting._shelves.values():
        parts += [shelf, shelf.dues, shelf.slots, shelf.resting, shelf.alarm]
    alarms = [*resting._alarms._seen, *resting._alarms._unseen]
    parts += [part for alarm in alarms for part in (alarm, *alarm)]
    assert sum(map(sys.getsizeof, parts)) < 13 * count


def test_emptied_it_gives_what_may_be_long() -> None:
    """
    To be freed in steps.
    """
    resting = Resting()
    resting.put(5, 10)
    assert any(resting.empty())
    assert (resting.soonest, len(resting), resting.due(10, 10)) == (0, 0, [])
