"""
Threads that wait for another one: woken, in time, and never after they were told.
"""

from __future__ import annotations

import threading

from holdfast.client.thread_waiters import ThreadEvent, ThreadWaiters


def test_a_condition_that_is_met_is_not_waited_for() -> None:
    """Before the wait, and between its beginning and the second look."""
    waiters = ThreadWaiters()
    assert waiters.wait(lambda: True)
    looks = iter([False, True])
    assert waiters.wait(lambda: next(looks))
    waiters.wake()


def test_who_waits_no_longer_is_on_no_list() -> None:
    """A program that asks again and again leaves nothing behind."""
    waiters = ThreadWaiters()
    assert not waiters.wait(lambda: False, 0)
    assert not waiters.wait(lambda: False, -1)
    assert not waiters.wait(lambda: False, 0.001)
    assert waiters._waiting == []


def test_everybody_is_woken_and_looks_for_himself() -> None:
    """One wake is enough for all; who finds nothing comes back."""
    waiters = ThreadWaiters()
    met = threading.Event()
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(waiters.wait(met.is_set, 20)), daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    while len(waiters._waiting) < 3:
        pass
    met.set()
    waiters.wake()
    for thread in threads:
        thread.join(20)
    assert found == [True] * 3


def test_an_event_is_set_until_it_is_cleared() -> None:
    """As that of the standard library."""
    event = ThreadEvent()
    assert not event.wait(0.001)
    event.set()
    assert event.wait()
    assert event.is_set()
    event.clear()
    assert not event.wait(0)
