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
    The first step is done at once; one that is left off goes behind the others.
    """
    errands = Errands()
    done: list[str] = []
    assert not errands
    errands.begin(steps("a", 4, done))
    errands.begin(steps("b", 2, done))
    errands.begin(steps("c", 0, done))
    assert done == ["a0", "b0"]
    errands.run(lambda: True)
    assert done == ["a0", "b0", "a1"]
    errands.run(lambda: True)
    assert done == ["a0", "b0", "a1", "b1"]
    assert errands
    errands.finish()
    assert done == ["a0", "b0", "a1", "b1", "a2", "a3"]
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
    assert done == ["a0"]
