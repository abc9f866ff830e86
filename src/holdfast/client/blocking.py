"""
The client for plain functions: the same verbs, and a thread that runs the event loop.

    with blocking.connect("failover:(stomp://a:61613,stomp://b:61613)") as connection:
        connection.send("/queue/orders", "one")
        with connection.subscribe("/queue/orders") as subscription:
            for message in subscription:
                message.acknowledge()

Waiting calls hop to the loop's thread and back. What is called per message does not: a producer
hands messages over in bulk, a subscription takes what is there in bulk. A connection may be used
by several threads, a subscription or transaction by one.

Invariants:
    Nothing of the asyncio client is touched from another thread than the loop's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import uvloop

from holdfast.client import connection as asynchronous
from holdfast.client.consumer import AcknowledgeMode, Message, Subscription
from holdfast.client.events import Interrupted, Resumed
from holdfast.client.producer import Producer
from holdfast.client.settlements import ACKNOWLEDGE, REJECT
from holdfast.client.transaction import Transaction
from holdfast.client.wire import Body, Headers
from holdfast.errors import HoldfastError, LinkLostError

logger = logging.getLogger("holdfast.client")

Result = TypeVar("Result")
Handed: TypeAlias = "tuple[Body, Headers | None, bool, Future[None]]"

BATCH_COUNT_MAX = 100
"""Most messages a subscription takes over from the loop's thread at once."""


def connect(uri: str, **options: Any) -> BlockingConnection:
    """
    Connect to a broker or a cluster, and wait until it is done; close it or use it in a `with`.

    Args and errors are those of `holdfast.client.connect`.
    """
    return BlockingConnection(uri, options)


class LoopThread:
    """A thread with an event loop in it."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine over there and wait for it; an interrupted wait cancels it."""
        if self.loop.is_closed() or not self._thread.is_alive():
            coroutine.close()
            raise LinkLostError("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called over there, soon; not if the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError as error:
            raise LinkLostError("the connection is closed") from error

    def stop(self) -> None:
        """End the loop and its thread."""
        if not self.loop.is_closed() and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


class BlockingConnection:
    """`holdfast.client.Connection` for plain functions; made by `connect`."""

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        connecting = asynchronous.connect(uri, **options)
        self._thread = LoopThread()
        try:
            self._connection = self._thread.run(_opened(connecting))
        except BaseException:
            self._thread.stop()
            raise

    def send(
        self,
        destination: str,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
    ) -> None:
        """Send a message and wait until the broker has stored it; see `Connection.send`."""
        self._thread.run(
            self._connection.send(destination, body, headers=headers, persistent=persistent)
        )

    def producer(self, destination: str, *, window: int = 1000) -> BlockingProducer:
        """A producer that keeps up to `window` messages unconfirmed; see `Connection.producer`."""

        async def made() -> Producer:
            return self._connection.producer(destination, window=window)

        return BlockingProducer(self._thread, self._thread.run(made()), window)

    def transaction(self) -> BlockingTransaction:
        """A transaction for a `with` block; see `Connection.transaction`."""
        return BlockingTransaction(self._thread, self._connection.transaction())

    def subscribe(
        self,
        destination: str,
        *,
        acknowledge: AcknowledgeMode = "client-individual",
        prefetch: int | None = None,
        selector: str | None = None,
        headers: Headers | None = None,
    ) -> BlockingSubscription:
        """A subscription for a `with` block, an iterator; see `Connection.subscribe`."""

        async def made() -> Subscription:
            # In mode "auto" the loop's thread cannot know when this thread is done with a message.
            return self._connection.subscribe(
                destination,
                acknowledge="client-individual" if acknowledge == "auto" else acknowledge,
                prefetch=prefetch,
                selector=selector,
                headers=headers,
            )

        subscription = self._thread.run(made())
        return BlockingSubscription(self._thread, subscription, is_auto=acknowledge == "auto")

    @property
    def address(self) -> str | None:
        """The broker we are connected to as a URI; None during an interruption."""
        return self._connection.address

    @property
    def term(self) -> int:
        """The highest term of a leader seen; 0 if the broker tells none."""
        return self._connection.term

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.is_closed

    def on_interrupted(
        self, listener: Callable[[Interrupted], object]
    ) -> Callable[[Interrupted], object]:
        """Call `listener` whenever the link is lost, on the loop's thread: it must not block."""
        return self._connection.on_interrupted(listener)

    def on_resumed(self, listener: Callable[[Resumed], object]) -> Callable[[Resumed], object]:
        """Call `listener` whenever a link is there again; as `on_interrupted`."""
        return self._connection.on_resumed(listener)

    def close(self, *, is_graceful: bool = True) -> None:
        """Wait for every confirmation and end; see `Connection.close`."""
        if self._thread.loop.is_closed():
            return
        try:
            self._thread.run(self._connection.close(is_graceful=is_graceful))
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        """The connection is there already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; waits for confirmations unless the block failed."""
        self.close(is_graceful=error is None)


async def _opened(connecting: asynchronous.Connecting) -> asynchronous.Connection:
    return await connecting


class BlockingProducer:
    """
    `holdfast.client.Producer` for plain functions.

    In a `with` block it flushes at the end.
    """

    def __init__(self, thread: LoopThread, producer: Producer, window: int) -> None:
        self._thread = thread
        self._producer = producer
        self._places = threading.Semaphore(window)
        self._handed: deque[Handed] = deque()
        self._is_scheduled = False
        self._sending: asyncio.Task[None] | None = None
        self._failure: HoldfastError | None = None

    def send(
        self, body: Body, *, headers: Headers | None = None, persistent: bool = True
    ) -> Future[None]:
        """
        Hand a message over as soon as fewer than `window` are unconfirmed.

        The future returned is done when the broker has stored the message.

        Raises:
            HoldfastError: An earlier message of this producer failed, told once; those handed over
                after it have failed too.
        """
        self._raise_failure()
        self._places.acquire()
        confirmation: Future[None] = Future()
        self._handed.append((body, headers, persistent, confirmation))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._thread.call(self._begin_sending)
        return confirmation

    def flush(self) -> None:
        """
        Wait until every message handed over has its outcome.

        Raises:
            HoldfastError: The first failure since the last one told.
        """
        self._thread.run(self._flush())
        self._raise_failure()

    def __enter__(self) -> Self:
        """Nothing is sent by entering."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush, unless the block failed."""
        if error is None:
            self.flush()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # On the loop's thread ------------------------------------------------------------------------

    def _begin_sending(self) -> None:
        self._is_scheduled = False
        if self._sending is None or self._sending.done():
            self._sending = self._thread.loop.create_task(self._send_handed())

    async def _send_handed(self) -> None:
        handed = self._handed
        while handed:
            body, headers, persistent, confirmation = handed.popleft()
            try:
                stored = await self._producer.send(body, headers=headers, persistent=persistent)
            except HoldfastError as error:
                self._fail(confirmation, error)
                # Handed over before the failure was told, so not to be stored after it.
                while handed:
                    self._fail(handed.popleft()[3], error)
            else:
                stored.add_done_callback(partial(self._told, confirmation))

    async def _flush(self) -> None:
        if self._handed or self._sending is not None:
            self._begin_sending()
            assert self._sending is not None
            await self._sending
        try:
            await self._producer.flush()
        except HoldfastError as error:
            self._failure = self._failure or error

    def _fail(self, confirmation: Future[None], error: HoldfastError) -> None:
        self._failure = self._failure or error
        confirmation.set_exception(error)
        self._places.release()

    def _told(self, confirmation: Future[None], done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is None:
            confirmation.set_result(None)
        else:
            confirmation.set_exception(error)
        self._places.release()


class BlockingMessage:
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
    def text(self) -> str:
        """The body as text; UnicodeDecodeError if it is not UTF-8."""
        return self.message.text

    @property
    def destination(self) -> str:
        """Where it was sent to."""
        return self.message.destination

    @property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before."""
        return self.message.redelivered

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged or rejected."""
        return self.message.is_settled

    def acknowledge(self, *, confirm: bool = False) -> None:
        """
        Tell the broker that it is done; see `Message.acknowledge`.

        Without `confirm` an error (settled otherwise, in a transaction) is only logged.
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

    def __repr__(self) -> str:
        return repr(self.message)


def _settle(message: Message, verb: bytes) -> None:
    try:
        message.subscription.settle(message, verb)
    except HoldfastError as error:
        logger.warning("%s could not be settled: %s", message, error)


class BlockingSubscription:
    """`holdfast.client.Subscription` for plain functions, an iterator; for one thread."""

    def __init__(self, thread: LoopThread, subscription: Subscription, *, is_auto: bool) -> None:
        self._thread = thread
        self._subscription = subscription
        self._is_auto = is_auto
        self._taken: deque[Message] = deque()
        self._last: BlockingMessage | None = None

    def __enter__(self) -> Self:
        """Subscribe, and wait until the broker has it."""
        self._thread.run(self._subscription.open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unsubscribe; in mode "auto" the last message is acknowledged first if all went well."""
        if error is None:
            self._acknowledge_last()
        self._taken.clear()
        self._thread.run(self._close())

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
        if not self._taken:
            self._taken.extend(self._thread.run(self._take(seconds)))
        if not self._taken:
            return None
        self._last = BlockingMessage(self._thread, self._taken.popleft())
        return self._last

    async def _take(self, seconds: float | None) -> list[Message]:
        messages = []
        first = await self._subscription.receive(seconds)
        if first is not None:
            messages.append(first)
            while self._subscription.buffered_count and len(messages) < BATCH_COUNT_MAX:
                messages.append(await anext(self._subscription))
        return messages

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, None
        if self._is_auto and last is not None and not last.is_settled:
            last.acknowledge()


class BlockingTransaction:
    """`holdfast.client.Transaction` for plain functions; commits at the end of a `with` block."""

    def __init__(self, thread: LoopThread, transaction: Transaction) -> None:
        self._thread = thread
        self._transaction = transaction

    def send(
        self,
        destination: str,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
    ) -> None:
        """Add a message; see `Transaction.send`."""
        self._thread.run(
            self._transaction.send(destination, body, headers=headers, persistent=persistent)
        )

    def acknowledge(self, message: BlockingMessage) -> None:
        """Add the acknowledgement of a message; see `Transaction.acknowledge`."""
        self._thread.run(self._transaction.acknowledge(message.message))

    def commit(self) -> None:
        """Do it all, and wait until the broker has stored it; see `Transaction.commit`."""
        self._thread.run(self._transaction.commit())

    def roll_back(self) -> None:
        """Forget it all."""
        self._thread.run(self._transaction.roll_back())

    def __enter__(self) -> Self:
        """Nothing is sent by entering."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the block failed; nothing if either was done in the block."""
        self._thread.run(self._transaction.__aexit__(kind, error, trace))
