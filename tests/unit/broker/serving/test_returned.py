"""
What was given back goes out in its old order.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.serving.returned import Returned


@pytest.mark.parametrize("seed", range(10))
def test_it_is_as_one_heap(seed: int) -> None:
    """
    Non-persistent ones behind the persistent one sent before them, and behind older ones.
    """
    chance = random.Random(seed)
    returned, known = Returned(), dict[int, tuple[int, int]]()
    for _ in range(500):
        if chance.randrange(3):
            key = chance.choice((1, -1)) * chance.randrange(1, 1_500)
            order, serial = (key, 0) if key > 0 else (-key // 2, -key)
            returned.put(order, serial, key)
            known[key] = (order, serial)
        else:
            first = min(known, key=lambda key: (*known[key], key), default=0)
            assert (returned.first(), returned.pop()) == (first, first)
            known.pop(first, None)
        assert (len(returned), bool(returned)) == (len(known), bool(known))
    assert all(key in returned for key in known)
    piles = returned.empty()
    assert sum(map(len, piles)) >= len(known)
    assert (returned.pop(), len(returned)) == (0, 0)
