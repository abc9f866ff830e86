"""
Receiving for plain functions: what a subscription has taken crosses from the loop's thread in bulk.

Invariants:
    Nothing of the asyncio client is touched from another thread than the loop's.
    A message is either still here or in the caller's hands, wherever a signal handler raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias, Unpack

from holdfast.client.blocking_handling import consume_blocking
from holdfast.client.consumer import Subscription
from holdfast.client.handling import check_consuming, check_count
from holdfast.client.loop_thread import LoopThread
from holdfast.client.message import Message
from holdfast.client.processing import BlockingProcessing, check_delay
from holdfast.client.properties import MessageProperties
from holdfast.client.replying import reply_if_awaited
from holdfast.client.sent_properties import Properties
from holdfast.client.settlements import ACKNOWLEDGE, REJECT, come_again
from holdfast.client.wire import Body, Headers
from holdfast.errors import HoldfastError, LinkError, LinkLostError
from holdfast.model.limits import KiB

logger = logging.getLogger("holdfast.client")

BATCH_COUNT_MAX = 100
"""Most messages a subscription takes over from the loop's thread at once."""

BATCH_BYTES = 256 * KiB
"""With so much of it a batch is large enough, whatever its count."""


class BlockingMessage(MessageProperties):
    """`holdfast.client.Message` for plain functions."""

    __slots__ = ("_thread", "message")

    def __init__(self, thread: LoopThread, message: Message) -> None:
        self._thread = thread
        self.message = message

    @property
    def id(self) -> str:
        """The message's own id, the same after a failover."""
        return self.message.id

    @property
    def headers(self) -> dict[str, str]:
        """All headers."""
        return self.message.headers

    @property
    def body(self) -> bytes:
        """The body as it was sent."""
        return self.message.body

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged or rejected."""
        return self.message.is_settled

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction that is not finished will settle it."""
        return self.message.is_in_transaction

    def process(
        self, *, confirm: bool = False, give_back_after: float | None = None
    ) -> BlockingProcessing[Self]:
        """A block that settles the message at its end; see `Message.process`."""
        return BlockingProcessing(self, confirm=confirm, give_back_after=give_back_after)

    def acknowledge(self, *, confirm: bool = False) -> None:
        """
        Tell the broker that it is done; see `Message.acknowledge`.

        Without `confirm` an error (settled otherwise, in a transaction) is only logged; that the
        connection has ended is told by its `close`, too.
        """
        if confirm:
            self._thread.run(self.message.acknowledge(confirm=True))
        else:
            self._thread.call(_settle, self.message, ACKNOWLEDGE)

    def reject(self, *, confirm: bool = False) -> None:
        """Tell the broker that it cannot be processed; otherwise as `acknowledge`."""
        if confirm:
            self._thread.run(self.message.reject(confirm=True))
        else:
            self._thread.call(_settle, self.message, REJECT)

    def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        """Let it come again, after so many seconds; see `Message.give_back`."""
        verb = come_again(after)
        if confirm:
            self._thread.run(self.message.give_back(after=after, confirm=True))
        else:
            self._thread.call(_settle, self.message, verb)

    def reply(
        self,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool | None = None,
        **properties: Unpack[Properties],
    ) -> None:
        """Answer it, and wait until the broker has the answer; see `Message.reply`."""
        self._thread.run(
            self.message.reply(body, headers=headers, persistent=persistent, **properties)
        )

    def __repr__(self) -> str:
        return repr(self.message)


def _settle(message: Message, verb: bytes) -> None:
    try:
        message.subscription.settle(message, verb)
    except HoldfastError as error:
        logger.warning("%s could not be settled: %s", message, error)
        if isinstance(error, LinkError):
            message.subscription.failures.add(message.subscription, "acknowledged", error)


BlockingHandler: TypeAlias = Callable[[BlockingMessage], object]


class BlockingSubscription:
    """
    `holdfast.client.Subscription` for plain functions, an iterator; for one thread.

    A signal handler may raise in the middle of any call here. What was taken from the loop's thread
    and not handed over by then is handed over by the next call.
    """

    def __init__(self, thread: LoopThread, subscription: Subscription, *, is_auto: bool) -> None:
        self._thread = thread
        self._subscription = subscription
        self._is_auto = is_auto
        self._taken: list[Message] = []
        """Filled by the loop's thread, emptied by ours: it never depends on an answer's arrival."""

        self._taking: asyncio.Task[None] | None = None
        self._last: list[BlockingMessage] = []

    def __enter__(self) -> Self:
        """Subscribe, and wait until the broker has it."""
        try:
            self._thread.run(self._subscription.open())
        except BaseException:
            # It may be open by now: the broker would fill it, and nobody would read it.
            self._abandon()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unsubscribe; in mode "auto" the last message is acknowledged first if all went well."""
        if self._thread.is_stopping:
            return
        if error is None:
            self._acknowledge_last()
        try:
            self._thread.run(self._close())
        except BaseException:
            self._abandon()
            raise
        finally:
            self._taken.clear()

    def drain(self) -> None:
        """
        Take no more, and wait until what was taken is settled; see `Subscription.drain`.

        For another thread than the one that takes messages: it waits for that one.
        """
        self._thread.run(self._subscription.drain())

    def _abandon(self) -> None:
        with contextlib.suppress(HoldfastError):
            self._thread.call(self._subscription.abandon)

    async def _close(self) -> None:
        try:
            await self._subscription.close()
        except LinkLostError as error:
            logger.debug("unsubscribing: %s", error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingMessage:
        """The next message; waits for it. Errors as with `Subscription`."""
        message = self.receive()
        if message is None:
            raise StopIteration
        return message

    def receive(self, seconds: float | None = None) -> BlockingMessage | None:
        """The next message, or None if none comes within `seconds` or the subscription ended."""
        self._acknowledge_last()
        taken = self._taken
        if not taken:
            self._thread.run(self._take(seconds, BATCH_COUNT_MAX))
            if not taken:
                return None
        message = BlockingMessage(self._thread, taken[0])
        # The interpreter looks for signals where something is called. From here to the caller's
        # own next line nothing is: a message is either still here or in the caller's hands.
        del taken[0]
        self._last = [message]
        return message

    def fetch(self, count: int, seconds: float | None = None) -> list[BlockingMessage]:
        """Up to `count` messages, as soon as one is there; see `Subscription.fetch`."""
        check_count(count)
        self._acknowledge_last()
        taken = self._taken
        self._thread.run(self._take(seconds, count))
        messages = [BlockingMessage(self._thread, message) for message in taken[:count]]
        last = messages[:]
        # As in `receive`: all of them are here until the caller has them.
        del taken[:count]
        self._last = last
        return messages

    def consume(
        self,
        handler: BlockingHandler,
        *,
        concurrency: int = 1,
        give_back_after: float | None = None,
    ) -> None:
        """
        Call `handler(message)` for each message, in so many threads, until the subscription ends.

        As `Subscription.consume`. A signal handler that raises here ends it: the handlers at work
        end first, and their messages are settled.
        """
        check_consuming("auto" if self._is_auto else self._subscription.mode, concurrency)
        check_delay(give_back_after)
        consume_blocking(self, handler, concurrency, self._give_back, give_back_after)

    def answer(
        self,
        answering: Callable[[BlockingMessage], Body],
        *,
        concurrency: int = 1,
        give_back_after: float | None = None,
    ) -> None:
        """Answer each message with what `answering(message)` gives; see `Subscription.answer`."""

        def handle(message: BlockingMessage) -> None:
            self._thread.run(reply_if_awaited(message.message, answering(message)))

        self.consume(handle, concurrency=concurrency, give_back_after=give_back_after)

    def _give_back(self, message: BlockingMessage) -> None:
        """Hand it over once more, before all others."""
        self._taken.insert(0, message.message)

    async def _take(self, seconds: float | None, count: int) -> None:
        """Take over what is there, until there are `count`; runs on the loop's thread."""
        before, self._taking = self._taking, asyncio.current_task()
        if before is not None and not before.done():
            # Of a call that was interrupted before it could cancel it.
            before.cancel()
            await asyncio.wait([before])
        taken = self._taken
        if not taken:
            first = await self._subscription.receive(seconds)
            if first is None:
                return
            taken.append(first)
        size_bytes = sum(message.size_bytes for message in taken)
        while self._subscription.buffered_count and len(taken) < count and size_bytes < BATCH_BYTES:
            try:
                taken.append(await anext(self._subscription))
            except OSError:
                return  # As in `Subscription.fetch`.
            size_bytes += taken[-1].size_bytes

    def _acknowledge_last(self) -> None:
        if self._is_auto:
            for last in self._last:
                if not last.is_settled:
                    last.acknowledge()
        # Afterwards: acknowledging twice does no harm, and never would keep it from everybody.
        self._last = []
