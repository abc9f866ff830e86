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
import atexit
import logging
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.client import connection as asynchronous
from holdfast.client.blocking_producer import BlockingProducer, Handover
from holdfast.client.blocking_subscription import BlockingMessage, BlockingSubscription
from holdfast.client.confirmation import BlockingConfirmation
from holdfast.client.consumer import Subscription
from holdfast.client.events import Interrupted, Resumed
from holdfast.client.loop_thread import LoopThread
from holdfast.client.pinging import Statistics
from holdfast.client.sent_properties import Properties
from holdfast.client.sequence import Sent
from holdfast.client.transaction import Transaction
from holdfast.client.wire import AcknowledgeMode, Body, Headers
from holdfast.errors import HoldfastError

__all__ = [
    "BlockingConfirmation",
    "BlockingConnection",
    "BlockingMessage",
    "BlockingProducer",
    "BlockingSubscription",
    "BlockingTransaction",
    "connect",
]

logger = logging.getLogger("holdfast.client")

EXIT_SECONDS_MAX = 5.0
"""How long a program that ends without `close` waits for what it has handed over."""


def connect(uri: str, **options: Any) -> BlockingConnection:
    """
    Connect to a broker or a cluster, and wait until it is done; close it or use it in a `with`.

    Args and errors are those of `holdfast.client.connect`.
    """
    return BlockingConnection(uri, options)


class BlockingConnection:
    """`holdfast.client.Connection` for plain functions; made by `connect`."""

    def __init__(self, uri: str, options: dict[str, Any]) -> None:
        connecting = asynchronous.connect(uri, **options)
        self._thread = LoopThread()
        self._closing = threading.RLock()
        try:
            self._connection = self._thread.run(_opened(connecting))
        except BaseException:
            self._thread.stop()
            raise
        self._handover = Handover(self._thread, self._connection.failures)
        _left_open.add(self)

    def send(
        self,
        destination: str,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> Sent:
        """Send a message and wait until the broker has stored it; see `Connection.send`."""
        return self._thread.run(
            self._connection.send(
                destination, body, headers=headers, persistent=persistent, **properties
            )
        )

    def request(
        self,
        destination: str,
        body: Body,
        *,
        seconds: float | None = 30.0,
        is_repeatable: bool = False,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> BlockingMessage:
        """Send a request and wait for its answer; see `Connection.request`."""
        answer = self._thread.run(
            self._connection.request(
                destination,
                body,
                seconds=seconds,
                is_repeatable=is_repeatable,
                headers=headers,
                persistent=persistent,
                **properties,
            )
        )
        return BlockingMessage(self._thread, answer)

    def producer(
        self, destination: str, *, window: int = 1000, producer_id: str | None = None
    ) -> BlockingProducer:
        """A producer that keeps up to `window` messages unconfirmed; see `Connection.producer`."""

        async def made() -> BlockingProducer:
            producer = self._connection.producer(
                destination, window=window, producer_id=producer_id
            )
            return BlockingProducer(self._handover, producer, window)

        return self._thread.run(made())

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
        exclusive: bool = False,
        priority: int = 0,
        browse: bool = False,
        durable: str | None = None,
        no_local: bool = False,
        retroactive: bool = False,
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
                exclusive=exclusive,
                priority=priority,
                browse=browse,
                durable=durable,
                no_local=no_local,
                retroactive=retroactive,
                headers=headers,
            )

        subscription = self._thread.run(made())
        return BlockingSubscription(self._thread, subscription, is_auto=acknowledge == "auto")

    def end_durable(self, name: str) -> None:
        """End a durable subscription of this client; see `Connection.end_durable`."""
        self._thread.run(self._connection.end_durable(name))

    @property
    def address(self) -> str | None:
        """The broker we are connected to as a URI; None during an interruption."""
        return self._connection.address

    @property
    def term(self) -> int:
        """The highest term of a leader seen; 0 if the broker tells none."""
        return self._connection.term

    @property
    def cluster(self) -> str | None:
        """The cluster's id; None: another broker than Holdfast; see `Connection.cluster`."""
        return self._connection.cluster

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.is_closed

    def ping(self, seconds: float | None = None) -> float:
        """Wait for an answer of the broker's; gives the seconds it took; see `Connection.ping`."""
        return self._thread.run(self._connection.ping(seconds))

    def statistics(self) -> Statistics:
        """What is in hand now; see `Connection.statistics`."""

        async def read() -> Statistics:
            return self._connection.statistics()

        return self._thread.run(read())

    def drain(self) -> None:
        """
        End without leaving anything half done; see `Connection.drain`.

        For another thread than those that take messages: it waits for them.
        """
        self._thread.run(self._connection.take_no_more())
        self.close()

    def on_interrupted(
        self, listener: Callable[[Interrupted], object]
    ) -> Callable[[Interrupted], object]:
        """
        Call `listener` whenever the link is lost, on the loop's thread: it must not block.

        What waits for this connection (`send`, `flush`, `close`, ...) raises there.
        """
        return self._connection.on_interrupted(listener)

    def on_resumed(self, listener: Callable[[Resumed], object]) -> Callable[[Resumed], object]:
        """Call `listener` whenever a link is there again; as `on_interrupted`."""
        return self._connection.on_resumed(listener)

    def close(self, *, is_graceful: bool = True) -> None:
        """
        Send and confirm all that was handed over, and end. Doing it twice does nothing.

        From now on calls of other threads raise LinkLostError. In a forked child it raises
        MisplacedCallError, and without `is_graceful` does nothing.

        Raises:
            HoldfastError: A message was not stored and nobody has been told yet; see
                `Connection.close`.
        """
        if self._thread.is_foreign and not is_graceful:
            return
        self._thread.check_may_wait()
        with self._closing:
            if self._thread.is_stopping:
                return
            try:
                self._thread.run(self._end(is_graceful=is_graceful))
            except BaseException as error:
                self._stop()
                self._connection.failures.tell_with(error)
                raise
            self._stop()
        failure = self._connection.failures.take_all() if is_graceful else None
        if failure is not None:
            raise failure

    def _stop(self) -> None:
        self._thread.stop()
        _left_open.discard(self)

    async def _end(self, *, is_graceful: bool) -> None:
        self._handover.is_closing = True
        try:
            if is_graceful:
                await self._handover.wait_sent()
        except BaseException:
            await self._connection.end(is_graceful=False)
            raise
        await self._connection.end(is_graceful=is_graceful)

    def end_at_exit(self) -> None:
        """The program ends without `close`: send what was handed over, and say what is left."""
        if self._thread.is_foreign or self._thread.is_current:
            return
        failure: Exception | None = None
        try:
            self._thread.run(self._end_in_time())
        except (TimeoutError, HoldfastError) as error:
            failure = error
        self._thread.stop()
        failure = self._connection.failures.take_all() or failure
        if failure is not None:
            reasons = "; ".join([str(failure), *getattr(failure, "__notes__", ())])
            # Logging may not be set up, or not any more; a warning is seen in any case.
            warnings.warn(
                f"the program ended without closing its connection; not all is stored: {reasons}",
                RuntimeWarning,
                stacklevel=2,
            )

    async def _end_in_time(self) -> None:
        async with asyncio.timeout(EXIT_SECONDS_MAX):
            await self._end(is_graceful=True)

    def __enter__(self) -> Self:
        """The connection is there already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; waits for confirmations unless the block failed; its error then tells of them."""
        self.close(is_graceful=error is None)
        if error is not None and not self._thread.is_foreign:
            self._connection.failures.tell_with(error)


_left_open: set[BlockingConnection] = set()
"""Connections that were not closed yet; strongly, for their threads work on after them."""


@atexit.register
def _end_all() -> None:
    while _left_open:
        _left_open.pop().end_at_exit()


async def _opened(connecting: asynchronous.Connecting) -> asynchronous.Connection:
    return await connecting


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
        **properties: Unpack[Properties],
    ) -> None:
        """Add a message; see `Transaction.send`."""
        self._thread.run(
            self._transaction.send(
                destination, body, headers=headers, persistent=persistent, **properties
            )
        )

    def acknowledge(self, message: BlockingMessage) -> None:
        """Add the acknowledgement of a message; see `Transaction.acknowledge`."""
        self._thread.run(self._transaction.acknowledge(message.message))

    def commit(self) -> None:
        """Do it all, and wait until the broker has stored it; see `Transaction.commit`."""
        self._thread.run(self._transaction.commit())

    def wait_outcome(self) -> None:
        """Wait for a commit that was interrupted; see `Transaction.wait_outcome`."""
        self._thread.run(self._transaction.wait_outcome())

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
        if error is not None and self._thread.is_stopping:
            # Nothing of it has left; the block's own error is what to tell.
            return
        self._thread.run(self._transaction.__aexit__(kind, error, trace))
