"""
Long work in short steps.
"""

from __future__ import annotations

from holdfast.broker.errands import Errands


def steps(name: str, count: int, done: list[str]):
    for number in range(count):
        done.append(f"{name}{number}")
        yield


def test_errands_take_turns() -> None:
    """
    One that is left off goes behind the others, and each run does at least one step.
    """
    errands = Errands()
    done: list[str] = []
    assert not errands
    errands.begin(steps("a", 3, done))
    errands.begin(steps("b", 1, done))
    errands.run(lambda: True)
    assert done == ["a0"]
    errands.run(lambda: True)
    assert done == ["a0", "b0"]
    assert errands
    errands.finish()
    assert done == ["a0", "b0", "a1", "a2"]
    assert not errands


def test_what_is_dropped_is_not_done() -> None:
    """
    What it was for is gone.
    """
    errands = Errands()
    done: list[str] = []
    errands.begin(steps("a", 3, done))
    errands.clear()
    errands.finish()
    assert done == []
