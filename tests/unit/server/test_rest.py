"""
The pause between two looks at the clock: what happens meanwhile ends it earlier, once.

The loop's clock is a made-up one that goes on to the next thing that is due: nobody waits here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.server.rest import Rest

LONG, SHORT = 8.0, 0.5


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop on which no time passes but when it has nothing to do but wait."""

    leapt = 0.0

    def time(self) -> float:
        return self.leapt

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.leapt = max(self.leapt, min(it.when() for it in self._scheduled))
        super()._run_once()


def rested(seconds: float, events: dict[float, Callable[[Rest], None]]) -> float:
    """For how long it rests, where something happens at these times."""
    rest = Rest()

    async def work() -> float:
        loop = asyncio.get_running_loop()
        for at, event in events.items():
            loop.call_later(at, event, rest)
        await rest.take(seconds, SHORT)
        return loop.time()

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work())


def happen(rest: Rest) -> None:
    """What a turn does at its end."""
    if rest.is_long:
        rest.cut_short()


def test_where_nothing_happens_it_is_as_long_as_was_said() -> None:
    """Long or short."""
    assert rested(LONG, {}) == LONG
    assert rested(SHORT, {}) == SHORT


def test_what_happens_ends_it_a_little_later() -> None:
    """However much happens: the first thing counts, else busy links would put the look off."""
    assert rested(LONG, {2.0: happen}) == 2.0 + SHORT
    assert rested(LONG, {2.0: happen, 2.25: happen, 2.4375: happen}) == 2.0 + SHORT


def test_what_happens_never_makes_it_longer() -> None:
    """Nor one that is short as it is."""
    assert rested(LONG, {LONG - SHORT / 2: happen}) == LONG
    assert rested(SHORT, {SHORT / 2: happen}) == SHORT


def test_it_is_long_only_while_it_is_under_way() -> None:
    """Turns ask for that, thousands in a second, and nothing else."""
    rest = Rest()
    seen: list[bool] = []

    async def work() -> None:
        asyncio.get_running_loop().call_later(1.0, lambda: seen.append(rest.is_long))
        await rest.take(LONG, SHORT)

    seen.append(rest.is_long)
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(work())
    seen.append(rest.is_long)
    assert seen == [False, True, False]


def test_one_that_is_cancelled_leaves_nothing_behind() -> None:
    """The node ends in the middle of one."""
    rest = Rest()

    async def work() -> bool:
        resting = asyncio.create_task(rest.take(LONG, SHORT))
        asyncio.get_running_loop().call_later(1.0, resting.cancel)
        await asyncio.wait({resting})
        return resting.cancelled() and not rest.is_long

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        assert runner.run(work())
