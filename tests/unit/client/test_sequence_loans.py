"""Producer ids that are lent: nobody shares one, and no place is lost."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from holdfast.client.sequence_loans import SequenceLoans
from holdfast.client.settings import ClientSettings
from holdfast.client.waiters import Waiters
from holdfast.errors import LinkLostError


class PaperLender:
    """A session whose room and end are set by the test."""

    def __init__(self, count_max: int) -> None:
        self.settings = ClientSettings(concurrent_sends_count_max=count_max)
        self.failure = None
        self.has_room = True
        self.room = Waiters()
        self._ids = count(1)

    async def room_was_made(self) -> None:
        await self.room.wait()

    def next_producer_id(self) -> str:
        return f"p-{next(self._ids)}"

    def check_open(self) -> None:
        if self.failure is not None:
            raise self.failure


async def test_what_was_given_back_is_lent_again() -> None:
    """So there are as few ids as were ever busy at once."""
    loans = SequenceLoans(PaperLender(8))
    one, two = await loans.take(), await loans.take()
    assert one.id != two.id

    loans.give_back(one)

    assert await loans.take() is one


async def test_beyond_the_limit_whoever_waited_longest_is_next() -> None:
    """A place that comes free goes to the first in line."""
    loans = SequenceLoans(PaperLender(1))
    busy = await loans.take()
    waiting = [asyncio.create_task(loans.take()) for _ in range(2)]
    await asyncio.sleep(0)

    loans.give_back(busy)

    assert await waiting[0] is busy
    assert not waiting[1].done()
    waiting[1].cancel()


async def test_who_gives_up_for_want_of_room_passes_the_place_on() -> None:
    """Woken for a place, cancelled while there is no room: the next in line has the place."""
    lender = PaperLender(1)
    loans = SequenceLoans(lender)
    busy = await loans.take()
    hasty, patient = (asyncio.create_task(loans.take()) for _ in range(2))
    await asyncio.sleep(0)
    lender.has_room = False
    loans.give_back(busy)
    await asyncio.sleep(0)
    assert len(lender.room) == 1

    hasty.cancel()
    await asyncio.wait([hasty])
    await asyncio.sleep(0)
    lender.has_room = True
    lender.room.wake_all()

    assert await patient is busy


async def test_the_end_of_the_session_is_told() -> None:
    """Whoever waits for a place hears why none will come."""
    lender = PaperLender(1)
    loans = SequenceLoans(lender)
    await loans.take()
    waiting = asyncio.create_task(loans.take())
    await asyncio.sleep(0)

    lender.failure = LinkLostError("gone")
    loans.waiters.wake_all()

    with pytest.raises(LinkLostError, match="gone"):
        await waiting
