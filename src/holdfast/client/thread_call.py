"""
One coroutine handed to the loop's thread, and waited for on another where signals may come.

`concurrent.futures.Future` waits by a condition that is written in Python. An exception from a
signal handler between two lines of it leaves its lock taken, on which the loop's thread would then
wait for ever, or is told as a RuntimeError. Here the wait is the `acquire` of a plain lock.

Invariants:
    The lock is released once, when there is an outcome; nothing else ever waits for it.
    The coroutine is touched on the loop's thread only.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar, cast

from holdfast.client.interruptible import acquire
from holdfast.errors import LinkLostError

Result = TypeVar("Result")


class ThreadCall(Generic[Result]):
    """Schedule `begin`, then wait for the `outcome`; if that raises, schedule `give_up`."""

    __slots__ = ("_answered", "_coroutine", "_error", "_loop", "_result", "_task")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Result]
    ) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[Result] | None = None
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._answered = threading.Lock()
        self._answered.acquire()

    def begin(self) -> None:
        """Run the coroutine."""
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def give_up(self) -> None:
        """Nobody waits any more: cancel it, if it has begun and not ended."""
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[Result]) -> None:
        if task.cancelled():
            self._error = LinkLostError("the connection was closed meanwhile")
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        self._answered.release()

    def outcome(self) -> Result:
        """
        Wait for the result.

        Raises:
            LinkLostError: It was cancelled over there.

        And what the coroutine raises.
        """
        acquire(self._answered)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return cast("Result", self._result)
