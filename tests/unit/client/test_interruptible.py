"""
Waits that a signal ends although it interrupted nothing.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.client.interruptible import acquire


class EnoughError(Exception):
    """What the application's handler raises."""


@pytest.fixture
def enough() -> Iterator[threading.Thread]:
    """A thread that takes the process's signal itself, a moment after it is started."""

    def end(_number: int, _frame: Any) -> None:
        raise EnoughError

    def take() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, end)
    thread = threading.Timer(0.2, take)
    yield thread
    thread.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("seconds", [None, 30.0])
def test_a_signal_that_interrupted_nothing_is_seen(enough, seconds) -> None:
    """
    As one that comes between the last look at signals and the wait: it was seen after it.
    """
    lock = threading.Lock()
    lock.acquire()
    rescue = threading.Timer(30, lock.release)
    rescue.start()
    enough.start()
    with pytest.raises(EnoughError):
        acquire(lock, seconds)
    rescue.cancel()


def test_it_waits_so_long_and_no_longer() -> None:
    """
    And takes what is there at once, also with no time to wait.
    """
    lock = threading.Lock()
    assert acquire(lock, 0)
    began = time.monotonic()
    assert not acquire(lock, 0.05)
    assert time.monotonic() - began >= 0.05
    assert not acquire(lock, 0)
    threading.Timer(0.05, lock.release).start()
    assert acquire(lock)
