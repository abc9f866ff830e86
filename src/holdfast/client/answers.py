"""
Requests and their answers: one temporary queue of a connection, on which all answers come.

Its name is the client's own: at a Holdfast it is the same on every link and under every leader, and
answers wait there while the connection is lost. An answer says which request it answers by its
`correlation-id`; what nobody awaits any more is dropped.

Invariants:
    Whoever waits hears of the answer, of the connection's end, or that there was none in time.
    A request is sent once, but for those that may be repeated, which a new link sends again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.client.consumer import Subscription
from holdfast.client.message import Message
from holdfast.client.refusal import anew
from holdfast.client.requests import fail
from holdfast.client.wire import encode_text
from holdfast.errors import HoldfastError, LinkLostError, LocalProtocolError, UnansweredError

logger = logging.getLogger("holdfast.client")

PLACE: Final = "/temp-queue/answers"


class Awaited:
    """A request that is not answered yet."""

    __slots__ = ("answer", "repeat", "repeating")

    def __init__(
        self, answer: asyncio.Future[Message], repeat: Callable[[], Awaitable[None]] | None
    ) -> None:
        self.answer = answer
        self.repeat = repeat
        """How it is sent again on a new link; None: it is not."""
        self.repeating: asyncio.Future[None] | None = None


class Answers:
    """The requests of one connection. `make_subscription` makes one of a destination."""

    def __init__(self, make_subscription: Callable[[str], Subscription]) -> None:
        self._make_subscription = make_subscription
        self._awaited: dict[str, Awaited] = {}
        self._opening: asyncio.Future[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def ask(
        self,
        correlation_id: str,
        send: Callable[[], Awaitable[None]],
        *,
        seconds: float | None,
        is_repeatable: bool,
    ) -> Message:
        """
        Send a request and wait for its answer; cancelling stops the wait, not the request.

        Raises:
            UnansweredError: None came in time.
            LocalProtocolError: The same correlation id is awaited already.
            HoldfastError: It could not be sent, or the connection has ended.
        """
        encode_text(correlation_id, "property 'correlation_id'")
        if correlation_id in self._awaited:
            raise LocalProtocolError(
                f"an answer with correlation_id {correlation_id!r} is awaited already",
                code="correlation-id-in-use",
            )
        awaited = Awaited(asyncio.get_running_loop().create_future(), None)
        self._awaited[correlation_id] = awaited
        try:
            async with asyncio.timeout(seconds):
                await self._ready()
                await send()
                awaited.repeat = send if is_repeatable else None
                return await awaited.answer
        except TimeoutError as error:
            raise UnansweredError(f"no answer within {seconds} s") from error
        finally:
            del self._awaited[correlation_id]
            if awaited.repeating is not None:
                awaited.repeating.cancel()

    def resumed(self) -> None:
        """A new link is there: send again what may be sent again."""
        for awaited in self._awaited.values():
            if awaited.repeat is not None and not awaited.answer.done():
                awaited.repeating = asyncio.ensure_future(_repeat(awaited, awaited.repeat))

    async def _ready(self) -> None:
        """Wait until answers can come; whoever asks first subscribes."""
        while self._reading is None or self._reading.done():
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
            opening = self._opening
            # One who is cancelled must not end it for the others.
            await asyncio.shield(opening)

    async def _open(self) -> None:
        try:
            subscription = await self._make_subscription(PLACE).open()
            self._reading = asyncio.ensure_future(self._read(subscription))
        finally:
            self._opening = None

    async def _read(self, subscription: Subscription) -> None:
        end: HoldfastError = LinkLostError("the connection is closed")
        try:
            async for message in subscription:
                awaited = self._awaited.get(message.correlation_id or "")
                if awaited is None:
                    logger.debug("nobody awaits %s", message)
                elif not awaited.answer.done():
                    awaited.answer.set_result(message)
                await message.acknowledge()
        except HoldfastError as error:
            end = error
        except OSError as error:  # Of a large answer's file.
            end = LinkLostError(f"the answers cannot be read: {error}")
        subscription.abandon()  # Answers must not come where nobody takes them.
        for awaited in self._awaited.values():
            if not awaited.answer.done():
                awaited.answer.set_exception(anew(end))


async def _repeat(awaited: Awaited, send: Callable[[], Awaitable[None]]) -> None:
    try:
        await send()
    except HoldfastError as error:
        fail(awaited.answer, error)
