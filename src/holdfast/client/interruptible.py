"""
Waiting for a lock where signals may come.

A signal interrupts an `acquire` that has begun; one that comes just before, or is taken by another
thread, interrupts nothing, and its handler would run only when the wait is over, perhaps never. So
waits are begun anew each second.
"""

from __future__ import annotations

import threading
import time
from typing import Final

_WAIT_SECONDS: Final = 1.0


def acquire(lock: threading.Lock, seconds: float | None = None) -> bool:
    """
    Take a plain lock, for so many seconds at most; gives whether it was taken.

    A signal's handler runs within a second, and what it raises leaves the lock as it is.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _WAIT_SECONDS if end is None else min(_WAIT_SECONDS, end - time.monotonic())
        if lock.acquire(timeout=max(0.0, left)):
            return True
        if end is not None and time.monotonic() >= end:
            return False
