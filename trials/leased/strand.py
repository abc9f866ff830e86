"""
A strand runs in turns with the timeline: what blocks in the product blocks here as well.

The worker of a leased log waits for its medium in the middle of a function. In a simulated world it
does so on a stack of its own, of which only one runs at any moment, and only while the timeline
stands still. So it is as deterministic as a function. Stacks are changed by greenlet: threads that
hand a lock to each other took more than half of all the time that worlds took.

Invariants:
    Either the timeline runs or one strand does, never both.
    A strand that is cut does nothing more: not even what the product does at an error.
"""

from __future__ import annotations

from collections.abc import Callable

from greenlet import GreenletExit, getcurrent, greenlet


class StrandCut(BaseException):
    """The process is gone. No `except Exception` may survive it."""


class Strand:
    """One stack; `run` and `go_on` are called by the timeline, `wait` by what runs on it."""

    def __init__(self) -> None:
        self._stack = greenlet(self._main)
        self._timeline = getcurrent()
        self._work: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self.is_busy = False
        """It is in the middle of something, and waits."""
        self.waits = 0
        """How often it has waited: which wait a waker means."""

    def run(self, work: Callable[[], None]) -> None:
        """Let it do this until it waits or is done."""
        assert not self.is_busy, "it does one thing at a time"
        self._work, self.is_busy = work, True
        self.go_on()

    def go_on(self) -> None:
        """Let it go on until it waits again or is done; once it was cut it does nothing."""
        if self._stack.dead:
            return
        self._timeline = getcurrent()
        self._stack.switch()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """On the strand: let the timeline run until `go_on`."""
        self._timeline.switch()
        self.waits += 1

    def cut(self) -> None:
        """End it, wherever it is."""
        if self._stack:  # It has begun, and not ended.
            self._stack.parent = getcurrent()  # Whoever it is that has it back.
            self._stack.throw(StrandCut)
        self.is_busy = False

    def _main(self) -> None:
        try:
            while True:
                self._do()
                self.is_busy = False
                self._timeline.switch()
        except (StrandCut, GreenletExit):  # The second where nobody knows it any more.
            return

    def _do(self) -> None:
        assert self._work is not None
        try:
            self._work()
        except (StrandCut, GreenletExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised again where it was called
            self._error = error
