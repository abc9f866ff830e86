"""
Long answers in slices: the clock is looked at now and then, and the loop turns in between.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.admin.metrics import Metrics
from holdfast.admin.metrics_selection import Selection
from holdfast.admin.operations import Operations
from holdfast.admin.slices import Desk, Pace, Remembered, Slices
from holdfast.admin.status import QueueStatus


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_samples_of_many_queues_are_written_some_at_a_time(node) -> None:
    """
    No piece has more than some dozens of them.
    """
    node.present = [QueueStatus(name=f"q{number}", messages=number) for number in range(1000)]
    metrics = Metrics(Operations(node))

    async def take() -> list[bytes]:
        return await metrics.pieces(Slices(), Selection(deepest=1000))

    lines = [piece.count(b"\n") for piece in asyncio.run(take())[3:]]
    assert max(lines) <= 64
    assert sum(lines) == 8 * (1000 + 2)


def test_who_waited_for_the_same_shares_one_slice() -> None:
    """
    Twenty with 0.6 ms of work each that all go on at once: no turn of the loop has more than two.
    """
    clock = Clock()
    turn = 0
    worked: list[int] = []

    async def work(pace: Pace, begun: asyncio.Event) -> None:
        await begun.wait()
        await pace.turn()
        clock.now += 0.0006
        worked.append(turn)

    async def scenario() -> None:
        nonlocal turn
        pace, begun = Pace(clock), asyncio.Event()
        working = asyncio.gather(*(work(pace, begun) for _ in range(20)))
        await asyncio.sleep(0)
        begun.set()
        while not working.done():
            turn += 1
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert len(worked) == 20
    assert max(map(worked.count, worked)) == 2


def test_after_a_slice_the_loop_is_left_to_others() -> None:
    """
    For four times as long, so that such answers never get more than a fifth of the time.
    """
    clock = Clock()
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        clock.now += seconds

    async def scenario() -> Slices:
        slices = Slices(clock)
        for _ in range(10):
            clock.now += 0.0006
            await slices.rest()
        return slices

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.admin.slices.asyncio.sleep", pause)
        slices = asyncio.run(scenario())
    assert paused == [0.004] * 5
    assert slices.worked_seconds == pytest.approx(0.006)


def test_what_took_long_to_find_is_given_again_for_a_while() -> None:
    """
    Twenty times as long as it took to find; what was found at once is found anew.
    """
    clock = Clock()
    found = Remembered[int](clock=clock)
    looks: list[float] = []

    async def look(seconds: float) -> int:
        clock.now += seconds
        looks.append(seconds)
        return len(looks)

    def find(question: object, seconds: float = 1.0) -> tuple[int, float]:
        slices = Slices(clock)
        return asyncio.run(found.find(question, slices, lambda: look(seconds)))

    assert find("a") == (1, 0.0)
    clock.now += 19.0
    assert find("a") == (1, 19.0)
    assert find("b", 0.0) == (2, 0.0)
    assert find("b", 0.0) == (3, 0.0)
    clock.now += 1.0
    assert find("a") == (4, 0.0)
    for number in range(8):
        find(number)
    assert find("a")[0] == len(looks)  # Only the last few are remembered.


def test_answers_are_put_together_one_after_the_other() -> None:
    """
    However many ask: what one does in a turn is all that is done in it. Who asks for what is being
    put together gets that, and one who leaves does not take it from the others.
    """
    busy: set[str] = set()
    made: list[str] = []

    async def make(name: str) -> list[bytes]:
        assert not busy, "two at once"
        busy.add(name)
        for _ in range(5):
            await asyncio.sleep(0)
        busy.remove(name)
        made.append(name)
        return [name.encode()]

    async def scenario() -> list[Any]:
        desk = Desk()
        asking = [
            asyncio.create_task(desk.answer(name, lambda _, name=name: make(name)))
            for name in ("a", "b", "a", "a", "c")
        ]
        await asyncio.sleep(0)
        asking[0].cancel()
        found = await asyncio.gather(*asking, return_exceptions=True)
        again = await desk.answer("a", lambda _: make("a"))
        return [*found[1:], again]

    found = asyncio.run(scenario())
    assert found == [[b"b"], [b"a"], [b"a"], [b"c"], [b"a"]]
    assert made == ["a", "b", "c", "a"]


def test_what_fails_at_the_desk_fails_for_who_asked_and_no_other() -> None:
    """
    The next answer is put together as if nothing had been.
    """

    async def broken(_: Slices) -> list[bytes]:
        raise OSError("no")

    async def whole(_: Slices) -> list[bytes]:
        return [b"x"]

    async def scenario() -> list[bytes]:
        desk = Desk()
        with pytest.raises(OSError, match="no"):
            await desk.answer("a", broken)
        return await desk.answer("a", whole)

    assert asyncio.run(scenario()) == [b"x"]
