"""
How much a medium stores in the time of a lease, as far as it was seen.

A message that takes longer than its holder's lease can never be stored: each try would cost the
lease, and every client with it, and its sender would only send it again. So what is known to be too
large for the medium is refused to its sender alone. Pure, by its owner's clock.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.limits import MiB

LARGE_BYTES: Final = MiB
"""Less says little of how fast much is stored, and is never refused."""
LEASE_FRACTION: Final = 1 / 3
"""The share of a lease that one message may take."""
_LATE_FACTOR: Final = 0.7
"""Of what was not stored in its time nobody knows how far it came."""
_TRIED_SECONDS: Final = 120.0
"""A medium that was slow for a while is tried again: each time after so long with twice as much.
At first that is two thirds of the lease, which does not cost it."""
_DOUBLINGS_MAX: Final = 20
_REFUSED_SECONDS: Final = 600.0
"""For so long nothing is tried that is as large as what the medium itself refused."""


class Throughput:
    """What one medium stores in a second."""

    __slots__ = ("_bytes_per_second", "_refused_at", "_refused_bytes", "_seen_at")

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._seen_at = 0.0
        self._refused_bytes = 0
        self._refused_at = 0.0

    def stored(self, count: int, seconds: float, now: float) -> None:
        """So many bytes were stored in this time."""
        if count < LARGE_BYTES:
            return
        rate = count / max(seconds, 1e-3)
        known = self._bytes_per_second
        self._bytes_per_second = (known + rate) / 2 if known else rate
        self._seen_at = now

    def late(self, count: int, seconds: float, now: float) -> None:
        """
        So many bytes were not stored in this time.

        It may have been no matter of how many they were: what was stored before counts as much.
        """
        if count < LARGE_BYTES:
            return
        rate = count / max(seconds, 1e-3)
        known = self._bytes_per_second
        self._bytes_per_second = (known + _LATE_FACTOR * rate) / 2 if known else _LATE_FACTOR * rate
        self._seen_at = now

    def refused(self, count: int, now: float) -> None:
        """So many bytes at once are more than the medium takes, however long it is given."""
        if now - self._refused_at > _REFUSED_SECONDS or not self._refused_bytes:
            self._refused_bytes = count
        self._refused_bytes = max(LARGE_BYTES + 1, min(self._refused_bytes, count))
        self._refused_at = now

    def bytes_max(self, sure_seconds: float, now: float) -> int:
        """
        The most that one message may have; 0: nothing is known that forbids any.

        Args:
            sure_seconds: For how long the lease is sure after a sign of life.
        """
        in_time = self._in_time(sure_seconds, now)
        if not self._refused_bytes or now - self._refused_at > _REFUSED_SECONDS:
            return in_time
        return min(in_time or self._refused_bytes, self._refused_bytes - 1)

    def _in_time(self, sure_seconds: float, now: float) -> int:
        if not self._bytes_per_second:
            return 0
        doublings = min(int((now - self._seen_at) / _TRIED_SECONDS), _DOUBLINGS_MAX)
        rate = self._bytes_per_second * 2**doublings
        return max(LARGE_BYTES, int(rate * sure_seconds * LEASE_FRACTION))
