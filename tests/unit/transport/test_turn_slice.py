"""
Whose records are worked on: a slice of each turn, one piece each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.transport.turn_slice import UNITS_PER_TURN, TurnSlice


class Fake:
    """Somebody with so many pieces to be worked on."""

    def __init__(self, own: TurnSlice, done: list[str], name: str, pieces: int, units: int) -> None:
        self.own = own
        self.done = done
        self.name = name
        self.pieces = pieces
        self.units = units

    def work(self) -> None:
        self.done.append(self.name)
        self.own.spend(self.units)
        self.pieces -= 1
        if self.pieces:
            self.own.wait(self)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_a_turn_does_its_slice_and_each_has_one_piece_at_a_time() -> None:
    """A thousand that came together would be a stop of the loop; the first does not go before."""

    async def work() -> None:
        own, done = TurnSlice(), list[str]()
        assert own.is_open
        for name in "abc":
            own.wait(Fake(own, done, name, 2, UNITS_PER_TURN // 4))
        assert not own.is_open, "somebody waits"
        await asyncio.sleep(0)
        assert "".join(done) == "abca"
        assert not own.is_open
        await asyncio.sleep(0)
        assert "".join(done) == "abcabc"
        await asyncio.sleep(0)
        assert own.is_open

    run(work)


def test_what_is_done_at_once_is_of_the_same_slice() -> None:
    """It is open again in the next turn; who asks twice has one place, who left has none."""

    async def work() -> None:
        own, done = TurnSlice(), list[str]()
        own.spend(UNITS_PER_TURN)
        assert not own.is_open
        await asyncio.sleep(0)
        assert own.is_open
        one, other = (Fake(own, done, name, 1, 0) for name in "ab")
        for who in (one, other, one):
            own.wait(who)
        own.leave(other)
        own.leave(other)
        await asyncio.sleep(0)
        assert done == ["a"]

    run(work)


def test_a_mistake_of_one_holds_up_nobody_else() -> None:
    """Those behind it have their turn all the same."""

    async def work() -> None:
        own, done, told = TurnSlice(), list[str](), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, it: told.append(it["exception"]))
        broken = Fake(own, done, "broken", 1, 0)
        broken.units = None  # type: ignore[assignment]
        own.wait(broken)
        own.wait(Fake(own, done, "a", 1, 0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert done == ["broken", "a"]
        assert len(told) == 1

    run(work)


def test_pieces_that_cost_nothing_are_bounded_too() -> None:
    """Somebody that waits again and again, and does nothing, ends no loop."""

    async def work() -> None:
        own, done = TurnSlice(), list[str]()
        own.wait(Fake(own, done, "a", 10 * UNITS_PER_TURN, 0))
        await asyncio.sleep(0)
        assert len(done) == UNITS_PER_TURN

    run(work)
