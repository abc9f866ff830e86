"""An end to talking with somebody who never stops, or never begins."""

from __future__ import annotations

import socket
import threading
import time

from holdfast.authorities.deadline import Deadline


def test_who_drips_is_ended_when_all_the_time_is_over() -> None:
    """Each read has its own time, which is never over; the whole has one as well."""
    here, there = socket.socketpair()
    here.settimeout(20)
    is_over = threading.Event()

    def drip() -> None:
        while not is_over.wait(0.01):
            try:
                there.sendall(b"x")
            except OSError:
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    began = time.monotonic()
    try:
        with Deadline(0.1) as deadline:
            deadline.watch(here)
            while here.recv(1):
                pass
            assert deadline.is_over
    finally:
        is_over.set()
        dripping.join()
        here.close()
        there.close()
    assert time.monotonic() - began < 15


def test_what_is_watched_too_late_is_ended_at_once() -> None:
    """A connection that took all the time to come about."""
    here, there = socket.socketpair()
    with here, there, Deadline(0.0) as deadline:
        deadline._timer.join(20)
        deadline.watch(here)
        assert here.recv(1) == b""


def test_nothing_is_left_of_it() -> None:
    """Who was in time goes on with his connection."""
    here, there = socket.socketpair()
    with here, there:
        with Deadline(60) as deadline:
            deadline.watch(here)
        there.sendall(b"x")
        assert here.recv(1) == b"x"
        assert not deadline.is_over
        deadline._timer.join(20)
        assert not deadline._timer.is_alive()
        assert not deadline._watched
