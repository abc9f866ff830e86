"""
What is parked stands in the order of its queue, whoever takes it from where.
"""

from __future__ import annotations

import random
import sys

import pytest

from holdfast.broker.serving.router.parked import Heads, Parked, Place


class Model:
    """The same, by looking at everything each time."""

    def __init__(self, *takers: str) -> None:
        self.heads = {each: Heads() for each in takers}
        self.parked = Parked(lambda bucket: [self.heads[each] for each in bucket[1]], 200)
        self.known: dict[int, tuple[tuple[int, str], Place]] = {}

    def put(self, key: int, bucket: tuple[int, str]) -> None:
        order = key if key > 0 else -key // 2
        self.parked.put(bucket, key, order, bucket[0])
        place = Place(bucket[0], order, 0 if key > 0 else -key)
        self.known[key] = (bucket, place)

    def first_for(self, taker: str) -> Place | None:
        places = [place for bucket, place in self.known.values() if taker in bucket[1]]
        return min(places, default=None)


BUCKETS = [(0, "a"), (0, "ab"), (0, "abc"), (0, ""), (1, "a"), (1, "bc"), (1, "c")]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_looking_at_everything(seed: int) -> None:
    """
    Each taker's first message is the first of all that it may have, whatever came and went.
    """
    chance = random.Random(seed)
    model = Model(*"abc")
    parked, known = model.parked, model.known
    for turn in range(1_500):
        key = chance.choice((1, 1, 1, -1)) * chance.randrange(1, 3_000)
        act = chance.randrange(10)
        if act < 5 and key not in known:
            model.put(key, chance.choice(BUCKETS))
        elif act < 7 and known:
            key = chance.choice([*known])
            assert parked.take(key) == known.pop(key)[0]
        elif act < 8 and known:
            key, bucket = chance.choice([*known]), chance.choice(BUCKETS)
            parked.move(key, bucket, bucket[0])
            known[key] = (bucket, known[key][1]._replace(rank=bucket[0]))
        elif act < 9:
            bucket = chance.choice(BUCKETS)
            places = sorted(place for each, place in known.values() if each == bucket)
            assert parked.pour(bucket, 3) == [place.key for place in places[:3]]
            for place in places[:3]:
                del known[place.key]
        elif turn % 300 == 1:
            parked.empty()
            known.clear()
        assert (key in parked) == (key in known)
        assert parked.bucket_of(key) == (known[key][0] if key in known else None)
        assert parked.take(3_001) is None
        assert len(parked) == len(known)
        assert parked.is_full == (len(known) >= 200)
        assert {*parked.buckets} == {bucket for bucket, _ in known.values()}
        taker = chance.choice("abc")
        assert model.heads[taker].first() == model.first_for(taker)
    for bucket in BUCKETS:
        places = [place for each, place in known.values() if each == bucket]
        assert parked.count_of(bucket) == len(places)
        assert parked.first(bucket) == (min(places).key if places else 0)


def test_thousands_of_a_bucket_come_out_in_order() -> None:
    """
    Also those that are put back between others, or taken from the middle.
    """
    parked = Parked()
    keys = [*range(1, 5_000)]
    for key in keys[::2]:
        parked.put("b", key, key)
    for key in keys[1::2]:
        parked.put("b", key, key)
    for key in keys[::3]:
        parked.take(key)
    left = [key for key in keys if key not in keys[::3]]
    assert parked.pour("b", 10_000) == left


def test_what_is_parked_takes_few_bytes_beside_where_it_stands() -> None:
    """
    A bucket has eight bytes for each stored message, on pages that are full.
    """
    parked = Parked()
    for key in range(1, 10_001):
        parked.put("b", key, key)
    pages = parked._lanes["b"].stored.pages
    assert len(pages) == 20
    assert {sys.getsizeof(page) < 9 * 600 for page in pages} == {True}


def test_who_takes_nothing_any_more_keeps_nothing() -> None:
    """
    And who looks at nothing does not keep a note of each message that others took.
    """
    gone, idle = Heads(), Heads()
    parked = Parked(lambda _bucket: (gone, idle))
    parked.put("b", 1, 1)
    gone.is_over = True
    parked.put("b", 2, 2)
    parked.pour("b", 2)
    for key in range(10, 1_000):
        parked.put("b", key, key)
        parked.take(key)
    assert gone.first() is None
    assert len(idle._notes) < 100
    assert idle.first() is None


def test_a_bucket_can_have_other_takers_than_before() -> None:
    """Who took from it finds nothing there any more; others find its first."""
    one, other = Heads(), Heads()
    takers = [one]
    parked = Parked(lambda _bucket: takers)
    for key in (5, 3):
        parked.put("b", key, key)
    takers[:] = [other]
    assert one.first() is not None
    assert other.first() is None
    parked.ask_again("b")
    parked.ask_again("nothing stands there")
    assert one.first() is None
    found = other.first()
    assert found is not None
    assert found.key == 3
    parked.put("b", 1, 1)
    found = other.first()
    assert found is not None
    assert found.key == 1
