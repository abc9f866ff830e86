"""
How much a medium stores in the time of a lease, as far as it was seen.

A message that takes longer than its holder's lease can never be stored: each try would cost the
lease, and every client with it, and its sender would only send it again. So what is known to be too
large for the medium is refused to its sender alone; and of small messages no more are gathered into
one entry than it stores in time, however many come. Pure, by its owner's clock.
"""

from __future__ import annotations

from typing import Final

from holdfast.leases.refusals import Refusals
from holdfast.model.limits import KiB, MiB

LARGE_BYTES: Final = MiB
"""Less says little of how fast much is stored, and is never refused for the time it takes."""
GATHERED_BYTES: Final = 64 * KiB
"""So much is always gathered; less says nothing of how fast more is stored."""
LEASE_FRACTION: Final = 1 / 3
"""The share of a lease that one entry may take."""
_LATE_FACTOR: Final = 0.7
"""Of what was not stored in its time nobody knows how far it came."""
_TRIED_SECONDS: Final = 120.0
"""A medium that was slow for a while is tried again: each time after so long with twice as much.
At first that is two thirds of the lease, which does not cost it."""
_DOUBLINGS_MAX: Final = 20


class _Rate:
    """Bytes a second, as the last calls were."""

    __slots__ = ("_bytes_per_second", "_seen_at")

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._seen_at = 0.0

    def note(self, rate: float, now: float, *, most: float = float("inf")) -> None:
        """Take one more call into account; `most` is a bound, where it is known to be less."""
        known = self._bytes_per_second
        self._bytes_per_second = min((known + rate) / 2 if known else rate, most)
        self._seen_at = now

    @property
    def known(self) -> float:
        """What it was; 0: nothing is known."""
        return self._bytes_per_second

    def of(self, seconds: float, now: float) -> float:
        """How many bytes go in this time."""
        doublings = min(int((now - self._seen_at) / _TRIED_SECONDS), _DOUBLINGS_MAX)
        return self._bytes_per_second * float(2**doublings) * seconds


class Throughput:
    """What one medium stores in a second."""

    __slots__ = ("_gathered", "_is_late_again", "_large", "refusals")

    def __init__(self) -> None:
        self._large = _Rate()
        """As large entries were stored, of which the bytes take most of the time."""
        self._gathered = _Rate()
        """As all were that are of some size: what each costs beside its bytes is in it."""
        self._is_late_again = False
        """Something large was late, and nothing as large stored since."""
        self.refusals = Refusals(GATHERED_BYTES)

    def stored(self, count: int, seconds: float, now: float) -> None:
        """So many bytes were stored in this time."""
        rate = count / max(seconds, 1e-3)
        if count >= GATHERED_BYTES:
            self._gathered.note(rate, now)
        if count >= LARGE_BYTES:
            self._large.note(rate, now)
            self._is_late_again = False
        self.refusals.stored()

    def late(self, count: int, seconds: float, now: float) -> None:
        """
        So many bytes were not stored in this time.

        It may have been no matter of how many they were: for a message what was stored before
        counts as much, the first time. Less is gathered at once, since more is as soon as something
        is stored.
        """
        rate = _LATE_FACTOR * count / max(seconds, 1e-3)
        if count >= GATHERED_BYTES:
            known = self._gathered.known
            self._gathered.note(rate, now, most=min(rate, known / 2) if known else rate)
        if count >= LARGE_BYTES:
            self._large.note(rate, now, most=rate if self._is_late_again else float("inf"))
            self._is_late_again = True

    def bytes_max(self, sure_seconds: float, now: float) -> int:
        """
        The most that one message may have; 0: nothing is known that forbids any.

        Args:
            sure_seconds: For how long the lease is sure after a sign of life.
        """
        in_time = 0
        if self._large.known:
            in_time = max(LARGE_BYTES, int(self._large.of(sure_seconds * LEASE_FRACTION, now)))
        return _less(in_time, self.refusals.message_max(now))

    def batch_bytes_max(self, sure_seconds: float, now: float) -> int:
        """The most that is to be gathered into one entry; 0: nothing is known that forbids any."""
        in_time = 0
        if self._gathered.known:
            gathered = self._gathered.of(sure_seconds * LEASE_FRACTION, now)
            in_time = max(GATHERED_BYTES, int(gathered))
        return _less(in_time, self.refusals.gathered_max(now))


def _less(one: int, other: int) -> int:
    """The less of two limits; 0 is none."""
    return min(one, other) if one and other else one or other
