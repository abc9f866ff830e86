"""
A log on a medium that several reach, held by who copies: nobody serves it meanwhile.

Its lease is taken as a broker takes it, from one that gave no sign of life for a whole lease or has
given it back; one that is in use is refused. What is asked of the medium is asked again while it
is not known what became of it, for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from holdfast.copying.patience import PAUSE_SECONDS, ask_again
from holdfast.environment.clock import boottime
from holdfast.environment.randomness import Randomness, SystemRandomness
from holdfast.errors import StoreError, StoreLockedError
from holdfast.leases.contract import HOLDER_LENGTH, Claimant, Holding, Outcome
from holdfast.leases.copies import SourceLog

NAME: Final = "holdfast store copy"
"""Who holds the lease, as brokers that wait for it see it."""

MARGIN: Final = 1.1
"""A holder is waited for so many leases: clocks differ in their rates."""

CALL_SECONDS_MAX: Final = 30.0
PATIENCE_SECONDS: Final = 60.0
"""So long the same is asked again of a medium that does not answer."""

RENEW_SECONDS: Final = 1.0
_TAKES_MAX: Final = 3

Result = TypeVar("Result")
Waits = Callable[[str, float], None]
"""Told who is waited for, and for how many seconds yet."""


class HeldLog:
    """The lease of one medium, which is opened."""

    def __init__(
        self,
        log: SourceLog,
        *,
        clock: Callable[[], float] = boottime,
        sleep: Callable[[float], None] = time.sleep,
        randomness: Randomness | None = None,
    ) -> None:
        """Take a medium that was opened; `clock` goes on while the machine sleeps."""
        self.log = log
        self.place = log.facts().place
        self._clock = clock
        self._sleep = sleep
        drawn = (randomness or SystemRandomness()).bytes(HOLDER_LENGTH // 2).hex()
        self._claimant = Claimant(
            holder=drawn, name=NAME, admin="", stomp="", lease_seconds=log.lease_seconds
        )
        self._renewed_at = 0.0
        self.is_held = False

    def take(self, waits: Waits = lambda *_: None) -> Holding:
        """
        Take the lease, as soon as nobody can hold it.

        Raises:
            StoreLockedError: It is in use: its holder gives signs of life, or somebody took it.
            StoreError: It cannot be taken.
        """
        for _ in range(_TAKES_MAX):
            seen = self._silent(waits)
            holding = self.again(partial(self._try_to_take, seen))
            if holding is not None:
                self.is_held = True
                self._renewed_at = self._clock()
                return holding
            # Somebody else has taken it just now, or had begun to and was killed: that shows.
        raise self._in_use(self.again(lambda: self.log.observe(CALL_SECONDS_MAX)))

    def _try_to_take(self, seen: Holding) -> Holding | None:
        """Take it; where an answer was lost it may be ours by now, and is taken once more."""
        now = self.log.observe(CALL_SECONDS_MAX)
        if now.claimant is not None and now.claimant.holder == self._claimant.holder:
            seen = now
        return self.log.take(seen, self._claimant, CALL_SECONDS_MAX)

    def _silent(self, waits: Waits) -> Holding:
        """The lease, as nobody can hold it any more."""
        seen = self.again(lambda: self.log.observe(CALL_SECONDS_MAX))
        began = self._clock()
        while seen.claimant is not None and not seen.is_released:
            needed = MARGIN * (seen.claimant.lease_seconds or self.log.lease_seconds)
            left = needed - (self._clock() - began)
            if left <= 0:
                break
            waits(seen.claimant.name, left)
            self._sleep(min(left, PAUSE_SECONDS))
            asked = self._clock()
            now = self.again(lambda: self.log.observe(CALL_SECONDS_MAX))
            if (now.epoch, now.beat) != (seen.epoch, seen.beat):
                if now.is_released:
                    return now
                raise self._in_use(now)
            if asked - began >= needed:
                break
        return seen

    def _in_use(self, holding: Holding) -> StoreLockedError:
        who = holding.claimant.name if holding.claimant is not None else "another process"
        return StoreLockedError(
            f"{self.place} is in use by {who}: stop every broker that uses it, and wait until"
            f" another copy has ended"
        )

    def again(self, call: Callable[[], Result]) -> Result:
        """
        Ask the same until its outcome is known.

        Raises:
            UnreachableError: It was not in all that time.
        """
        return ask_again(call, PATIENCE_SECONDS, clock=self._clock, sleep=self._sleep)

    def keep(self, *, at_once: bool = False) -> None:
        """
        Give a sign of life, if it is time to or `at_once`.

        Raises:
            StoreError: Somebody else has the lease by now.
        """
        if at_once or self._clock() - self._renewed_at >= RENEW_SECONDS:
            began = self._clock()
            self.require(self.again(lambda: self.log.renew(CALL_SECONDS_MAX)))
            self._renewed_at = began

    def require(self, outcome: Outcome) -> None:
        """
        Go on only with what was stored.

        Raises:
            StoreError: Somebody else has the lease by now.
        """
        if outcome is not Outcome.STORED:
            self.is_held = False
            raise StoreError(
                f"{self.place} was taken by somebody else while it was copied: stop every broker"
                f" that uses it, and run the same command again"
            )

    def close(self) -> None:
        """Give the lease back, and let the medium go."""
        try:
            if self.is_held:
                self.log.release(CALL_SECONDS_MAX)
        except StoreError:
            pass  # who waits for it waits a lease longer
        finally:
            self.log.close()
