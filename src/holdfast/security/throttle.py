"""
Who guesses is slowed down, by the address it comes from and never by the name it says.

By name it would be a weapon: anybody could shut out anybody else. What counts is the network that
somebody has (`network_of`). And as many live there as there are machines behind it, it is not how
often somebody failed but with how many different guesses: a program with an old password shows the
same one all the time, and guesses nothing.

Invariants:
    Whoever comes from elsewhere is asked nothing more, whatever goes on here.
    It keeps as many addresses as it may, and forgets who failed longest ago first.

Pure: time is an argument.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.model.networks import network_of

_FIRST_SECONDS: Final = 0.1
DELAY_SECONDS_MAX: Final = 5.0
FAILURES_MAX: Final = 20
"""With more guesses lately nothing new is looked at for a while."""
LATELY_SECONDS: Final = 600.0
SHUT_OUT_SECONDS: Final = 60.0
ADDRESS_COUNT_MAX: Final = 10_000


class Throttle:
    """Who failed to log in lately, from where, and how often."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: dict[str, deque[tuple[float, bytes]]] = {}
        """By network, when and with what; who failed last stands last."""

    def failed(self, address: str, mark: bytes, now: float) -> float:
        """
        Note a failure; gives for how many seconds it is not to be told.

        `mark` stands for what was shown: the same again is no further guess.
        """
        network = network_of(address)
        failures = self._failures.pop(network, None) or deque(maxlen=FAILURES_MAX + 1)
        _forget_old(failures, now)
        is_new = all(it != mark for _, it in failures)
        count = len(failures) if is_new else len(failures) - 1
        if is_new:
            failures.append((now, mark))
        if len(self._failures) >= ADDRESS_COUNT_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[network] = failures
        return min(_FIRST_SECONDS * 2.0**count, DELAY_SECONDS_MAX)

    def is_shut_out(self, address: str, now: float) -> bool:
        """Whether so much was guessed from there that nothing new is looked at."""
        failures = self._failures.get(network_of(address))
        if failures is None:
            return False
        _forget_old(failures, now)
        return len(failures) > FAILURES_MAX and now - failures[-1][0] < SHUT_OUT_SECONDS


def _forget_old(failures: deque[tuple[float, bytes]], now: float) -> None:
    while failures and now - failures[0][0] > LATELY_SECONDS:
        failures.popleft()
