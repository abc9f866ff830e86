"""
Tasks that wait for one condition, and are woken in the order in which they came.

Who is woken looks at the condition again. A wait that is given up passes its turn on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class Waiters:
    """Tasks that wait for one condition."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self) -> None:
        """Wait to be woken; the condition is then to be checked again."""
        waiter = self._loop.create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        except asyncio.CancelledError:
            # What is waited for may be long in coming, and many may give up until then.
            self._waiting.pop(waiter, None)
            # Woken and cancelled at once: the place goes to the next in line.
            if waiter.done() and not waiter.cancelled():
                self.wake_one()
            raise

    def wake_one(self) -> None:
        """Wake who has waited longest."""
        waiting = self._waiting
        while waiting:
            waiter, _ = waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return

    def wake_all(self) -> None:
        """Wake everybody."""
        while self._waiting:
            self.wake_one()
