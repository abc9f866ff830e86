"""The same on several mirrors at once, and who is not waited for any longer."""

from __future__ import annotations

import threading

from holdfast.mirrors.lanes import HangingError, InTurn, ThreadLanes


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
