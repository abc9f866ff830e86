"""
Logins by SCRAM on one node, for every port whose protocol carries it.

Nothing of them takes long, so they are judged on the loop; what waits is only a refusal, until it
is due.

Invariants:
    Where it is not offered no exchange is begun: nobody is told by it who there is.

Owned by the loop.
"""

from __future__ import annotations

import asyncio

from holdfast.environment.clock import Clock
from holdfast.errors import AuthenticationError
from holdfast.security.checking import Refusal
from holdfast.security.scram_exchanges import Begun, Exchanges, Proven
from holdfast.server.scram_offer import ScramOffer


class ScramLogins:
    """Everybody who shows a password without sending it."""

    __slots__ = ("_clock", "_exchanges", "_offer")

    def __init__(self, offer: ScramOffer, exchanges: Exchanges, clock: Clock) -> None:
        """Offer it where `offer` says so; refusals are due by `clock`."""
        self._offer = offer
        self._exchanges = exchanges
        self._clock = clock

    @property
    def is_offered(self) -> bool:
        """Whether clients may log in so."""
        return self._offer.is_made()

    async def look(self) -> None:
        """Find out whether it is offered, in as many turns of the loop as that takes."""
        while not self._offer.look():  # noqa: ASYNC110 - nothing is waited for: it goes on
            await asyncio.sleep(0)

    def name_of(self, sid: str) -> str:
        """Give whose exchange this is; empty: there is none."""
        return self._exchanges.name_of(sid)

    async def begin(self, message: bytes, address: str) -> Begun:
        """
        Take the first message of somebody at an address.

        Raises:
            AuthenticationError: It cannot be begun; the sentence is for him.
        """
        found = self._exchanges.begin(message, address, self._clock.monotonic())
        if isinstance(found, Refusal):
            raise await self._due(found)
        return found

    async def finish(self, sid: str, message: bytes, address: str) -> Proven:
        """
        Take his last message. A refusal takes its time; cancelled, nobody is told.

        Raises:
            AuthenticationError: He is not let in; the sentence is for him.
        """
        found = self._exchanges.finish(sid, message, address, self._clock.monotonic())
        if isinstance(found, Refusal):
            raise await self._due(found)
        return found

    async def _due(self, refusal: Refusal) -> AuthenticationError:
        """Give a refusal when it is due."""
        delay = refusal.due - self._clock.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        return AuthenticationError(refusal.reason)
