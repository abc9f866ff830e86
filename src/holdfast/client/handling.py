"""
Handlers: messages handed to a function, each in a task of its own, so many at once.

Invariants:
    A handler that fails is logged, its message is rejected or given back, and the next ones come
    nevertheless.
    A handler that ends has its message settled, or left to a transaction that will settle it,
    unless its own task was cancelled.
    When consuming has ended none of its handlers runs any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Protocol, TypeAlias

from holdfast.client.message import Message
from holdfast.client.processing import check_delay
from holdfast.errors import ConfigError, HoldfastError, UnfinishedHandlingError

logger = logging.getLogger("holdfast.client")

Handler: TypeAlias = Callable[[Message], Awaitable[object]]


class Source(Protocol):
    """A subscription as `consume` sees it."""

    @property
    def mode(self) -> str:
        """How messages are acknowledged."""

    async def __anext__(self) -> Message:
        """The next message."""


def check_consuming(mode: str, concurrency: int) -> None:
    """
    Whether `consume` can keep its word.

    Raises:
        ConfigError: The concurrency is below 1, or the mode settles others with a message.
    """
    problems = []
    if concurrency < 1:
        problems.append(f"concurrency is {concurrency}; it must be 1 or more")
    if mode != "client-individual":
        problems.append(
            f"consuming with a handler needs acknowledge='client-individual', not {mode!r}: each"
            " message is settled when its own handler has ended"
        )
    if problems:
        raise ConfigError(problems)


def check_count(count: int) -> None:
    """
    Whether so many messages can be fetched.

    Raises:
        ConfigError: Fewer than one.
    """
    if count < 1:
        raise ConfigError([f"count is {count}; it must be 1 or more"])


async def consume(
    source: Source, handler: Handler, concurrency: int, give_back_after: float | None = None
) -> None:
    """Hand messages to `handler` until the source ends; see `Subscription.consume`."""
    check_consuming(source.mode, concurrency)
    check_delay(give_back_after)
    # Leaving the group waits for the handlers, however often that wait is cancelled. An error that
    # left it would cancel them, so it is told when they have ended.
    async with asyncio.TaskGroup() as handlers:
        handle = partial(_handle, handler=handler, give_back_after=give_back_after)
        failure = await _hand_over(source, handle, handlers, concurrency)
    if failure is not None:
        raise failure


async def _hand_over(
    source: Source,
    handle: Callable[[Message], Coroutine[None, None, None]],
    handlers: asyncio.TaskGroup,
    concurrency: int,
) -> HoldfastError | None:
    """Give each message a task; ends with the source, and gives by which error if by any."""
    room = asyncio.Semaphore(concurrency)
    try:
        while True:
            await room.acquire()
            message = await source.__anext__()
            task = handlers.create_task(handle(message))
            task.add_done_callback(lambda _: room.release())
    except StopAsyncIteration:
        return None
    except HoldfastError as error:
        return error


async def _handle(message: Message, *, handler: Handler, give_back_after: float | None) -> None:
    try:
        async with message.process(give_back_after=give_back_after):
            await _run(handler, message)
    except Exception:
        logger.exception("%s: its handler failed, or what it did could not be told", message)


async def _run(handler: Handler, message: Message) -> None:
    try:
        await handler(message)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Not ours: it awaited something that was cancelled. Nobody would ever settle the message.
        raise UnfinishedHandlingError(
            f"{message}: what its handler awaited was cancelled"
        ) from error
