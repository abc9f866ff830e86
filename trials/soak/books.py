"""
The account of traffic through the client library, in one byte per message: a soak is long.

Every body names its book, its run and its number; the rest is fixed by them, so damage is seen.
Numbers leave none out. The strict account of raw sockets is `testing/ledger.py`; this one is kept
by the same process that uses the library, and may not share code with it.

Owned by the thread of the traffic; `Meter` may be used by any.
"""

from __future__ import annotations

import re
import threading
from collections import deque

from trials.soak.samples import AccountRow, ClientSample

_SENT, _CONFIRMED, _DELIVERED = 1, 2, 4
_BODY = re.compile(rb"HS1 ([a-z-]+) ([0-9a-f]{8}) (\d+) ")
_FILLER = bytes(97 + number % 26 for number in range(1 << 17))
_GAP_SECONDS_MIN = 0.02
_GAPS_KEPT = 1000


class Books:
    """
    One kind of messages: which were sent, confirmed, delivered.

    Books with the same `label` know each other's bodies: one for each subscriber of a topic.
    """

    def __init__(self, name: str, run: int, *, is_strict: bool = True, label: str = "") -> None:
        self.name = name
        self.label = (label or name).encode()
        self.run = run
        self.is_strict = is_strict
        self.errors: list[str] = []
        self._marks = bytearray(1)
        self._confirmed = 0
        self._delivered = 0
        self._missing = 0
        self._unflagged = 0
        self._unexpected = 0
        self._redelivered = 0

    def next_body(self, size_bytes: int) -> tuple[int, bytes]:
        """Give the next number, noted as sent, and its body."""
        number = len(self._marks)
        self._marks.append(_SENT)
        return number, self.body(number, size_bytes)

    def body(self, number: int, size_bytes: int) -> bytes:
        """Give the one body that a number of this size has."""
        head = b"HS1 %b %08x %d " % (self.label, self.run, number)
        return head + _FILLER[: max(0, size_bytes - len(head))]

    def note_confirmed(self, number: int) -> None:
        """The broker has confirmed a message."""
        if not self._marks[number] & _CONFIRMED:
            self._marks[number] |= _CONFIRMED
            self._confirmed += 1
            self._missing += not self._marks[number] & _DELIVERED

    def note_delivered(self, body: bytes, *, redelivered: bool) -> None:
        """A message came."""
        found = _BODY.match(body)
        number = int(found[3]) if found else 0
        if (
            found is None
            or found[1] != self.label
            or int(found[2], 16) != self.run
            or not 0 < number < len(self._marks)
            or body != self.body(number, len(body))
        ):
            self._unexpected += 1
            return
        self._redelivered += redelivered
        if self._marks[number] & _DELIVERED:
            self._unflagged += not redelivered
            return
        self._marks[number] |= _DELIVERED
        self._delivered += 1
        self._missing -= bool(self._marks[number] & _CONFIRMED)

    def is_delivered(self, number: int) -> bool:
        """Whether this one came."""
        return bool(self._marks[number] & _DELIVERED)

    @property
    def sent_count(self) -> int:
        """Messages sent."""
        return len(self._marks) - 1

    @property
    def missing_count(self) -> int:
        """Confirmed and not delivered yet."""
        return self._missing

    def row(self, at: float) -> AccountRow:
        """Close the books."""
        return AccountRow(
            at=at,
            name=self.name,
            is_strict=self.is_strict,
            sent=self.sent_count,
            confirmed=self._confirmed,
            delivered=self._delivered,
            lost=self._missing,
            unflagged=self._unflagged,
            unexpected=self._unexpected,
            redelivered=self._redelivered,
            errors=tuple(self.errors),
        )


class Meter:
    """What all clients together see; each `take` gives what came since the one before."""

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._latencies: list[float] = []
        self._deliveries = 0
        self._gap = 0.0
        self._confirmed_at = now
        self._taken_at = now
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_GAPS_KEPT)

    def note_confirmed(self, now: float, seconds: float) -> None:
        """A receipt came, so many seconds after its message was sent."""
        with self._lock:
            self._latencies.append(seconds)
            self._end_gap(now)

    def note_delivered(self) -> None:
        """A message came."""
        with self._lock:
            self._deliveries += 1

    def gap_since(self, since: float, now: float) -> float:
        """Give the longest time without a receipt that ended, or lasts, after `since`."""
        with self._lock:
            gaps = [gap for ended, gap in self._gaps if ended >= since]
            return max([*gaps, now - self._confirmed_at if now > self._confirmed_at else 0.0])

    def take(self, at: float, now: float, due: int, rss_bytes: int) -> ClientSample:
        """Give a sample and begin the next; `at` is the run's time, `now` the clock's."""
        with self._lock:
            latencies, self._latencies = sorted(self._latencies), []
            deliveries, self._deliveries = self._deliveries, 0
            gap, self._gap = max(self._gap, now - self._confirmed_at), 0.0
            seconds, self._taken_at = now - self._taken_at, now
        return ClientSample(
            at=at,
            seconds=seconds,
            confirms=len(latencies),
            deliveries=deliveries,
            p50_ms=percentile_ms(latencies, 0.5),
            p99_ms=percentile_ms(latencies, 0.99),
            gap_ms=gap * 1000,
            due=due,
            rss_bytes=rss_bytes,
        )

    def _end_gap(self, now: float) -> None:
        gap = now - self._confirmed_at
        self._confirmed_at = now
        self._gap = max(self._gap, gap)
        if gap > _GAP_SECONDS_MIN:
            self._gaps.append((now, gap))


def percentile_ms(ordered: list[float], share: float) -> float | None:
    """Give a percentile of ascending seconds in milliseconds; None if there are none."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000
