"""
Producer ids that are lent: one for each of some sends that are independent of each other.

Under one id the refusal of one would take the others with it. Ids are used again, so there are few.

Invariants:
    A borrowed id has nothing under way, and nobody else has it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.client.sequence import ProducerSequence
from holdfast.client.settings import ClientSettings
from holdfast.client.waiters import Waiters
from holdfast.errors import HoldfastError


class Lender(Protocol):
    """The session, as far as lending looks at it."""

    settings: ClientSettings
    failure: HoldfastError | None

    @property
    def has_room(self) -> bool:
        """Whether less is unconfirmed than the limit."""

    async def room_was_made(self) -> None:
        """Wait until there may be room; the limit is then to be looked at again."""

    def next_producer_id(self) -> str:
        """A producer id that nobody else has."""

    def check_open(self) -> None:
        """Raise what ended the session, if it has ended."""


class SequenceLoans:
    """The producer ids of one session that are lent, and those that wait to be."""

    def __init__(self, lender: Lender) -> None:
        self._lender = lender
        self.waiters = Waiters()
        self._free: list[ProducerSequence] = []
        self.busy_count = 0
        """How many are lent."""

    async def take(self) -> ProducerSequence:
        """
        Borrow a producer id that has nothing under way; `give_back` returns it.

        There is room, too, in the moment in which this returns: it may have gone while a place was
        waited for.

        Raises:
            LinkError: The session ended.
        """
        lender = self._lender
        while lender.failure is None:
            if self.busy_count >= lender.settings.concurrent_sends_count_max:
                await self.waiters.wait()
            elif not lender.has_room:
                await self._wait_room_with_a_place()
            else:
                break
        lender.check_open()
        self.busy_count += 1
        if self._free:
            return self._free.pop()
        return ProducerSequence(lender.next_producer_id)

    async def _wait_room_with_a_place(self) -> None:
        try:
            await self._lender.room_was_made()
        except asyncio.CancelledError:
            # The place we were woken for is another one's.
            self.waiters.wake_one()
            raise

    def give_back(self, sequence: ProducerSequence) -> None:
        """Give a borrowed producer id back: nothing is under way under it any more."""
        self.busy_count -= 1
        self._free.append(sequence)
        self.waiters.wake_one()
