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
_AT_ONCE_SHARE: Final = 0.25
"""Of the time in which it was not stored: who was only slow takes longer for the same again."""
_DOUBTFUL_SECONDS: Final = 30.0
"""So long it counts that something large was late once, where nothing else is known: it may have
been an outage of a moment."""


class _Rate:
    """Bytes a second, as the last calls were."""

    __slots__ = ("_bytes_per_second", "_is_doubtful", "_seen_at")

    def __init__(self) -> None:
        self._bytes_per_second = 0.0
        self._seen_at = 0.0
        self._is_doubtful = False
        """It was late once, and never stored."""

    def note(self, rate: float, now: float, *, most: float = float("inf")) -> None:
        """Take one more call into account; `most` is a bound, where it is known to be less."""
        known = 0.0 if self._is_doubtful else self._bytes_per_second
        self._bytes_per_second = min((known + rate) / 2 if known else rate, most)
        self._seen_at = now
        self._is_doubtful = False

    def late(self, rate: float, now: float, *, most: float) -> None:
        """Take into account that it was less than this; `most` as above."""
        known, is_doubtful = self._bytes_per_second, self._is_doubtful
        self.note(min(rate, known) if is_doubtful else rate, now, most=most)
        self._is_doubtful = not known

    def is_stored_after_all(self) -> None:
        """What was late is stored by now: if that is all that is known, nothing is."""
        if self._is_doubtful:
            self._bytes_per_second, self._is_doubtful = 0.0, False

    def known_at(self, now: float) -> float:
        """What it was; 0: nothing is known for sure by now."""
        is_over = self._is_doubtful and now > self._seen_at + _DOUBTFUL_SECONDS
        return 0.0 if is_over else self._bytes_per_second

    def of(self, seconds: float, now: float) -> float:
        """How many bytes go in this time."""
        doublings = min(int((now - self._seen_at) / _TRIED_SECONDS), _DOUBLINGS_MAX)
        return self._bytes_per_second * float(2**doublings) * seconds


class Throughput:
    """What one medium stores in a second."""

    __slots__ = ("_gathered", "_is_late_again", "_large", "_late", "refusals")

    def __init__(self) -> None:
        self._large = _Rate()
        """As large entries were stored, of which the bytes take most of the time."""
        self._gathered = _Rate()
        """As all were that are of some size: what each costs beside its bytes is in it."""
        self._late = (0, 0.0)
        """What was late the last time: how many bytes, and for how long."""
        self._is_late_again = False
        """Something large was late, and nothing as large stored since."""
        self.refusals = Refusals(GATHERED_BYTES)

    def stored(self, count: int, seconds: float, now: float) -> None:
        """So many bytes were stored in this time."""
        rate = count / max(seconds, 1e-3)
        late_bytes, late_seconds = self._late
        self._late = (0, 0.0)
        if count == late_bytes and seconds < _AT_ONCE_SHARE * late_seconds:
            # The same again: it was there by now, or it had not been the store that was slow.
            self._large.is_stored_after_all()
            self._is_late_again = False
        elif count >= LARGE_BYTES:
            self._large.note(rate, now)
            self._is_late_again = False
        if count >= GATHERED_BYTES:
            self._gathered.note(rate, now)
        self.refusals.stored(count)

    def late(self, count: int, seconds: float, now: float) -> None:
        """
        So many bytes were not stored in this time.

        It may have been no matter of how many they were: for a message what was stored before
        counts as much, the first time. Less is gathered at once, since more is as soon as something
        is stored.
        """
        rate = _LATE_FACTOR * count / max(seconds, 1e-3)
        self._late = (count, seconds)
        if count >= GATHERED_BYTES:
            known = self._gathered.known_at(now)
            self._gathered.note(rate, now, most=min(rate, known / 2) if known else rate)
        if count >= LARGE_BYTES:
            self._large.late(rate, now, most=rate if self._is_late_again else float("inf"))
            self._is_late_again = True

    def bytes_max(self, sure_seconds: float, now: float) -> int:
        """
        The most that one message may have; 0: nothing is known that forbids any.

        Args:
            sure_seconds: For how long the lease is sure after a sign of life.
        """
        in_time = 0
        if self._large.known_at(now):
            in_time = max(LARGE_BYTES, int(self._large.of(sure_seconds * LEASE_FRACTION, now)))
        return _less(in_time, self.refusals.message_max(now))

    def bytes_in(self, seconds: float, now: float) -> int:
        """What was stored in so much time, of what is of some size; 0: that is not known."""
        return int(self._gathered.of(seconds, now)) if self._gathered.known_at(now) else 0

    def batch_bytes_max(self, sure_seconds: float, now: float) -> int:
        """The most that is to be gathered into one entry; 0: nothing is known that forbids any."""
        in_time = 0
        if self._gathered.known_at(now):
            gathered = self._gathered.of(sure_seconds * LEASE_FRACTION, now)
            in_time = max(GATHERED_BYTES, int(gathered))
        return _less(in_time, self.refusals.gathered_max(now))


def _less(one: int, other: int) -> int:
    """The less of two limits; 0 is none."""
    return min(one, other) if one and other else one or other
