"""Who does the same in several databases at once, and whom it does not wait for."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.raidb.lanes import Act, InTurn, Lanes, ThreadLanes


def refuse(seconds: float) -> None:
    raise UnreachableError(f"within {seconds:.0f}")


def break_down(seconds: float) -> None:
    raise ValueError(f"{seconds:.0f}")


@pytest.mark.parametrize("lanes", [ThreadLanes(), InTurn()], ids=["threads", "in turn"])
def test_what_came_of_each_is_given(lanes: Lanes) -> None:
    """Results, errors of a store as they are, and any other as one."""
    found = lanes.run({"a": lambda _: 1, "b": refuse, "c": break_down}, 9.0)

    assert found["a"] == 1
    assert isinstance(found["b"], UnreachableError)
    assert type(found["c"]) is StoreError
    assert "ValueError" in str(found["c"])
    assert lanes.run({}, 1.0) == {}
    lanes.close()


def test_what_failed_leaves_nothing_for_a_collector() -> None:
    """A database that is away is asked for days: each call was a cycle of a hundred objects."""
    lanes = ThreadLanes()
    lanes.run({"a": refuse}, 9.0)
    gc.collect()
    gc.disable()
    before = len(gc.get_objects())
    for _ in range(50):
        lanes.run({"a": refuse}, 9.0)
    grown = len(gc.get_objects()) - before
    gc.enable()
    lanes.close()

    assert grown < 50, "less than one for each"


def test_all_are_done_at_the_same_time() -> None:
    """Each waits for the others to come, which one after the other never would."""
    barrier = threading.Barrier(3, timeout=10)
    lanes = ThreadLanes()

    found = lanes.run(dict.fromkeys("abc", lambda _: barrier.wait()), 10.0)

    assert sorted(found.values()) == [0, 1, 2]
    lanes.close()


def test_one_that_hangs_is_not_waited_for_and_asked_nothing_more() -> None:
    """Its outcome is not known; once it has come back it is asked again."""
    go_on = threading.Event()
    lanes = ThreadLanes()

    began = time.monotonic()
    found = lanes.run({"a": lambda _: 1, "b": lambda _: go_on.wait(30)}, 0.1)
    assert time.monotonic() - began < 5
    assert found["a"] == 1
    assert isinstance(found["b"], UnreachableError)
    again = lanes.run({"b": lambda _: 2}, 5.0)["b"]
    assert isinstance(again, UnreachableError)
    assert "asked before" in str(again)

    go_on.set()
    deadline = time.monotonic() + 10
    while lanes.run({"b": lambda _: 2}, 5.0)["b"] != 2:
        assert time.monotonic() < deadline
    lanes.close()


def test_who_is_slower_than_the_first_one_is_waited_for_a_while() -> None:
    """With patience the others have so long once one has answered; without it all of the time."""
    go_on = threading.Event()
    lanes = ThreadLanes()

    began = time.monotonic()
    found = lanes.run({"a": lambda _: 1, "b": lambda _: go_on.wait(30)}, 20.0, 0.1)

    assert time.monotonic() - began < 10
    assert isinstance(found["b"], UnreachableError)
    go_on.set()
    lanes.close()


def test_who_has_enough_waits_for_nobody_else() -> None:
    """What came of the others is given to who asks the very same; it is not done twice."""
    go_on, done = threading.Event(), []
    lanes = ThreadLanes()

    def slow(_: float) -> int:
        go_on.wait(30)
        done.append(1)
        return 3

    began = time.monotonic()
    found = lanes.run({"a": lambda _: 1, "b": slow}, 20.0, is_enough=lambda it: "a" in it)
    assert time.monotonic() - began < 5
    assert found == {"a": 1}
    found = lanes.run({"a": lambda _: 2, "b": slow}, 20.0, is_enough=lambda it: "a" in it)
    assert found == {"a": 2}

    go_on.set()
    assert lanes.run({"b": slow}, 20.0) == {"b": 3}
    assert done == [1]
    assert lanes.run({"b": lambda _: 4}, 20.0) == {"b": 4}
    lanes.close()


def test_one_that_was_left_and_never_answers_is_told() -> None:
    """Its outcome is not known, and it is asked nothing more."""
    go_on = threading.Event()
    lanes = ThreadLanes()

    def hang(_: float) -> None:
        go_on.wait(30)

    lanes.run({"a": lambda _: 1, "b": hang}, 20.0, is_enough=lambda it: "a" in it)
    assert isinstance(lanes.run({"b": hang}, 0.05)["b"], UnreachableError)
    assert "asked before" in str(lanes.run({"b": lambda _: 2}, 5.0)["b"])
    go_on.set()
    lanes.close()


def test_in_turn_one_that_is_left_is_sent_on_its_way() -> None:
    """As slow as chance has it: what came of it is not known."""
    asked: list[str] = []

    def act(key: str) -> Act:
        return lambda seconds: asked.append(f"{key} {seconds:.0f}")

    acts = {key: act(key) for key in "abc"}
    lanes = InTurn(is_left=lambda: True)
    found = lanes.run(acts, 9.0, is_enough=lambda it: len(it) > 1)
    assert sorted(found) == ["a", "b"]
    assert asked == ["a 3", "b 3", "c 0"]
    assert len(lanes.run(acts, 9.0, is_enough=lambda it: len(it) > 1)) == 3
    assert len(InTurn().run(acts, 9.0, is_enough=lambda it: len(it) > 1)) == 3


def test_after_a_while_nobody_is_waited_for_and_all_go_on() -> None:
    """What came of it is given to who asks the very same again; it is not done twice."""
    go_on, done = threading.Event(), []
    lanes = ThreadLanes()

    def slow(_: float) -> int:
        go_on.wait(30)
        done.append(1)
        return 3

    acts: dict[str, Act] = {"a": lambda _: 1, "b": slow}
    assert lanes.run(acts, 20.0, leave_after=0.05) == {"a": 1}
    assert lanes.run({"b": slow}, 20.0, leave_after=0.05) == {}
    go_on.set()
    assert lanes.run({"b": slow}, 20.0, leave_after=10.0) == {"b": 3}
    assert done == [1]
    lanes.close()


def test_in_turn_one_that_had_no_time_is_asked_again() -> None:
    """One that fails at once has failed; without a clock all have their whole time."""
    now = 0.0

    def slow(seconds: float) -> int:
        nonlocal now
        now += min(seconds, 5.0)
        if seconds < 5.0:
            raise UnreachableError("no time")
        return 3

    def away(_: float) -> int:
        raise UnreachableError("away")

    lanes = InTurn(clock=lambda: now)
    found = lanes.run({"a": slow, "b": away}, 20.0, leave_after=2.0)
    assert list(found) == ["b"]
    assert lanes.run({"a": slow}, 20.0, leave_after=6.0) == {"a": 3}
    assert InTurn().run({"a": slow}, 20.0, leave_after=2.0) == {"a": 3}
