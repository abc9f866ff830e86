"""
Long work in short steps.
"""

from __future__ import annotations

import pytest

from holdfast.broker.errands import Errands


def steps(name: str, count: int, done: list[str]):
    for number in range(count):
        done.append(f"{name}{number}")
        yield


class Counted:
    """Time that is spent after so many looks at it."""

    def __init__(self, count: int) -> None:
        self.left = count

    def is_spent(self) -> bool:
        self.left -= 1
        return self.left <= 0


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


def test_owners_take_turns_whatever_each_has_begun() -> None:
    """
    A client with a hundred roll-backs under way is served no more than one with one.
    """
    errands = Errands()
    done: list[str] = []
    for number in range(100):
        errands.begin(steps(f"many{number}-", 3, done), "many")
    errands.begin(steps("one", 3, done), "one")
    done.clear()
    errands.run(Counted(4).is_spent)
    assert [step for step in done if step.startswith("one")] == ["one1", "one2"]


def test_what_tells_something_goes_behind_what_settles() -> None:
    """
    It has a step in each turn, or whoever settles for ever would silence it; of one owner the
    first is told whole before the next begins.
    """
    errands = Errands()
    done: list[str] = []
    errands.tell(steps("first", 3, done), "asker")
    errands.tell(steps("second", 1, done), "asker")
    errands.tell(steps("other", 1, done), "other")
    assert done == []
    errands.begin(steps("settle", 9, done))
    done.clear()
    errands.run(Counted(3).is_spent)
    assert done == ["settle1", "settle2", "settle3", "first0"]
    done.clear()
    errands.drop("other")
    errands.finish()
    assert done[-3:] == ["first1", "first2", "second0"]
    assert not errands


@pytest.mark.parametrize("kind", ["begin", "tell", "begin_to_tell"])
def test_an_errand_that_fails_costs_its_owner_alone(kind) -> None:
    """
    It is over; what else there is goes on, that of its owner, too.
    """

    def failing():
        yield
        raise ValueError("a mistake of ours")

    errands = Errands()
    done: list[str] = []
    getattr(errands, kind)(failing(), "a")
    getattr(errands, kind)(steps("a", 2, done), "a")
    getattr(errands, kind)(steps("b", 2, done), "b")
    errands.finish()
    assert sorted(done) == ["a0", "a1", "b0", "b1"]
    ((owner, error),) = errands.broken
    assert (owner, str(error)) == ("a", "a mistake of ours")


def test_what_failed_elsewhere_is_told_when_errands_are_run() -> None:
    """
    Also if there is no errand: whoever runs them has to be called.
    """
    errands = Errands()
    error = ValueError("x")
    errands.fail("owner", error)
    assert errands
    errands.finish()
    assert errands.broken == [("owner", error)]


def test_an_errand_may_begin_another_of_its_owner() -> None:
    """
    It is not lost, and nothing is done twice.
    """
    errands = Errands()
    done: list[str] = []

    def beginning():
        yield
        errands.begin(steps("new", 2, done), "a")
        yield

    errands.begin(beginning(), "a")
    errands.finish()
    assert done == ["new0", "new1"]
    assert not errands
