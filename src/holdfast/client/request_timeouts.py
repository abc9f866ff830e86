"""
The failover option `timeout`: how long a request waits for a broker while there is no link.

Invariants:
    Deadlines are set in the order of time, so the timer that runs is the earliest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.client.outstanding import Operation, Outstanding
from holdfast.errors import LinkLostError


class RequestTimeouts:
    """Of one session; `seconds` is None where the option is not given, and then nothing happens."""

    def __init__(
        self, outstanding: Outstanding, seconds: float | None, told: Callable[[], None]
    ) -> None:
        self._outstanding = outstanding
        self._seconds = seconds
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, operation: Operation) -> None:
        """An operation begins to wait for a link."""
        if self._seconds is not None:
            operation.deadline = self._loop.time() + self._seconds
            self._plan()

    def limit_all(self) -> None:
        """The link is lost: all that is outstanding waits for another one."""
        if self._seconds is not None:
            self._outstanding.set_deadlines(self._loop.time() + self._seconds)
            self._plan()

    def clear(self) -> None:
        """There is a link."""
        self._outstanding.clear_deadlines()
        self.stop()

    def stop(self) -> None:
        """The session ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        deadline = self._outstanding.next_deadline() if self._timer is None else None
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._ended)

    def _ended(self) -> None:
        self._timer = None
        error = LinkLostError(
            f"no broker for {self._seconds:g} s (failover option timeout);"
            " whether this was stored is unknown"
        )
        for operation in self._outstanding.take_expired(self._loop.time()):
            operation.abandoned(error)
        self._told()
        self._plan()
