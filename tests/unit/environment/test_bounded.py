"""Calls that may hang: bounded for who asks, and made once."""

from __future__ import annotations

import threading

import pytest

from holdfast.environment import bounded
from holdfast.environment.bounded import BoundedCalls
from holdfast.errors import UnreachableError

SECONDS = 60.0


def fail() -> None:
    raise ValueError("no")


def test_a_call_gives_and_raises_what_it_does() -> None:
    """Results and errors come through."""
    calls = BoundedCalls("test")

    assert calls.run(lambda: 7, SECONDS, "it") == 7
    with pytest.raises(ValueError, match="no"):
        calls.run(fail, SECONDS, "it")
    calls.close(lambda: None)


def hang(calls: BoundedCalls, gate: threading.Event, done: list[str]) -> UnreachableError:
    """Ask for a call that has begun and waits for the gate; what its caller is told."""

    def wait() -> None:
        gate.wait()
        done.append("hung")

    while True:
        with pytest.raises(UnreachableError) as caught:
            calls.run(wait, 0.02, "the share")
        if "not begun" not in str(caught.value):  # On a busy machine it may not even begin.
            return caught.value


def test_a_call_that_hangs_is_left_and_goes_on() -> None:
    """Who asked is told after its time; the effect of the call counts when it ends (L19)."""
    calls = BoundedCalls("test")
    gate, done = threading.Event(), list[str]()

    assert str(hang(calls, gate, done)) == "the share has not answered in 0.0 s"
    assert done == []
    gate.set()
    calls.run(lambda: done.append("after"), SECONDS, "the share")
    assert done == ["hung", "after"]
    calls.close(lambda: None)


def test_what_was_not_begun_in_time_is_never_begun() -> None:
    """Behind a call that hangs nothing is done later that was given up before."""
    calls = BoundedCalls("test")
    gate, done = threading.Event(), list[str]()
    hang(calls, gate, done)
    with pytest.raises(UnreachableError, match="an earlier call hangs, this one was not begun"):
        calls.run(lambda: done.append("late"), 0.02, "it")
    gate.set()
    calls.run(lambda: done.append("after"), SECONDS, "it")

    assert done == ["hung", "after"]
    calls.close(lambda: None)


def test_closing_makes_one_last_call_and_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are let go of on the thread that used them; without one it is done here."""
    monkeypatch.setattr(bounded, "CLOSE_SECONDS_MAX", SECONDS)
    calls = BoundedCalls("test-closing")
    names: list[str] = []
    calls.close(lambda: names.append(threading.current_thread().name))
    calls.run(lambda: None, SECONDS, "it")
    calls.close(lambda: names.append(threading.current_thread().name))

    assert names == [threading.current_thread().name, "test-closing"]
    assert "test-closing" not in {it.name for it in threading.enumerate()}
