"""
The scripted broker in a thread of its own, for tests of the blocking face: nothing there may await.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from scripted_broker import ScriptedBroker


class Threaded:
    """A scripted broker in a thread; `do` runs a function over there."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.wait(self.broker.__aenter__())

    def wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def do(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return self.wait(called())

    def saw(self, condition: Callable[[], Any]) -> None:
        self.wait(self.broker.saw(condition))

    def close(self) -> None:
        async def drained() -> None:
            # Transports close in the turns after they are told to.
            for _ in range(5):
                await asyncio.sleep(0)

        self.do(self.broker.kill)
        self.wait(drained())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def within(function: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What a call gives or raises, from a thread of its own; an error if it never ends."""
    outcome: Future[Any] = Future()

    def called() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001 - told to who waits
            outcome.set_exception(error)

    threading.Thread(target=called, daemon=True).start()
    return outcome.result(seconds)
