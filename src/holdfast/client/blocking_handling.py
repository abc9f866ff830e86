"""
Handlers without asyncio: messages handed to a plain function, so many at once in threads.

Invariants:
    As in `handling`: a failure is logged and its message rejected, and nothing runs when consuming
    has ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.client.processing import BlockingProcessing, SettleableBlocking
from holdfast.errors import UnfinishedHandlingError

logger = logging.getLogger("holdfast.client")

MessageT = TypeVar("MessageT", bound=SettleableBlocking)


def consume_blocking(
    messages: Iterable[MessageT], handler: Callable[[MessageT], object], concurrency: int
) -> None:
    """Hand messages to `handler` until there are no more; see `BlockingSubscription.consume`."""
    room = threading.Semaphore(concurrency)

    def handle(message: MessageT) -> None:
        try:
            with BlockingProcessing(message, confirm=False):
                _run(handler, message)
        except Exception:
            logger.exception("%s: its handler failed, or what it did could not be told", message)
        finally:
            room.release()

    with ThreadPoolExecutor(concurrency, "holdfast-handler") as workers:
        room.acquire()
        for message in messages:
            workers.submit(handle, message)
            room.acquire()


def _run(handler: Callable[[MessageT], object], message: MessageT) -> None:
    try:
        handler(message)
    except SystemExit as error:
        # It ends no program from this thread, and nobody would ever settle the message.
        raise UnfinishedHandlingError(
            f"{message}: its handler wanted to exit, in a thread"
        ) from error
