"""The same on several mirrors at once, and who is not waited for any longer."""

from __future__ import annotations

import threading

import pytest

from holdfast.environment.bounded_disk import HangingError
from holdfast.mirrors import lanes as lanes_module
from holdfast.mirrors.lanes import InTurn, ThreadLanes


def fail() -> None:
    raise OSError("no")


def test_each_outcome_comes_in_the_order_asked() -> None:
    """What was raised is given, not raised: the caller judges."""
    for lanes in (InTurn(), ThreadLanes(10)):
        done = lanes.run([("a", lambda: 1), ("b", fail), ("c", lambda: 3)])
        assert [value for value, _ in done] == [1, None, 3]
        assert [type(error) for _, error in done] == [type(None), OSError, type(None)]
        lanes.close()


def test_mirrors_work_at_the_same_time() -> None:
    """Each waits for the other one: one after the other they would never end."""
    both = threading.Barrier(2)
    lanes = ThreadLanes(10)
    done = lanes.run([("a", lambda: both.wait(10)), ("b", lambda: both.wait(10))])
    assert [error for _, error in done] == [None, None]
    lanes.close()


def test_one_that_hangs_is_given_up() -> None:
    """The other one is done; so long is waited after that, and no longer."""
    lanes = ThreadLanes(0.02)
    release = threading.Event()
    done = lanes.run([("a", lambda: 1), ("b", lambda: release.wait(10))])
    assert done[0] == (1, None)
    assert isinstance(done[1][1], HangingError)
    assert lanes.is_hanging("b")
    assert not lanes.is_hanging("a")
    assert lanes.run([("a", lambda: 1), ("b", lambda: 2)])[1] == (2, None)
    release.set()
    lanes.close()


def test_all_that_are_slow_are_waited_for() -> None:
    """A machine that stands still for a while has lost no disk."""
    lanes = ThreadLanes(0.2)
    begun = threading.Barrier(3)
    release = threading.Event()

    def slow() -> int:
        begun.wait(10)
        release.wait(10)
        return 1

    def let_go() -> None:
        begun.wait(10)
        release.wait(0.25)  # longer than one is waited for
        release.set()

    thread = threading.Thread(target=let_go)
    thread.start()
    assert lanes.run([("a", slow), ("b", slow)]) == [(1, None), (1, None)]
    thread.join()
    lanes.close()


def test_a_single_one_is_done_by_the_caller() -> None:
    """Where one mirror is left nothing is handed over."""
    lanes = ThreadLanes(10)
    assert lanes.run([("a", threading.get_ident)])[0][0] == threading.get_ident()


def test_the_next_is_asked_where_one_fails() -> None:
    """Until one comes out well; what is no disk's fault is asked of nobody else."""
    broken = ValueError("a bug")

    def raise_it() -> None:
        raise broken

    for lanes in (InTurn(), ThreadLanes(10)):
        answers = lanes.ask([("a", fail), ("b", lambda: 2), ("c", lambda: 3)])
        assert [place for place, _ in answers] == [0, 1]
        assert isinstance(answers[0][1][1], OSError)
        assert answers[1] == (1, (2, None))
        assert lanes.ask([("a", raise_it), ("b", lambda: 2)]) == [(0, (None, broken))]
        assert [place for place, _ in lanes.ask([("a", fail), ("b", fail)])] == [0, 1]
        lanes.close()


def test_the_next_is_asked_where_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers first counts; the slow one is told by its lane until it is done."""
    monkeypatch.setattr(lanes_module, "_SLOW_SECONDS", 0.02)
    lanes, release, done = ThreadLanes(0.05), threading.Event(), threading.Event()
    answers = lanes.ask([("a", lambda: release.wait(10)), ("b", lambda: 2)])
    assert answers == [(1, (2, None))]
    while not lanes.is_slow("a"):  # Its lane may have begun a little later than it was asked.
        release.wait(0.005)
    assert not lanes.is_slow("b")
    while not lanes.is_stuck("a"):
        release.wait(0.005)
    lanes.leave("a", done.set)
    assert not done.is_set()
    release.set()
    assert done.wait(10)
    lanes.close()


def test_all_that_are_slow_to_tell_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a single disk is."""
    monkeypatch.setattr(lanes_module, "_SLOW_SECONDS", 0.01)
    lanes, release = ThreadLanes(10), threading.Event()
    threading.Timer(0.1, release.set).start()
    answers = lanes.ask([("a", lambda: release.wait(10)), ("b", lambda: release.wait(10))])
    assert answers[-1][1] == (True, None)
    lanes.close()


def test_so_long_is_waited_whoever_is_done() -> None:
    """What is not done by then goes on being done."""
    lanes, release, done = ThreadLanes(10), threading.Event(), threading.Event()

    def slow() -> None:
        release.wait(10)
        done.set()

    (first, second) = lanes.within(0.05, [("a", lambda: 1), ("b", slow)])
    assert first == (1, None)
    assert isinstance(second[1], HangingError)
    release.set()
    assert done.wait(10)
    lanes.close()
    assert InTurn().within(0, [("a", lambda: 1)]) == [(1, None)]
    InTurn().leave("a", done.clear)
    assert not done.is_set()
    assert not InTurn().is_stuck("a")
