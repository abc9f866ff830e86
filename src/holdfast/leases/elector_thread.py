"""
Asks the elector again and again, on a thread of its own: nobody else ever waits for it.

`ElectorAsking` is a plain step, so that it can be tried without a thread. Each step keeps the
session alive, enters or leaves the line, and reads it; what it found goes to `notify`, on this
thread.

Invariants:
    Whatever an elector raises comes out as a reading with its trouble, and never ends the thread.
    One step at a time, each bounded; between two of them the thread waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from holdfast.errors import StoreError
from holdfast.leases.elector import Elector, Reading

logger = logging.getLogger("holdfast.leases")

_CALLS_IN_SESSION: Final = 3
_PAUSES_IN_SESSION: Final = 10
"""So often it is asked in the time of a session: what is lost is asked again before it ends."""

_FAREWELL_SECONDS: Final = 2.0


class ElectorAsking:
    """Asks one elector on behalf of one broker."""

    def __init__(
        self,
        elector: Elector,
        candidate: str,
        clock: Callable[[], float],
        session_seconds: float,
    ) -> None:
        """Nothing is asked yet; `clock` is the lease clock, `candidate` how this broker stands."""
        self._elector = elector
        self._candidate = candidate
        self._clock = clock
        self.call_seconds = session_seconds / _CALLS_IN_SESSION
        self.pause_seconds = session_seconds / _PAUSES_IN_SESSION
        self.is_willing = False
        """Whether it wants to be elected: set by the loop thread, read by the next step."""

    def step(self) -> Reading:
        """Ask once."""
        is_willing, began, line, trouble = self.is_willing, self._clock(), None, ""
        try:
            line = self._elector.stand(
                self._candidate, is_willing=is_willing, seconds_max=self.call_seconds
            )
        except StoreError as error:
            trouble = str(error)
        except Exception as error:  # a bug or a client's own error must not end the thread
            logger.exception("the elector broke")
            trouble = f"the elector broke: {type(error).__name__}: {error}"
        return Reading(
            began=began, ended=self._clock(), is_willing=is_willing, line=line, trouble=trouble
        )

    def close(self) -> None:
        """Leave the line."""
        try:
            self._elector.close(_FAREWELL_SECONDS)
        except StoreError as error:
            logger.warning("the elector does not answer at the end: %s", error)
        except Exception:  # what is being closed is of no use to anybody any more
            logger.exception("the elector could not be let go")


class ElectorThread:
    """Gives an asking its thread."""

    def __init__(self, asking: ElectorAsking, notify: Callable[[Reading], None]) -> None:
        """Nothing runs before `start`."""
        self._asking = asking
        self._notify = notify
        self._woken = threading.Event()
        self._is_ending = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="elector", daemon=True)
        self._thread.start()

    def want(self, *, is_willing: bool) -> None:
        """Stand for election from now on, or do not: news is told at once."""
        if is_willing != self._asking.is_willing:
            self._asking.is_willing = is_willing
            self._woken.set()

    def end(self) -> None:
        """Leave the line soon; waits for nothing."""
        self._is_ending = True
        self._woken.set()

    def close(self, seconds_max: float) -> bool:
        """The same, and wait for it; whether it was done in time. The thread is left if not."""
        self.end()
        if self._thread is None:
            return True
        self._thread.join(seconds_max)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_ending:
            self._woken.clear()
            self._notify(self._asking.step())
            if not self._is_ending:
                self._woken.wait(self._asking.pause_seconds)
        self._asking.close()
