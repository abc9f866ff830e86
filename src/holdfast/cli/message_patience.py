"""
For how long `send` and `receive` wait for a broker that does not answer.

The client library waits for ever behind a failover URI, as a program wants it. At a command line
somebody waits for the end, so there is a limit on the first connection, and on later outages and
missing answers where the command has a time limit at all.

Invariants:
    Only time without a broker, or without the answer to something asked, counts: neither a silent
    queue nor a slow pipe uses patience up.
    When it has run out the connection is ended first, so that nothing that is left waits for it.

For the one task of a command, on its loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from holdfast.client import Connection
from holdfast.errors import LinkError, LinkLostError

FIRST_SECONDS_DEFAULT: Final = 30.0
"""How long the first connection may take where nobody said how long: longer than any failover."""

GOODBYE_SECONDS_MAX: Final = 10.0
"""How long the broker's answer to the goodbye is waited for when all is done."""


class Patience:
    """The limit of one command; None waits for ever."""

    def __init__(
        self, uri: str, *, first_seconds: float | None, later_seconds: float | None
    ) -> None:
        self._first_seconds = first_seconds
        self._later_seconds = later_seconds
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._closing: asyncio.Task[None] | None = None
        self._limit = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._awaited = 0
        self._reason = f"no broker answered at {uri} within {first_seconds or 0:g} s"
        self._is_finished = False
        self.is_out = False
        """There is no broker now."""
        self.outages_count = 0
        """How often the broker was lost."""

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """
        Give up the block when patience has run out.

        Raises:
            LinkLostError: It has; the sentence says for what.
        """
        self._limit = asyncio.timeout(self._first_seconds)
        try:
            async with self._limit:
                yield
        except (TimeoutError, LinkError) as error:
            if not self._has_run_out:
                raise
            if not self._is_finished:
                raise LinkLostError(self._reason) from error
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if self._has_run_out and not self._is_finished:
            raise LinkLostError(self._reason)

    def connected(self, connection: Connection) -> None:
        """The first connection is there: from now on outages and missing answers count."""
        self._connection = connection
        self._limit.reschedule(None)
        connection.on_interrupted(lambda _: self._lost())
        connection.on_resumed(lambda _: self._back())

    @contextlib.contextmanager
    def answer(self) -> Iterator[None]:
        """The block waits for one answer of the broker."""
        self.asked()
        try:
            yield
        finally:
            self.answered()

    def asked(self) -> None:
        """The broker owes one answer more."""
        self._begin_to_wait()
        self._awaited += 1

    def answered(self) -> None:
        """It has given one."""
        self._awaited -= 1
        self._since = self._loop.time()

    def finished(self) -> None:
        """All is done but the goodbye: a broker that does not answer that spoils nothing."""
        if self._has_run_out:
            return
        self._is_finished = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._later_seconds = min(self._later_seconds or GOODBYE_SECONDS_MAX, GOODBYE_SECONDS_MAX)
        self._since = self._loop.time()
        self.asked()

    @property
    def _has_run_out(self) -> bool:
        return self._closing is not None or self._limit.expired()

    def _lost(self) -> None:
        self._begin_to_wait()
        self.is_out = True
        self.outages_count += 1

    def _back(self) -> None:
        self.is_out = False
        self._since = self._loop.time()

    def _begin_to_wait(self) -> None:
        if not self._awaited and not self.is_out:
            self._since = self._loop.time()
        # One timer for all answers, which looks again when it was too early: cheap per message.
        if self._timer is None and self._later_seconds is not None and not self._has_run_out:
            self._timer = self._loop.call_later(self._later_seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        assert self._later_seconds is not None, "a timer was set"
        if not self._awaited and not self.is_out:
            return
        left = self._since + self._later_seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._give_up()

    def _give_up(self) -> None:
        assert self._connection is not None, "the first connection has its own limit"
        what = "there was no broker" if self.is_out else "the broker did not answer"
        left = f"; {self._awaited:,} unconfirmed" if self._awaited else ""
        self._reason = f"{what} for {self._later_seconds:g} s: gave up{left}"
        # Ended before the block is left: leaving it would wait for answers once more.
        self._closing = self._loop.create_task(self._connection.close(is_graceful=False))
        self._limit.reschedule(self._loop.time())
