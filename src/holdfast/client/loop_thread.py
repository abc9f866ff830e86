"""
The thread with an event loop in it, and the ways there from other threads.

A call from where it could never return is refused by name: on the loop's own thread (a listener)
waiting for the loop would be for ever, and a forked child has no such thread.

Invariants:
    What was given to `run` or `call` before `stop` is run; after it, it is refused.
    A `run` that waits when the loop is stopped gets a result or an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

import uvloop

from holdfast.client.thread_call import ThreadCall
from holdfast.errors import HoldfastError, LinkLostError, MisplacedCallError

Result = TypeVar("Result")

END_SECONDS_MAX = 1.0
"""How long what still runs when the loop is stopped may take to end by itself."""


_threads: WeakSet[LoopThread] = WeakSet()


def _forked() -> None:
    for thread in _threads:
        thread.is_foreign = True


os.register_at_fork(after_in_child=_forked)


class LoopThread:
    """A thread with an event loop in it."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._process = os.getpid()
        # Reentrant: a signal handler may call while the thread it interrupts is in here.
        self._gate = threading.RLock()
        self.is_stopping = False
        """Whether nothing more is taken."""

        self.is_foreign = False
        """Whether this is a forked child of the process that has the thread."""

        _threads.add(self)
        self._thread = threading.Thread(target=self._run, name="holdfast-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_end_tasks())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def is_current(self) -> bool:
        """Whether this is called on the loop's own thread."""
        # Not by the number: that of a thread that has ended is given to another one.
        return threading.current_thread() is self._thread

    def check_process(self) -> None:
        """
        Raise in a forked child, which has the connection's memory but neither thread nor link.

        Raises:
            MisplacedCallError: This is another process.
        """
        if self.is_foreign:
            raise MisplacedCallError(
                f"the connection belongs to process {self._process};"
                " a forked child must open one of its own"
            )

    def check_may_wait(self) -> None:
        """
        Raise where waiting for the loop would be for ever.

        Raises:
            MisplacedCallError: This is a forked child, or the loop's own thread.
        """
        self.check_process()
        if self.is_current:
            raise MisplacedCallError(
                "a listener runs on the connection's own thread and cannot wait for it;"
                " hand the work to another thread"
            )

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine over there and wait for it; an interrupted wait cancels it."""
        call = ThreadCall(self.loop, coroutine)
        try:
            try:
                self.check_may_wait()
                self.call(call.begin)
            except HoldfastError:
                # Refused: nobody over there has it.
                coroutine.close()
                raise
            return call.outcome()
        except BaseException:
            # If it was handed over, then before this. A loop that is ending ends it by itself.
            with contextlib.suppress(HoldfastError):
                self.call(call.give_up)
            raise

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """
        Have a function called over there, soon.

        Raises:
            LinkLostError: The loop has ended, or is about to.
            MisplacedCallError: This is a forked child.
        """
        self.check_process()
        with self._gate:
            self._check_open()
            self.loop.call_soon_threadsafe(function, *arguments)

    def _check_open(self) -> None:
        if self.is_stopping:
            raise LinkLostError("the connection is closed")

    def stop(self) -> None:
        """End the loop and its thread; doing it twice does nothing."""
        with self._gate:
            if not self.is_stopping:
                self.is_stopping = True
                self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


async def _end_tasks() -> None:
    """Let what other threads wait for end: by itself, or cancelled."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, running = await asyncio.wait(tasks, timeout=END_SECONDS_MAX)
        for task in running:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # The futures of other threads hear of it in the loop's next turn.
    await asyncio.sleep(0)
