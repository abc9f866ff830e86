"""Who guesses is slowed down by address."""

from __future__ import annotations

from itertools import count

from holdfast.security import throttle as module
from holdfast.security.throttle import FAILURES_MAX, Throttle


def guess(number: int) -> bytes:
    return b"%d" % number


def test_each_failure_is_told_later_up_to_a_bound() -> None:
    """Twice as late as the one before; ten minutes later all is forgotten."""
    throttle = Throttle()
    delays = [throttle.failed("10.0.0.1", guess(it), 100.0) for it in range(8)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert throttle.failed("10.0.0.2", guess(1), 100.0) == 0.1
    assert throttle.failed("10.0.0.1", guess(1), 701.0) == 0.1


def test_the_same_again_is_no_further_guess() -> None:
    """A program with an old password is told so as late as before, and shuts nobody out."""
    throttle = Throttle()
    for number in range(1_000):
        assert throttle.failed("10.0.0.1", b"old", 100.0 + number / 10) == 0.1
    assert not throttle.is_shut_out("10.0.0.1", 200.0)
    assert throttle.failed("10.0.0.1", b"other", 200.0) == 0.2
    assert throttle.failed("10.0.0.1", b"old", 200.0) == 0.2


def test_who_goes_on_guessing_is_shut_out_for_a_minute_and_nobody_else(monkeypatch) -> None:
    """By the last failure; who comes from elsewhere logs in meanwhile (S13)."""
    throttle = Throttle()
    for number in range(FAILURES_MAX):
        throttle.failed("10.0.0.1", guess(number), 100.0)
    assert not throttle.is_shut_out("10.0.0.1", 100.0)
    throttle.failed("10.0.0.1", b"one more", 110.0)
    assert throttle.is_shut_out("10.0.0.1", 169.0)
    assert not throttle.is_shut_out("10.0.0.2", 111.0)
    assert not throttle.is_shut_out("10.0.0.1", 170.0)
    assert throttle.failed("10.0.0.1", b"again one", 171.0) == 5.0
    assert throttle.is_shut_out("10.0.0.1", 172.0)


def test_there_is_a_limit_to_what_is_kept(monkeypatch) -> None:
    """Who failed longest ago is forgotten first."""
    monkeypatch.setattr(module, "ADDRESS_COUNT_MAX", 2)
    throttle, numbers = Throttle(), count()
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"):
        throttle.failed(address, guess(next(numbers)), 1.0)
    assert throttle.failed("10.0.0.1", b"x", 2.0) == 0.4
    assert throttle.failed("10.0.0.2", b"x", 2.0) == 0.1
