"""
The ways to take messages from a subscription: one, several, or handed to a function.

All of them rest on one step, the next message as `__anext__` gives it, and on what is here already.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress

from holdfast.client.handling import Handler, check_count, consume
from holdfast.client.message import Message
from holdfast.client.overflow import Overflowed
from holdfast.client.replying import Answering, reply_if_awaited, send_reply
from holdfast.client.sent_properties import Properties
from holdfast.client.session import ClientSession
from holdfast.client.wire import Body, Headers


class Receiver(ABC):
    """A subscription, as far as messages are taken from it."""

    mode: str
    """How messages are acknowledged."""

    _session: ClientSession
    _buffer: deque[Message | Overflowed]
    _last: list[Message]
    """What is to be acknowledged when more is asked for, in mode "auto"."""

    @abstractmethod
    async def __anext__(self) -> Message:
        """The next message. Cancelling takes none."""

    @abstractmethod
    def _take(self) -> Message:
        """The first of what is here."""

    async def receive(self, seconds: float | None = None) -> Message | None:
        """
        The next message, or None if none comes in time or the subscription is closed.

        Args:
            seconds: How long to wait; None waits for ever, 0 takes only what is here already.

        Raises as iterating does. Cancelling takes none.
        """
        try:
            if self._buffer:
                return await self.__anext__()
            async with asyncio.timeout(seconds):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    async def fetch(self, count: int, seconds: float | None = None) -> list[Message]:
        """
        Up to `count` messages: waits for the first as `receive` does, and takes what else is here.

        None at all if none comes in time or the subscription is closed; more than one as far as
        `received_bytes_max` holds. In mode "auto" they are acknowledged when more are asked for.
        Cancelling takes none. Raises as iterating does; ConfigError for a count below 1.
        """
        check_count(count)
        first = await self.receive(seconds)
        messages = [] if first is None else [first]
        room = self._session.settings.received_bytes_max
        with suppress(OSError):  # Of a file that cannot be read: who asks for it next is told.
            while self._buffer and 0 < len(messages) < count and room > messages[-1].size_bytes:
                room -= messages[-1].size_bytes
                messages.append(self._take())
        self._last = messages[:]
        return messages

    async def consume(
        self, handler: Handler, *, concurrency: int = 1, give_back_after: float | None = None
    ) -> None:
        """
        Await `handler(message)` for each message, so many at once, until the subscription ends.

        Each is settled as by `Message.process`; a handler's error is logged, and the others go on.
        With a concurrency of 1 they are handled in their order; at most `prefetch` at once.
        Cancelling cancels the handlers and waits for them; what they had not settled is delivered
        again once the subscription is left.

        Raises:
            ConfigError: The concurrency is below 1, or the mode is not "client-individual".
            LinkError, RefusedError: As iterating does; the handlers have ended by then.
        """
        await consume(self, handler, concurrency, give_back_after)

    async def answer(
        self,
        answering: Answering,
        *,
        concurrency: int = 1,
        give_back_after: float | None = None,
    ) -> None:
        """
        Answer each message with what `answering(message)` gives, so many at once.

        As `consume`: a request is acknowledged when its answer is on its way; what the function
        raises is logged, rejects the request or gives it back, and nobody is answered. If whoever
        asked has gone meanwhile, or awaits no answer, the request is done nevertheless.
        """

        async def handle(message: Message) -> None:
            await reply_if_awaited(message, await answering(message))

        await self.consume(handle, concurrency=concurrency, give_back_after=give_back_after)

    async def reply(
        self,
        message: Message,
        body: Body,
        headers: Headers | None,
        *,
        persistent: bool | None,
        properties: Properties,
    ) -> None:
        """Answer a message; see `Message.reply`."""
        await send_reply(
            self._session, message, body, headers, persistent=persistent, properties=properties
        )
