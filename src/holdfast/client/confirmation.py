"""
The future of one message of the blocking producer.

It is one of `concurrent.futures`, for everything that takes those (`wait`, `as_completed`,
`asyncio.wrap_future`), but it waits by other means: see `thread_waiters`. What `concurrent.futures`
itself waits by cannot be replaced whole. The lock that it holds while it looks at its futures is
one for all here, and one that an interrupted call has left taken is given up after a second.

Invariants:
    The outcome is set once, on the loop's thread or after its end; then everybody hears of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from holdfast.client.loop_thread import LoopThread
from holdfast.client.sequence import UNNUMBERED, Sent
from holdfast.client.thread_waiters import ThreadEvent, ThreadWaiters

logger = logging.getLogger("holdfast.client")

LOOK_SECONDS_MAX = 1.0
"""`concurrent.futures` looks at its futures for milliseconds, and never waits meanwhile."""


class _Look:
    """The lock under which `concurrent.futures` looks at futures of ours."""

    lock = threading.RLock()

    @classmethod
    def begin(cls) -> Any:
        """Take it; gives what is to be released."""
        lock = cls.lock
        while not lock.acquire(timeout=LOOK_SECONDS_MAX):
            # Whoever has it was interrupted, and does not know it any more.
            cls.lock = lock = threading.RLock()
        return lock


class _Lookers(list[Any]):
    """Who waits for a future in `concurrent.futures.wait` or `as_completed`."""

    def append(self, looker: Any) -> None:
        """Before it begins to wait: let it do so by our means."""
        if not isinstance(looker.event, ThreadEvent):
            looker.event = ThreadEvent()
        super().append(looker)


class BlockingConfirmation(Future[Sent]):
    """
    Done when the broker has stored the message, or failed with why it has not.

    It cannot be cancelled: the message is on its way.
    """

    def __init__(self, thread: LoopThread) -> None:
        # Not the base class's, which makes what we do without.
        self._thread = thread
        self._is_done = False
        self._sent = UNNUMBERED
        self._error: BaseException | None = None
        self._told = ThreadWaiters()
        self._callbacks: list[Callable[[Future[Sent]], object]] = []
        self._state = "PENDING"
        self._waiters = _Lookers()

    @property
    def _condition(self) -> Any:  # type: ignore[override]
        return _Look.lock

    def __repr__(self) -> str:
        state = repr(self._error) if self._error is not None else "stored"
        return f"<BlockingConfirmation {state if self._is_done else 'pending'}>"

    def cancel(self) -> bool:
        """Change nothing: False, as of a call that runs."""
        return False

    def cancelled(self) -> bool:
        """Never."""
        return False

    def running(self) -> bool:
        """Whether the message is on its way."""
        return not self._is_done

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._is_done

    def result(self, timeout: float | None = None) -> Sent:
        """
        Wait until the message is stored, and give which it is.

        Raises:
            HoldfastError: Why it is not, or why that is unknown.
            TimeoutError: It is not known within `timeout` seconds.
            MisplacedCallError: It is not done, and this thread must not wait.
        """
        error = self.exception(timeout)
        if error is not None:
            try:
                raise error
            finally:
                # Else the error's traceback would keep this frame, and the frame the error.
                del error
        return self._sent

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and give what `result` would raise."""
        if not self._is_done:
            self._thread.check_may_wait()
            if not self._told.wait(self.done, timeout):
                raise TimeoutError
        return self._error

    def add_done_callback(self, fn: Callable[[Future[Sent]], object]) -> None:
        """Call a function with this when it is done, on the loop's thread; at once if it is."""
        self._callbacks.append(fn)
        if self._is_done:
            self._call_back()

    def set_result(self, result: Sent) -> None:
        """The message is stored."""
        if not self._is_done:
            self._sent = result
        self._finish(None)

    def set_exception(self, exception: BaseException | None) -> None:
        """The message is not stored, or that is unknown."""
        self._finish(exception)

    def _finish(self, error: BaseException | None) -> None:
        if self._is_done:
            raise InvalidStateError(f"{self!r} has its outcome")
        self._error = error
        self._is_done = True
        self._told.wake()
        self._tell_lookers()
        self._call_back()

    def _tell_lookers(self) -> None:
        look = _Look.begin()
        try:
            self._state = "FINISHED"
            for looker in self._waiters:
                if self._error is None:
                    looker.add_result(self)
                else:
                    looker.add_exception(self)
        finally:
            look.release()

    def _call_back(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:
                # The application's fault must not end what tells the others.
                logger.exception("a callback of %r failed", self)
