"""Calls that may hang: bounded for who asks, and made once."""

from __future__ import annotations

import threading

import pytest

from holdfast.errors import UnreachableError
from holdfast.shared.bounded import BoundedCalls


def fail() -> None:
    raise ValueError("no")


def test_a_call_gives_and_raises_what_it_does() -> None:
    """Results and errors come through."""
    calls = BoundedCalls("test")

    assert calls.run(lambda: 7, 5.0, "it") == 7
    with pytest.raises(ValueError, match="no"):
        calls.run(fail, 5.0, "it")
    calls.close(lambda: None)


def test_a_call_that_hangs_is_left_and_goes_on() -> None:
    """Who asked is told after its time; the effect of the call counts when it ends (L19)."""
    calls = BoundedCalls("test")
    gate, ended = threading.Event(), threading.Event()
    done: list[int] = []

    def hang() -> None:
        gate.wait()
        done.append(1)

    with pytest.raises(UnreachableError, match=r"the share has not answered in 0\.0 s$"):
        while True:
            calls.run(lambda: None, 5.0, "the share")  # the thread is there
            calls.run(hang, 0.02, "the share")
    gate.set()
    calls.run(ended.set, 5.0, "the share")

    assert done == [1]
    calls.close(lambda: None)


def test_what_was_not_begun_in_time_is_never_begun() -> None:
    """Behind a call that hangs nothing is done later that was given up before."""
    calls = BoundedCalls("test")
    gate, begun = threading.Event(), threading.Event()
    done: list[str] = []

    def hang() -> None:
        begun.set()
        gate.wait()

    with pytest.raises(UnreachableError):
        calls.run(hang, 0.02, "it")
    assert begun.wait(5.0)
    with pytest.raises(UnreachableError, match="an earlier call hangs, this one was not begun"):
        calls.run(lambda: done.append("late"), 0.02, "it")
    gate.set()
    calls.run(lambda: done.append("after"), 5.0, "it")

    assert done == ["after"]
    calls.close(lambda: None)


def test_closing_makes_one_last_call_and_ends_the_thread() -> None:
    """Files are let go of on the thread that used them; without one it is done here."""
    calls = BoundedCalls("test-closing")
    names: list[str] = []
    calls.close(lambda: names.append(threading.current_thread().name))
    calls.run(lambda: None, 5.0, "it")
    calls.close(lambda: names.append(threading.current_thread().name))

    assert names == [threading.current_thread().name, "test-closing"]
    assert "test-closing" not in {it.name for it in threading.enumerate()}
