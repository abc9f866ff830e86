"""Asking the same again of what does not answer."""

from __future__ import annotations

import pytest

from holdfast.copying.patience import PAUSE_SECONDS, ask_again
from holdfast.errors import StoreError, UnreachableError


class Time:
    """It passes where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 5.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_an_answer_is_given_however_late_it_comes() -> None:
    """Within the time there is; each time after a pause."""
    time, failures = Time(), [UnreachableError("away")] * 3

    def call() -> str:
        if failures:
            raise failures.pop()
        return "here"

    assert ask_again(call, 1.0, clock=time.clock, sleep=time.sleep) == "here"
    assert time.now == pytest.approx(5.0 + 3 * PAUSE_SECONDS)
    assert ask_again(lambda: "at once", 0.0) == "at once"


@pytest.mark.parametrize(
    ("error", "asked"), [(UnreachableError("away"), 6), (StoreError("gone"), 1)]
)
def test_what_never_answers_or_says_no_is_raised(error: StoreError, asked: int) -> None:
    """What was said is not asked again."""
    time, calls = Time(), []

    def call() -> None:
        calls.append(time.now)
        raise error

    with pytest.raises(type(error), match=str(error)):
        ask_again(call, 0.9, clock=time.clock, sleep=time.sleep)
    assert len(calls) == asked
