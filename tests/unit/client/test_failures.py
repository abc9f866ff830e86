"""
The notes of what nobody has been told of.
"""

from __future__ import annotations

from holdfast.client.failures import Failures
from holdfast.errors import RefusedError


def test_one_failure_is_told_as_it_is() -> None:
    """Without notes: its own sentence says everything."""
    failures = Failures()
    error = RefusedError("no")
    failures.add("p", "to /queue/a", error)

    assert (len(failures), "p" in failures, "q" in failures) == (1, True, False)
    assert failures.take_all() is error
    assert not hasattr(error, "__notes__")
    assert failures.take_all() is None


def test_several_are_told_as_the_first_with_notes() -> None:
    """Each source has its destination, its count and its first reason."""
    failures = Failures()
    failures.add("p", "to /queue/a", RefusedError("no"))
    failures.add("p", "to /queue/a", RefusedError("later"), count=2)
    failures.add("q", "to /queue/b", RefusedError("full"))
    error = failures.take_all()

    assert str(error) == "no"
    assert error is not None
    assert error.__notes__ == [
        "not confirmed as stored: 3 messages to /queue/a: no",
        "not confirmed as stored: 1 message to /queue/b: full",
    ]
    assert len(failures) == 0


def test_an_error_that_is_raised_anyway_tells_them() -> None:
    """Its notes say what was not stored; then that has been told."""
    failures = Failures()
    failures.add("p", "to /queue/a", RefusedError("no"), count=2)
    error = KeyboardInterrupt()
    failures.tell_with(error)
    failures.tell_with(error)

    assert error.__notes__ == ["not confirmed as stored: 2 messages to /queue/a: no"]
    assert len(failures) == 0


def test_what_was_told_is_gone() -> None:
    """A source takes its own."""
    failures = Failures()
    failures.add("p", "to /queue/a", RefusedError("no"))
    taken = failures.take("p")

    assert taken is not None
    assert (str(taken.error), taken.count) == ("no", 1)
    assert failures.take("p") is None
