"""
What a source has told: how long it is good, and in which order it is tried. No clock, no chance.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdfast.discovery.candidates import (
    CANDIDATES_MAX,
    Answer,
    Candidate,
    Candidates,
    NoAnswer,
    in_order,
)

A = Candidate("a", 1, "d")
B = Candidate("b", 2, "d")


@pytest.mark.parametrize(("told", "good_for"), [(0, 5), (4.9, 5), (60, 60), (86_400, 300)])
def test_an_answer_is_good_for_its_time_within_bounds(told: float, good_for: float) -> None:
    """A TTL of 0 does not make every pass ask, and one of a day does not hide a change."""
    candidates = Candidates()
    assert candidates.is_due(100.0)
    candidates.take(Answer((A,), told), 100.0)
    assert not candidates.is_due(100.0 + good_for - 0.01)
    assert candidates.is_due(100.0 + good_for)


def test_the_last_good_answer_is_kept_while_the_source_is_away() -> None:
    """A nameserver that is down takes no broker away; what is wrong is told beside it."""
    candidates = Candidates()
    candidates.take(Answer((A, B), 5.0), 0.0)
    candidates.take(NoAnswer("no answer within 5 s"), 5.0)
    assert (A, B) == candidates.known
    assert "no answer within 5 s" == candidates.problem
    candidates.take(Answer((B,), 5.0), 6.0)
    assert ((B,), "") == (candidates.known, candidates.problem)


def test_a_source_that_does_not_answer_rests_longer_each_time() -> None:
    """A thousand clients whose nameserver is gone do not ask it at every pass."""
    candidates = Candidates()
    rests = []
    for _ in range(5):
        candidates.take(NoAnswer("away"), 0.0)
        rests.append(candidates.due_at)
    assert [1.0, 2.0, 4.0, 5.0, 5.0] == rests
    candidates.take(Answer((A,), 60.0), 0.0)
    candidates.take(NoAnswer("away"), 60.0)
    assert 61.0 == candidates.due_at


def test_who_says_that_there_is_nothing_is_believed() -> None:
    """An operator who ends a service means it; that is not the same as no answer."""
    candidates = Candidates()
    candidates.take(Answer((A,), 60.0), 0.0)
    candidates.take(Answer((), 60.0, ("there is no service",)), 60.0)
    assert () == candidates.known
    assert "there is no service" == candidates.problem
    assert 120.0 == candidates.due_at


def test_no_more_than_the_most_are_kept() -> None:
    """Whatever a source tells."""
    candidates = Candidates()
    many = tuple(Candidate(str(number), 1, "d") for number in range(1_000))
    candidates.take(Answer(many, 60.0), 0.0)
    assert many[:CANDIDATES_MAX] == candidates.known


def test_priorities_go_before_weights() -> None:
    """RFC 2782: the lowest priority number is tried first, whatever weighs more."""
    spare = Candidate("spare", 1, "d", priority=20, weight=60_000)
    first = Candidate("first", 1, "d", priority=10, weight=0)
    second = Candidate("second", 1, "d", priority=15, weight=5)
    draw = random.Random(1).uniform
    assert [first, second, spare] == in_order([spare, second, first], draw)


def shares(weights: list[int], rounds: int = 20_000) -> list[float]:
    """How often each was first, of those with these weights, by a seed."""
    candidates = [Candidate(str(at), 1, "d", weight=it) for at, it in enumerate(weights)]
    draw = random.Random(7).uniform
    first = Counter(in_order(candidates, draw)[0].host for _ in range(rounds))
    return [first[str(at)] / rounds for at in range(len(weights))]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, 3], [0.25, 0.75]),
        ([1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25]),
        ([10, 20, 70], [0.1, 0.2, 0.7]),
        ([0, 9], [0.1, 0.9]),
        ([0, 0], [0.5, 0.5]),
    ],
)
def test_weights_are_shares(weights: list[int], expected: list[float]) -> None:
    """Also of equal ones and where none has any; who has none beside others has a small chance."""
    assert shares(weights) == pytest.approx(expected, abs=0.02)


def test_the_same_chance_gives_the_same_order() -> None:
    """A simulation replays it from its seed; each is there once."""
    candidates = [Candidate(str(at), 1, "d", priority=at % 2, weight=at) for at in range(20)]
    orders = [in_order(candidates, random.Random(3).uniform) for _ in range(2)]
    assert orders[0] == orders[1]
    assert sorted(map(str, candidates)) == sorted(map(str, orders[0]))
    assert orders[0] != in_order(candidates, random.Random(4).uniform)


def test_without_chance_the_heavier_come_first() -> None:
    """For who wants to know the order; equals stay as they were told."""
    heavy = Candidate("h", 1, "d", weight=9)
    assert [heavy, B, A] == in_order([B, heavy, A], None)


def test_the_end_of_a_range_may_be_drawn() -> None:
    """`uniform` may give its upper end, which floats round to."""
    assert [A, B] == sorted(in_order([A, B], lambda low, high: high), key=lambda it: it.host)
    nothing = [Candidate(str(at), 1, "d", weight=0) for at in range(2)]
    assert 2 == len(in_order(nothing, lambda low, high: high))
