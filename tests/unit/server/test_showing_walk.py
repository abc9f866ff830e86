"""Looks that follow one another, each in slices, and what happens to one that is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.leases.projection import Changes
from holdfast.server.showing_walk import SECONDS, SECONDS_MAX, ShowingWalk


class Shown:
    """A store that writes what it is told when it is let."""

    def __init__(self) -> None:
        self.term, self.projections_lost = 1, 0
        self.shown_keys = ()
        self.waiting: list[Changes] = []

    @property
    def can_project(self) -> bool:
        return not self.waiting

    def project(self, changes: Changes) -> None:
        self.waiting.append(changes)


class Walk(ShowingWalk):
    """Takes three short steps in each look, and tells something in the last."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(shown)
        self.looks: list[bool] = []
        self.steps = 0

    def _look(self, *, is_whole: bool) -> Iterator[None]:
        self.looks.append(is_whole)
        for _ in range(2):
            self.steps += 1
            yield
        self._shown.project(Changes())
        yield
        self.steps += 1


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def walk(shown: Shown) -> Walk:
    return Walk(shown)


def step(walk: Walk, now: float, *, is_spent: bool = False, is_serving: bool = True) -> bool:
    return walk.step(now, lambda: is_spent, is_serving=is_serving)


def test_a_look_goes_on_when_what_it_told_is_written(walk: Walk, shown: Shown) -> None:
    """It says so while something is to be written; the next one is no whole one."""
    assert step(walk, 100.0)
    assert step(walk, 101.0)
    assert walk.is_under_way
    assert walk.steps == 2
    shown.waiting.clear()
    assert not step(walk, 102.0)
    assert (walk.steps, walk.is_under_way) == (3, False)
    assert not step(walk, 102.0 + SECONDS - 0.1)
    assert step(walk, 102.0 + SECONDS)

    assert walk.looks == [True, False]


def test_a_slice_ends_when_its_time_is_over(walk: Walk) -> None:
    """With a step done, and nothing to be written yet."""
    assert not step(walk, 100.0, is_spent=True)
    assert walk.steps == 1
    assert not step(walk, 100.0, is_spent=True)
    assert walk.steps == 2


def test_who_serves_no_more_ends_its_look(walk: Walk, shown: Shown) -> None:
    """And begins another one when it serves again."""
    step(walk, 100.0)
    assert not step(walk, 100.1, is_serving=False)
    assert not walk.is_under_way
    shown.waiting.clear()
    shown.term += 1
    assert step(walk, 100.2)

    assert walk.looks == [True, True]


def test_what_is_given_up_ends_the_look_and_makes_the_next_one_whole(
    walk: Walk, shown: Shown
) -> None:
    """After a pause that grows to five minutes, and is the usual one once all was written."""
    now, pauses = 100.0, []
    for _ in range(8):
        began = now
        while not step(walk, now):
            now += 1.0
        pauses.append(now - began)
        shown.waiting.clear()
        shown.projections_lost += 1
        assert not step(walk, now)
    assert walk.looks == [True] * 8
    assert walk.steps == 16, "the last step of each was not done"
    assert pauses[1:] == [10, 20, 40, 80, 160, SECONDS_MAX, SECONDS_MAX]
    now += SECONDS_MAX
    assert step(walk, now)
    shown.waiting.clear()
    assert not step(walk, now)

    assert step(walk, now + SECONDS)
    assert walk.looks[-2:] == [True, False]
