"""
Pages, sums and choices among very many queues.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.admin.queue_pages import PAGE_COUNT_MAX, matching, page, survey
from holdfast.admin.slices import Slices
from holdfast.admin.status import QueueDepth

COUNT = 20_000


class Clock:
    """Each value that is made takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def making(self, values: list[Any]):
        for value in values:
            self.now += 1.0
            yield value


def turns_of(clock: Clock, work: Callable[[Slices], Awaitable[Any]]) -> tuple[Any, list[float]]:
    """Do some work; give what came of it, and the time that went by in each turn of the loop."""
    turns = [clock.now]

    async def turn() -> None:
        while True:
            turns.append(clock.now)
            await asyncio.sleep(0)

    async def both() -> Any:
        turning = asyncio.create_task(turn())
        found = await work(Slices(clock, slice_seconds=2.0, pause_seconds=0.0))
        turning.cancel()
        turns.append(clock.now)
        return found

    found = asyncio.run(both())
    return found, [after - before for before, after in itertools.pairwise(turns)]


NAMES = [f"q{number * 7919 % COUNT:06}" for number in range(COUNT)]


async def look(clock: Clock, slices: Slices) -> Any:
    return await survey(clock.making([QueueDepth(it, 1) for it in NAMES]), 3, slices)


async def turn_page(clock: Clock, slices: Slices) -> Any:
    return await page(clock.making(NAMES), "", 10, slices)


async def match(clock: Clock, slices: Slices) -> Any:
    return await matching(clock.making(NAMES), "q00001*", slices)


@pytest.mark.parametrize("work", [look, turn_page, match])
def test_no_turn_takes_more_than_some_values(work) -> None:
    """
    What goes through 20,000 queues looks at few hundred of them in a turn, whatever it looks for.
    """
    clock = Clock()
    _, turns = turns_of(clock, lambda slices: work(clock, slices))
    assert max(turns) <= 512
    assert len(turns) >= COUNT / 512


def test_pages_hold_all_queues_once_and_in_order() -> None:
    """
    Each page begins behind the last name of the one before, and the last one says so.
    """
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        one = asyncio.run(page(NAMES, after, 999, Slices()))
        assert len(one.names) <= 999
        found += one.names
        after = one.next
    assert found == sorted(NAMES)


def test_a_page_ends_where_its_names_are_long() -> None:
    """
    A page of the longest names would be a megabyte; but it is never empty.
    """
    names = [f"{number:04}" + "x" * 1020 for number in range(1000)]
    one = asyncio.run(page(names, "", 1000, Slices()))
    assert (len(one.names), one.next) == (256, names[255])
    assert asyncio.run(page(["y" * 300_000], "", 9, Slices())).names == ["y" * 300_000]
    assert asyncio.run(page([], "", 9, Slices())).names == []


def test_a_survey_sums_and_finds_the_deepest() -> None:
    """
    The deepest are found among many, and of equal ones not more than were asked for.
    """
    depths: list[QueueDepth | None] = [QueueDepth(f"q{it}", it, 1, 2, 3) for it in range(1000)]
    found = asyncio.run(survey([None, *depths, None], 2, Slices()))
    assert found.deepest == ["q998", "q999"]
    assert (found.count, found.messages, found.messages_max) == (1000, 499_500, 999)
    assert (found.unacknowledged, found.consumers, found.bytes) == (1000, 2000, 3000)
    equal = [QueueDepth(f"q{it}") for it in range(100)]
    assert len(asyncio.run(survey(equal, 7, Slices())).deepest) == 7
    assert asyncio.run(survey([], 7, Slices())).deepest == []


def test_what_a_pattern_fits_is_bounded_too() -> None:
    """
    The first in the order of names, and how many others.
    """
    found, others = asyncio.run(matching(NAMES, "q*", Slices()))
    assert (found, others) == (sorted(NAMES)[:PAGE_COUNT_MAX], COUNT - PAGE_COUNT_MAX)


class CountingSlices(Slices):
    """Notes how many names are looked at between two looks at the clock."""

    at_once = 0

    def some(self, items, count: int = 32):
        self.at_once = count
        return super().some(items, count)


@pytest.mark.parametrize(
    ("pattern", "most"), [("orders.*", 32), ("*" + "[!bc]" * 39, 1), ("", 32), ("*" * 21, 15)]
)
def test_the_more_a_pattern_says_the_fewer_names_are_tried_at_once(pattern: str, most: int) -> None:
    """
    Whoever can reach the port may ask: 32 names of 1 KiB, against 200 characters that fit anywhere
    but at their end, kept the loop for 16 ms each time.
    """

    async def look() -> int:
        slices = CountingSlices()
        await matching(["a" * 1024] * 64, pattern, slices)
        return slices.at_once

    assert asyncio.run(look()) == most
