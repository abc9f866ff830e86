"""
When what is on one queue expires.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.serving.expiry import HORIZON_MS, Expiry
from holdfast.broker.serving.message import TransientMessage, with_facts
from holdfast.broker.serving.shelves import Shelves
from holdfast.model.facts import Attributes, MessageFacts


class Kept:
    """A queue, as far as it keeps messages."""

    def __init__(self) -> None:
        self.index = SequenceIndex()
        self.transients: Shelves[TransientMessage] = Shelves()

    def put(self, sequence: int, expires_ms: int) -> tuple[int, int]:
        self.index.put(sequence, sequence, 1)
        self.index.put_expires(sequence, expires_ms)
        return sequence, expires_ms

    def put_volatile(self, key: int, expires_ms: int) -> tuple[int, int]:
        facts = MessageFacts(attributes=Attributes(expires_ms=expires_ms))
        self.transients[key] = with_facts(TransientMessage(key, b"", b"", 0), facts)
        return key, expires_ms


@pytest.fixture
def kept() -> Kept:
    return Kept()


def all_due(expiry: Expiry, now_ms: int, step: int = 1_000) -> list[int]:
    """Take all that has expired by now."""
    keys: list[int] = []
    while 0 < expiry.soonest <= now_ms:
        some, count = expiry.due(now_ms, step)
        assert count, "it gets on"
        keys += some
    return keys


def test_a_message_is_found_when_its_time_is_over(kept) -> None:
    """
    And not before; of several the first is at hand, whatever the order in which they came.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put(1, 9_000), kept.put(2, 4_000), kept.put(700, 5_000)])
    assert expiry.soonest == 4_000
    assert all_due(expiry, 3_999) == []
    assert all_due(expiry, 4_000) == [2]
    assert expiry.soonest == 5_000
    assert all_due(expiry, 9_000) == [700, 1]
    assert expiry.soonest == 0


def test_what_is_gone_is_not_found(kept) -> None:
    """
    It was acknowledged in time.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put(1, 50), kept.put(2, 50), kept.put_volatile(-1, 50)])
    kept.index.remove([2])
    kept.transients.take(-1)
    assert all_due(expiry, 60) == [1]


def test_what_was_there_before_is_looked_through(kept) -> None:
    """
    A new leader knows of each chunk the soonest; it begins with a few at a time.
    """
    times = {sequence: 1_000 + sequence % 7 for sequence in range(1, 5_000, 3)}
    for pair in times.items():
        kept.put(*pair)
    expiry = Expiry(kept)
    assert expiry.soonest == 1
    assert expiry.due(10, 2) == ([], 2)
    assert all_due(expiry, 999) == []
    found = all_due(expiry, 1_003, step=40)
    assert sorted(found) == sorted(it for it, expires_ms in times.items() if expires_ms <= 1_003)


def test_messages_with_times_at_random_are_looked_at_seldom(kept) -> None:
    """
    Ten million of them would otherwise be looked through for each that expires.
    """
    chance = random.Random(7)
    expiry = Expiry(kept)
    hour_ms = 3_600_000
    times = {sequence: chance.randrange(1, hour_ms) for sequence in range(1, 3_001)}
    expiry.add([kept.put(*pair) for pair in times.items()])
    found: list[int] = []
    for now_ms in range(0, hour_ms + 1, 10_000):
        due = all_due(expiry, now_ms)
        assert all(times[key] <= now_ms for key in due)
        found += due
        kept.index.remove(due)
    assert sorted(found) == sorted(times)
    chunks = 6
    assert expiry.looked_at_count <= chunks * (hour_ms // HORIZON_MS + 1)


def test_one_that_comes_after_the_look_is_found_in_its_turn(kept) -> None:
    """
    Sooner than all others of its chunk, later, and much later.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put(1, 1_000), kept.put(2, 9_000)])
    assert all_due(expiry, 1_000) == [1]
    expiry.add([kept.put(3, 5_000), kept.put(4, 9_500), kept.put(5, 2 * HORIZON_MS)])
    assert [all_due(expiry, now_ms) for now_ms in (5_000, 9_000, 9_500)] == [[3], [2], [4]]
    kept.index.remove([1, 2, 3, 4])
    assert all_due(expiry, 2 * HORIZON_MS) == [5]


def test_of_what_is_gone_nothing_is_kept(kept) -> None:
    """
    A week of messages that live for a second and may live for a week.
    """
    expiry = Expiry(kept)
    week_ms = 7 * 24 * 3_600_000
    for start in range(0, 512 * 200, 512):
        kept.index.remove(list(range(max(1, start - 512), start)))
        expiry.add([kept.put(max(1, sequence), week_ms) for sequence in range(start, start + 512)])
    assert len(expiry._pages) < 10
    kept.index.remove(list(range(1, 512 * 200)))
    assert all_due(expiry, week_ms) == []
    assert (expiry._pages, expiry.soonest) == ({}, 0)


def test_what_comes_back_is_looked_at_again(kept) -> None:
    """
    Somebody had it as it expired; what never expires is no affair of this.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put(1, 50)])
    kept.index.put(2, 2, 1)
    assert all_due(expiry, 60) == [1]
    assert not expiry.came_back([2])
    assert expiry.came_back([1, 2])
    assert expiry.soonest == 1
    assert all_due(expiry, 60) == [1]


def test_a_time_that_never_comes_is_no_trouble(kept) -> None:
    """
    Beyond what a slot can be put beside.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put(1, (1 << 63) - 1), kept.put(2, 1 << 55)])
    assert all_due(expiry, 1 << 45) == []
    expiry.add([kept.put(3, 5)])
    assert all_due(expiry, 10) == [3]


def test_non_persistent_ones_expire_too(kept) -> None:
    """
    In the order of their times.
    """
    expiry = Expiry(kept)
    expiry.add([kept.put_volatile(-2, 70), kept.put_volatile(-1, 50)])
    assert (expiry.of(-2), expiry.is_over(-1, 50), expiry.is_over(-2, 50)) == (70, True, False)
    assert [all_due(expiry, now_ms) for now_ms in (50, 70)] == [[-1], [-2]]
