"""
The producer for plain functions: messages are handed over in bulk to the loop's thread.

What can never be sent is found out here, in the caller's thread, and raised by the call that said
it; a body is copied, so the caller may fill its buffer anew. Everything else has its outcome: the
future of the message, and for failures the next call, `flush`, or the connection's `close`.

Invariants:
    A message that was handed over keeps one place in the window until its outcome.
    Whoever takes a message out of `_handed` gives it its outcome; nothing stays there unseen.
    A failure is on the connection's books (`Failures`) until a call has told it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from holdfast.client.failures import Failures
from holdfast.client.loop_thread import LoopThread
from holdfast.client.producer import Producer
from holdfast.client.refusal import anew
from holdfast.client.wire import Body, Headers, encode_body, encode_lines
from holdfast.errors import HoldfastError, LinkLostError

Handed: TypeAlias = "tuple[bytes, bytes, Headers | None, bool, BlockingConfirmation]"


class BlockingConfirmation(Future[None]):
    """
    Done when the broker has stored the message, or failed with why it has not.

    It cannot be cancelled: the message is on its way.
    """

    def __init__(self, thread: LoopThread) -> None:
        super().__init__()
        self._thread = thread

    def cancel(self) -> bool:
        """Change nothing: False, as of a call that runs."""
        return False

    def result(self, timeout: float | None = None) -> None:
        """
        Wait until the message is stored.

        Raises:
            HoldfastError: Why it is not, or why that is unknown.
            MisplacedCallError: It is not done, and this thread must not wait.
        """
        self._check_may_wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and give what `result` would raise."""
        self._check_may_wait()
        return super().exception(timeout)

    def _check_may_wait(self) -> None:
        if not self.done():
            self._thread.check_may_wait()


class Handover:
    """What the blocking producers of one connection share; changed on the loop's thread only."""

    def __init__(self, thread: LoopThread, failures: Failures) -> None:
        self.thread = thread
        self.failures = failures
        self.is_closing = False
        self.busy: set[BlockingProducer] = set()
        """Producers with messages that were handed over and not sent yet."""

    async def wait_sent(self) -> None:
        """Wait until everything handed over is sent, or has failed."""
        while self.busy:
            await next(iter(self.busy)).wait_sent()


class BlockingProducer:
    """
    `holdfast.client.Producer` for plain functions; several threads may share it.

    In a `with` block it flushes at the end.
    """

    def __init__(self, handover: Handover, producer: Producer, window: int) -> None:
        self._handover = handover
        self._thread = handover.thread
        self._producer = producer
        self._places = threading.Semaphore(window)
        self._handed: deque[Handed] = deque()
        self._is_scheduled = False
        self._sending: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    def send(
        self, body: Body, *, headers: Headers | None = None, persistent: bool = True
    ) -> BlockingConfirmation:
        """
        Hand a message over as soon as fewer than `window` are unconfirmed.

        The future returned is done when the broker has stored the message.

        Raises:
            LocalProtocolError: The message can never be sent; nothing was handed over.
            LinkError: The connection is closed.
            MisplacedCallError: A listener sends while the window is full, or a forked child does.
            HoldfastError: An earlier message of this producer failed, told once; those handed over
                after it have failed too.
        """
        self._raise_failure()
        encoded, text_line = encode_body(body)
        if headers:
            encode_lines(headers)
            headers = dict(headers)
        self._take_place()
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

    def _take_place(self) -> None:
        self._check_open()
        if self._places.acquire(blocking=False):
            return
        self._thread.check_may_wait()
        self._places.acquire()
        try:
            # It may be free because what had it failed, or the connection closed.
            self._check_open()
            self._raise_failure()
        except BaseException:
            self._places.release()
            raise

    def _check_open(self) -> None:
        thread = self._thread
        if thread.is_foreign:
            thread.check_process()
        if self._handover.is_closing or thread.is_stopping:
            raise LinkLostError("the connection is closed")

    def _schedule(self, own: Handed) -> None:
        try:
            self._is_scheduled = True
            self._thread.call(self._begin_sending)
        except LinkLostError as error:
            self._is_scheduled = False
            with contextlib.suppress(ValueError):
                # Not there: the loop has taken it before it ended, so it has its outcome.
                self._handed.remove(own)
                self._places.release()
            # Handed over by other threads, which relied on our call.
            self._fail_handed(error)
            raise
        except BaseException:
            # A signal handler raised in there, before it was called or after: twice does no harm.
            with contextlib.suppress(LinkLostError):
                self._thread.call(self._begin_sending)
            raise

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        failure, self._failure = self._failure, None
        self._handover.failures.take(self)
        if failure is not None:
            raise failure

    # On the loop's thread ------------------------------------------------------------------------

    def _begin_sending(self) -> None:
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
                try:
                    stored = await producer.send_encoded(
                        encoded, text_line, headers, persistent=persistent
                    )
                except BaseException as error:
                    self._take_over()
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
            self._begin_sending()
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
        self._places.release()
        confirmation.set_exception(anew(error))

    def _note(self, error: Exception, count: int = 1) -> None:
        concerns = f"to {self._producer.destination}"
        self._handover.failures.add(self, concerns, error, count=count)
        self._failure = self._failure or error

    def _told(self, confirmation: BlockingConfirmation, done: asyncio.Future[None]) -> None:
        error = done.exception()
        self._places.release()
        if error is None:
            confirmation.set_result(None)
        else:
            confirmation.set_exception(anew(error))
