"""
The producer for plain functions: messages are handed over in bulk to the loop's thread.

What can never be sent is found out here, in the caller's thread, and raised by the call that said
it; a body is copied, so the caller may fill its buffer anew. Everything else has its outcome: the
future of the message, and for failures the next call, `flush`, or the connection's `close`.

Invariants:
    A message that was handed over keeps one place in the window until its outcome: the place is
    its own, in `_handed` or counted in `_under_way`, so an interrupted call takes none with it.
    Threads that hand over at the same moment may go beyond the window by one message each.
    The loop's thread waits for no lock that another thread takes (see `thread_waiters`).
    Whoever takes a message out of `_handed` gives it its outcome; nothing stays there unseen.
    A failure is on the connection's books (`Failures`) until a call has told it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias, Unpack
from weakref import WeakSet

from holdfast.client.confirmation import BlockingConfirmation
from holdfast.client.failures import Failures
from holdfast.client.loop_thread import LoopThread
from holdfast.client.producer import Producer
from holdfast.client.refusal import anew
from holdfast.client.sent_properties import Properties, headers_with
from holdfast.client.sequence import Sent
from holdfast.client.thread_waiters import ThreadWaiters
from holdfast.client.wire import Body, Headers, encode_body, encode_lines
from holdfast.errors import HoldfastError, LinkLostError

Handed: TypeAlias = tuple[bytes, bytes, Headers | None, bool, BlockingConfirmation]


class Handover:
    """What the blocking producers of one connection share; changed on the loop's thread only."""

    def __init__(self, thread: LoopThread, failures: Failures) -> None:
        self.thread = thread
        self.failures = failures
        self.is_closing = False
        self.producers: WeakSet[BlockingProducer] = WeakSet()
        self.busy: set[BlockingProducer] = set()
        """Producers with messages that were handed over and not sent yet."""

    async def wait_sent(self) -> None:
        """Wait until everything handed over is sent, or has failed."""
        for producer in list(self.producers):
            if producer.is_left_lying:
                producer.begin_sending()
        while self.busy:
            await next(iter(self.busy)).wait_sent()


class BlockingProducer:
    """
    `holdfast.client.Producer` for plain functions; several threads may share it.

    In a `with` block it flushes at the end. Made on the loop's thread.
    """

    def __init__(self, handover: Handover, producer: Producer, window: int) -> None:
        self._handover = handover
        handover.producers.add(self)
        self._thread = handover.thread
        self._producer = producer
        self._window = window
        self._handed: deque[Handed] = deque()
        self._under_way = 0
        """Taken out of `_handed` and without an outcome; changed on the loop's thread only."""

        self._room = ThreadWaiters()
        self._is_scheduled = False
        self._sending: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    def send(
        self,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> BlockingConfirmation:
        """
        Hand a message over as soon as fewer than `window` are unconfirmed.

        The future returned is done when the broker has stored the message, and gives which it is.

        Raises:
            LocalProtocolError: The message can never be sent; nothing was handed over.
            LinkError: The connection is closed.
            MisplacedCallError: A listener sends while the window is full, or a forked child does.
            HoldfastError: An earlier message of this producer failed, told once; those handed over
                after it have failed too.
        """
        self._raise_failure()
        encoded, text_line = encode_body(body)
        if properties:
            headers = headers_with(headers, properties)
        if headers:
            encode_lines(headers)
            headers = dict(headers)
        self._wait_room()
        confirmation = BlockingConfirmation(self._thread)
        handed = (encoded, text_line, headers, persistent, confirmation)
        self._handed.append(handed)
        if not self._is_scheduled:
            self._schedule(handed)
        return confirmation

    def flush(self) -> None:
        """
        Wait until every message handed over has its outcome.

        Raises:
            HoldfastError: The first failure since the last one told.
        """
        self._thread.check_may_wait()
        if not self._thread.is_stopping:
            try:
                self._thread.run(self._flush())
            except LinkLostError:
                # Closed meanwhile: then everything has its outcome.
                if not self._thread.is_stopping:
                    raise
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

    def _has_room(self) -> bool:
        return self._under_way + len(self._handed) < self._window

    def _wait_room(self) -> None:
        self._check_open()
        if self._has_room():
            return
        self._thread.check_may_wait()
        if self.is_left_lying:
            self._thread.call(self.begin_sending)
        while not self._room.wait(self._has_room):
            pass
        # There may be room because what had it failed, or the connection closed.
        self._check_open()
        self._raise_failure()

    def _check_open(self) -> None:
        thread = self._thread
        if thread.is_foreign:
            thread.check_process()
        if self._handover.is_closing or thread.is_stopping:
            raise LinkLostError("the connection is closed")

    def _schedule(self, own: Handed) -> None:
        try:
            self._is_scheduled = True
            self._thread.call(self.begin_sending)
        except LinkLostError as error:
            self._is_scheduled = False
            with contextlib.suppress(ValueError):
                # Not there: the loop has taken it before it ended, so it has its outcome.
                self._handed.remove(own)
            # Handed over by other threads, which relied on our call.
            self._fail_handed(error)
            raise
        except BaseException:
            # A signal handler raised in there, before it was called or after: twice does no harm.
            with contextlib.suppress(LinkLostError):
                self._thread.call(self.begin_sending)
            raise

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        failure, self._failure = self._failure, None
        self._handover.failures.take(self)
        if failure is not None:
            raise failure

    @property
    def is_left_lying(self) -> bool:
        """Whether a call was interrupted when it had handed over, and nobody knows of it yet."""
        sending = self._sending
        is_sent = self._is_scheduled or (sending is not None and not sending.done())
        return bool(self._handed) and not is_sent

    def begin_sending(self) -> None:
        """Send what was handed over, unless that is under way."""
        self._is_scheduled = False
        if self._sending is None or self._sending.done():
            self._handover.busy.add(self)
            self._sending = self._thread.loop.create_task(self._send_handed())

    async def _send_handed(self) -> None:
        handed = self._handed
        producer = self._producer
        try:
            while handed:
                encoded, text_line, headers, persistent, confirmation = handed.popleft()
                self._under_way += 1
                try:
                    stored = await producer.send_encoded(
                        encoded, text_line, headers, persistent=persistent
                    )
                except BaseException as error:
                    self._take_over()
                    self._under_way -= 1
                    self._fail(confirmation, error)
                    # Handed over before the failure was told, so not to be stored after it.
                    self._fail_handed(error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    stored.add_done_callback(partial(self._told, confirmation))
        finally:
            self._handover.busy.discard(self)

    async def wait_sent(self) -> None:
        """Wait until nothing handed over is left unsent; cancelling stops the wait."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _flush(self) -> None:
        while self._handed or (self._sending is not None and not self._sending.done()):
            self.begin_sending()
            await self.wait_sent()
        with contextlib.suppress(HoldfastError):
            await self._producer.flush()
        self._take_over()

    def _take_over(self) -> None:
        """What the producer has just raised is told by our next call."""
        told, self._producer.told = self._producer.told, None
        if told is not None:
            self._note(told.error, told.count)

    def _fail_handed(self, error: BaseException) -> None:
        while self._handed:
            try:
                handed = self._handed.popleft()
            except IndexError:
                return
            self._fail(handed[-1], error)

    def _fail(self, confirmation: BlockingConfirmation, error: BaseException) -> None:
        if not isinstance(error, Exception):
            error = LinkLostError("the connection was closed before this was sent")
        self._note(error)
        confirmation.set_exception(anew(error))
        self._room.wake()

    def _note(self, error: Exception, count: int = 1) -> None:
        concerns = f"to {self._producer.destination}"
        self._handover.failures.add(self, concerns, error, count=count)
        self._failure = self._failure or error

    def _told(self, confirmation: BlockingConfirmation, done: asyncio.Future[Sent]) -> None:
        error = done.exception()
        self._under_way -= 1
        if error is None:
            confirmation.set_result(done.result())
        else:
            confirmation.set_exception(anew(error))
        self._room.wake()
