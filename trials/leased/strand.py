"""
A thread that runs in turns with the timeline: what blocks in the product blocks here as well.

The worker of a leased log waits for its medium in the middle of a function. In a simulated world it
does so on a thread of its own, of which only one runs at any moment, and only while the timeline
stands still. So it is as deterministic as a function.

Invariants:
    Either the timeline runs or one strand does, never both.
    A strand that is cut does nothing more: not even what the product does at an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_CUT_SECONDS_MAX = 10.0


class StrandCut(BaseException):
    """The process is gone. No `except Exception` may survive it."""


def _shut() -> threading.Lock:
    """A door that one thread opens for another: a fifth of the cost of a semaphore."""
    door = threading.Lock()
    door.acquire()
    return door


class Strand:
    """One thread; `run` and `go_on` are called by the timeline, `wait` by what runs on it."""

    def __init__(self) -> None:
        self._go = _shut()
        self._back = _shut()
        self._work: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._is_cut = False
        self.is_busy = False
        """It is in the middle of something, and waits."""
        self.waits = 0
        """How often it has waited: which wait a waker means."""
        self._thread = threading.Thread(target=self._main, name="strand", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], None]) -> None:
        """Let it do this until it waits or is done."""
        assert not self.is_busy, "it does one thing at a time"
        self._work, self.is_busy = work, True
        self.go_on()

    def go_on(self) -> None:
        """Let it go on until it waits again or is done."""
        self._go.release()
        self._back.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """On the strand: let the timeline run until `go_on`."""
        self._back.release()
        self._go.acquire()
        if self._is_cut:
            raise StrandCut
        self.waits += 1

    def cut(self) -> None:
        """End it, wherever it is."""
        self._is_cut = True
        if self._thread.is_alive():
            self._go.release()
            # A test that was interrupted in the middle of a turn must fail, and not wait for ever.
            self._thread.join(_CUT_SECONDS_MAX)
        self.is_busy = False

    def _main(self) -> None:
        while True:
            self._go.acquire()
            if self._is_cut:
                return
            try:
                assert self._work is not None
                self._work()
            except StrandCut:
                return
            except BaseException as error:  # noqa: BLE001 - raised again where it was called
                self._error = error
            self.is_busy = False
            self._back.release()
