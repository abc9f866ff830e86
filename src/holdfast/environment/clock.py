"""
Time, as a contract.

Everything that needs the time is handed a `Clock` or, better, the time itself as an argument, so
that tests and the simulator can decide what time it is. Two kinds are told apart on purpose:
the monotonic clock is for waiting and for leases, the wall clock only for stamps that people read.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def monotonic(self) -> float:
        """Return seconds since an unknown start; never goes back."""
        ...

    def thread_cpu(self) -> float:
        """Return the seconds for which a core has worked for the calling thread."""
        ...

    def wall_microseconds(self) -> int:
        """Return microseconds since 1970 in UTC; may jump either way."""
        ...


class SystemClock:
    """The clocks of the machine."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    """Seconds since an unknown start; never goes back. The function itself: it is asked often."""

    thread_cpu = staticmethod(time.thread_time)
    """Seconds for which a core has worked for the calling thread; it is asked twice a turn."""

    def wall_microseconds(self) -> int:
        """Return microseconds since 1970 in UTC; may jump either way."""
        return time.time_ns() // 1_000


def boottime() -> float:
    """Return seconds since the machine started, also those for which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
