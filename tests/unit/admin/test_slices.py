"""
Long answers in slices: the clock is looked at after each value, and the loop turns in between.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.admin.metrics import Metrics
from holdfast.admin.operations import Operations
from holdfast.admin.slices import Slices
from holdfast.admin.status import QueueStatus


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


async def made_by_turn(clock: Clock, values: AsyncIterator[Any]) -> tuple[list[Any], list[float]]:
    """Take all values; give them, and the time that went by in each turn of the loop."""
    turns = [clock.now]

    async def turn() -> None:
        while True:
            turns.append(clock.now)
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    found = [value async for value in values]
    turning.cancel()
    turns.append(clock.now)
    return found, [after - before for before, after in itertools.pairwise(turns)]


@pytest.mark.parametrize("way", ["each", "ordered"])
def test_no_turn_is_longer_than_a_slice(way) -> None:
    """
    5,000 values that would take 5,000 seconds in one turn take two in each.
    """
    clock = Clock()
    slices = Slices(clock, 2.0)
    values = [number * 7919 % 5000 for number in range(5000)]
    made = clock.making(values)
    given = slices.each(made) if way == "each" else slices.ordered(made, key=lambda it: it)
    found, turns = asyncio.run(made_by_turn(clock, given))
    assert found == (values if way == "each" else sorted(values))
    assert max(turns) == 2.0
    assert len(turns) >= 2500


def test_samples_of_very_many_queues_come_in_pieces(node) -> None:
    """
    Piece by piece they are made when asked for; no piece has more than some hundred of them.
    """
    queues = [QueueStatus(name=f"q{number}", messages=number) for number in range(1000)]
    pieces = list(Metrics(Operations(node)).pieces(queues))
    lines = [piece.count(b"\n") for piece in pieces[1:]]
    assert max(lines) <= 256
    assert sum(lines) == 7 * (1000 + 2)


def test_a_queues_name_may_hold_anything(node) -> None:
    """
    What the format needs escaped is escaped.
    """
    queues = [QueueStatus(name='a"b\\c\nd', messages=5)]
    text = b"".join(Metrics(Operations(node)).pieces(queues)).decode()
    assert r'holdfast_queue_messages{queue="a\"b\\c\nd"} 5.0' in text
