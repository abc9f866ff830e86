"""
Handlers without asyncio: messages handed to a plain function, so many at once in threads.

The caller's thread is the one in which signal handlers run, and they may raise at any of its steps.
So it starts no thread but by one call that cannot be interrupted within, and waits by nothing that
is written in Python (`thread_waiters` says why): a lock that stayed taken would keep the handlers
from ending, and the program with them.

Invariants:
    As in `handling`: a failure is logged and its message rejected, and nothing runs when consuming
    has ended.
    A message that the source gave is handled, or given back to it.
"""

from __future__ import annotations

import _thread
import logging
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Generic, TypeVar

from holdfast.client.processing import BlockingProcessing, SettleableBlocking
from holdfast.client.thread_waiters import ThreadWaiters
from holdfast.errors import UnfinishedHandlingError

logger = logging.getLogger("holdfast.client")

MessageT = TypeVar("MessageT", bound=SettleableBlocking)


class _Workers(Generic[MessageT]):
    """
    Threads that take what is put before them: one waits, as long as there are not so many at work.

    Each is started by another one, where no signal handler runs, and the first by `begin`.
    """

    def __init__(
        self,
        handler: Callable[[MessageT], object],
        count_max: int,
        give_back_after: float | None,
    ) -> None:
        self._handler = handler
        self._give_back_after = give_back_after
        self._count_max = count_max
        self._put: SimpleQueue[list[MessageT] | None] = SimpleQueue()
        self._lock = threading.Lock()
        """Of the counts, which only the workers change."""

        self._changed = ThreadWaiters()
        self._is_begun = False
        self._running_count = 1
        self._handled_count = 0
        self._given_count = 0

    def begin(self) -> None:
        """Start the first; interrupted, it may be running, and nothing was given to it."""
        _thread.start_new_thread(self._work, ())
        self._is_begun = True

    def give(self, item: list[MessageT]) -> None:
        """Have a message handled, which is taken out of its list; waits for room for another."""
        self._put.put(item)
        self._given_count += 1
        while not self._changed.wait(self._has_room):
            pass

    def _has_room(self) -> bool:
        return self._given_count - self._handled_count < self._count_max

    def end(self) -> None:
        """Wait until all that was given is handled, and nobody works. Again, if interrupted."""
        self._put.put(None)
        while self._is_begun and not self._changed.wait(self._is_over):
            pass

    def _is_over(self) -> bool:
        return not self._running_count

    def _work(self) -> None:
        try:
            while item := self._put.get():
                self._start_another()
                self._handle(item.pop())
                with self._lock:
                    self._handled_count += 1
                self._changed.wake()
        finally:
            self._put.put(None)  # For the next one.
            with self._lock:
                self._running_count -= 1
            self._changed.wake()

    def _start_another(self) -> None:
        with self._lock:
            if self._running_count == self._count_max:
                return
            self._running_count += 1
        try:
            threading.Thread(target=self._work, name="holdfast-handler", daemon=True).start()
        except RuntimeError as error:  # There may be no more threads.
            logger.warning("handlers run in fewer threads than asked for: %s", error)
            with self._lock:
                self._running_count -= 1

    def _handle(self, message: MessageT) -> None:
        try:
            with BlockingProcessing(message, confirm=False, give_back_after=self._give_back_after):
                _run(self._handler, message)
        except Exception:
            logger.exception("%s: its handler failed, or what it did could not be told", message)


def consume_blocking(
    source: Iterable[MessageT],
    handler: Callable[[MessageT], object],
    concurrency: int,
    give_back: Callable[[MessageT], object],
    give_back_after: float | None = None,
) -> None:
    """
    Hand messages to `handler` until there are no more; see `BlockingSubscription.consume`.

    What an interruption has left between the source and the handlers is given back.
    """
    workers = _Workers(handler, concurrency, give_back_after)
    item: list[MessageT] = []
    try:
        workers.begin()
        # In C from the source to the name `item`: no signal is seen in between.
        for item in map(list, zip(source)):
            workers.give(item)
        workers.end()
    except BaseException:
        workers.end()
        for message in item:
            give_back(message)
        raise


def _run(handler: Callable[[MessageT], object], message: MessageT) -> None:
    try:
        handler(message)
    except Exception:
        raise
    except BaseException as error:
        # It ends no program from this thread, and nobody would ever settle the message.
        raise UnfinishedHandlingError(
            f"{message}: its handler wanted to exit, in a thread"
        ) from error
