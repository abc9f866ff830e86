"""
How much a medium stores in the time of a lease, as far as it was seen.

A message that takes longer than its holder's lease can never be stored: each try would cost the
lease, and every client with it, and its sender would only send it again. So what is known to be too
large for the medium is refused to its sender alone; and of small messages no more are gathered into
one entry than it stores in time, however many come. Pure, by its owner's clock.
"""

from __future__ import annotations

from typing import Final

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

    __slots__ = ("_gathered", "_large", "_refused_bytes", "_refused_until")

    def __init__(self) -> None:
        self._large = _Rate()
        """As large entries were stored, of which the bytes take most of the time."""
        self._gathered = _Rate()
        """As all were that are of some size: what each costs beside its bytes is in it."""
        self._refused_bytes = 0
        self._refused_until = 0.0

    def stored(self, count: int, seconds: float, now: float) -> None:
        """So many bytes were stored in this time."""
        rate = count / max(seconds, 1e-3)
        if count >= GATHERED_BYTES:
            self._gathered.note(rate, now)
        if count >= LARGE_BYTES:
            self._large.note(rate, now)
        if 2 * count >= self._refused_bytes:
            self._refused_bytes *= 2  # There is room again for what is nearly as large.

    def late(self, count: int, seconds: float, now: float) -> None:
        """
        So many bytes were not stored in this time.

        It may have been no matter of how many they were: for a message what was stored before
        counts as much. Less is gathered at once, since more is as soon as something is stored.
        """
        rate = _LATE_FACTOR * count / max(seconds, 1e-3)
        if count >= GATHERED_BYTES:
            known = self._gathered.known
            self._gathered.note(rate, now, most=min(rate, known / 2) if known else rate)
        if count >= LARGE_BYTES:
            self._large.note(rate, now)

    def refused(self, count: int, now: float, seconds: float) -> None:
        """
        So many bytes at once are more than the medium takes, however long it is given.

        They are those of an entry: the message in it has somewhat less, and is refused as well, for
        so many seconds; twice as much is tried with each that is stored of half the size.
        """
        count = count * 7 // 8
        if now > self._refused_until or not self._refused_bytes:
            self._refused_bytes = count
        self._refused_bytes = max(GATHERED_BYTES + 1, min(self._refused_bytes, count))
        self._refused_until = now + seconds

    def bytes_max(self, sure_seconds: float, now: float) -> int:
        """
        The most that one message may have; 0: nothing is known that forbids any.

        Args:
            sure_seconds: For how long the lease is sure after a sign of life.
        """
        in_time = 0
        if self._large.known:
            in_time = max(LARGE_BYTES, int(self._large.of(sure_seconds * LEASE_FRACTION, now)))
        return self._taken(in_time, now)

    def _taken(self, in_time: int, now: float) -> int:
        """The same, or less if the medium refused as much."""
        if not self._refused_bytes or now > self._refused_until:
            return in_time
        return min(in_time or self._refused_bytes, self._refused_bytes - 1)

    def batch_bytes_max(self, sure_seconds: float, now: float) -> int:
        """The most that is to be gathered into one entry; 0: nothing is known that forbids any."""
        in_time = 0
        if self._gathered.known:
            gathered = self._gathered.of(sure_seconds * LEASE_FRACTION, now)
            in_time = max(GATHERED_BYTES, int(gathered))
        return self._taken(in_time, now)
