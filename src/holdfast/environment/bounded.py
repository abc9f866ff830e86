"""
One thread that asks a medium which may never answer, for callers who wait only so long.

A read of a network file system cannot be cancelled: it ends when its server is back. So each call
is made on a thread of its own, one after the other, and whoever has waited long enough goes on
without the answer. The call goes on too, and its effect counts; the next one waits for its turn.

Invariants:
    One call is made at a time, in the order in which they were asked for.
    What was never begun before its caller gave up is never begun.
    A hanging call does not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from holdfast.errors import UnreachableError

CLOSE_SECONDS_MAX: Final = 1.0
TELL_SECONDS: Final = 5.0
"""How often whoever waits is told that it takes long."""

Result = TypeVar("Result")


class _Call(Generic[Result]):
    """A call that was asked for."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._is_given_up = False
        self._is_begun = False
        self.done = threading.Event()
        self.result: Result | None = None
        self.error: BaseException | None = None

    def make(self) -> None:
        with self._lock:
            if self._is_given_up:
                return
            self._is_begun = True
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 - told to whoever asked
            self.error = error
        self.done.set()

    def give_up(self) -> bool:
        """Return whether it was never begun, and never will be."""
        with self._lock:
            self._is_given_up = True
            return not self._is_begun


class BoundedCalls:
    """Calls to one medium; asked for by one thread at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call[object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(
        self,
        call: Callable[[], Result],
        seconds_max: float,
        what: str,
        told: Callable[[float], None] | None = None,
    ) -> Result:
        """
        Make a call and return what it gave, or raise what it raised.

        Args:
            call: What is done.
            seconds_max: How long it is waited for.
            what: What does not answer, for the sentence.
            told: Called with the seconds that it has taken, now and then.

        Raises:
            UnreachableError: It took longer; unless the sentence says that it was not begun, it
                may be done yet.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        asked: _Call[Result] = _Call(call)
        self._calls.put(asked)  # type: ignore[arg-type] # each gives what it gives
        if not _is_done(asked.done, max(0.0, seconds_max), told):
            is_not_begun = asked.give_up()
            behind = ": an earlier call hangs, this one was not begun" if is_not_begun else ""
            raise UnreachableError(f"{what} has not answered in {seconds_max:.1f} s{behind}")
        if asked.error is not None:
            raise asked.error
        return asked.result  # type: ignore[return-value] # it is set where there is no error

    def close(self, last: Callable[[], object]) -> None:
        """Make one more call after what it is at, and end the thread; waits a moment at most."""
        thread, self._thread = self._thread, None
        if thread is None:
            last()
            return
        self._calls.put(_Call(last))
        self._calls.put(None)
        thread.join(CLOSE_SECONDS_MAX)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()


def _is_done(
    done: threading.Event, seconds_max: float, told: Callable[[float], None] | None
) -> bool:
    """Wait so long at most, and tell of it on the way."""
    waited = 0.0
    while told is not None and seconds_max - waited > TELL_SECONDS:
        if done.wait(TELL_SECONDS):
            return True
        waited += TELL_SECONDS
        told(waited)
    return done.wait(seconds_max - waited)
