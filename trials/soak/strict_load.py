"""
The strict half of the traffic: raw sockets with full books, in shifts.

`testing/load.py` remembers every message it sent, so one load must not last for hours. After a
shift the next one begins on another queue while the old one is drained, judged and forgotten; the
accounts of all shifts are added up. Three loads run beside each other: small, middle and large
bodies.

Runs in threads of its own; `start`, `stop_producing` and `finish` may be called from another one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trials.clients.ledger import Account, Ledger
from trials.clients.load import Load, LoadSettings
from trials.soak.books import Meter
from trials.soak.samples import AccountRow
from trials.soak.settings import SoakSettings

_ERRORS_KEPT = 20
_RATE_MIN = 10.0
"""Below this `Load` would gather less than one message of credit."""


class TimedLedger(Ledger):
    """A ledger that also tells a meter how long each receipt took."""

    def __init__(self, run: int, body_bytes: int, meter: Meter) -> None:
        super().__init__(run, body_bytes)
        self.meter = meter
        self.sent_at: dict[tuple[int, int], float] = {}

    def note_sent(self, producer: int, sequence: int, now: float) -> None:
        super().note_sent(producer, sequence, now)
        self.sent_at[producer, sequence] = now

    def note_confirmed(self, producer: int, sequence: int, now: float) -> bool:
        is_new = super().note_confirmed(producer, sequence, now)
        if is_new:
            self.meter.note_confirmed(now, now - self.sent_at.pop((producer, sequence), now))
        return is_new

    def note_delivered(
        self, consumer: int, body: bytes, message_id: bytes, *, redelivered: bool, now: float
    ) -> None:
        super().note_delivered(consumer, body, message_id, redelivered=redelivered, now=now)
        self.meter.note_delivered()


class TimedLoad(Load):
    """A load with such a ledger."""

    def __init__(self, addresses: Sequence[str], settings: LoadSettings, meter: Meter) -> None:
        super().__init__(addresses, settings)
        self.ledger = TimedLedger(self.ledger.run, settings.body_bytes, meter)


@dataclass(slots=True)
class _Shift:
    name: str
    load: TimedLoad
    is_closing: bool = False


class StrictLoads:
    """Loads of three sizes, shift after shift."""

    def __init__(self, addresses: Sequence[str], settings: SoakSettings, meter: Meter) -> None:
        self.addresses = list(addresses)
        self.settings = settings
        self.meter = meter
        self.shift_count = 0
        self._kinds = _load_settings(settings)
        self._shifts: list[_Shift] = []
        self._sums: dict[str, Counter[str]] = {name: Counter() for name in self._kinds}
        self._errors: dict[str, deque[str]] = {
            name: deque(maxlen=_ERRORS_KEPT) for name in self._kinds
        }
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._turning = threading.Thread(target=self._turn_shifts, name="shifts", daemon=True)
        self._closing: list[threading.Thread] = []

    def start(self) -> None:
        """Begin the first shift."""
        self._begin_shift()
        self._turning.start()

    @property
    def due_count(self) -> int:
        """Messages whose receipt is awaited."""
        return sum(shift.load.ledger.due_count for shift in list(self._shifts))

    def stop_producing(self) -> None:
        """Send nothing new."""
        self._ending.set()
        for shift in list(self._shifts):
            shift.load.is_producing = False

    def finish(self, seconds: float, at: float) -> list[AccountRow]:
        """Drain and close what runs, and give the sums of all shifts."""
        self.stop_producing()
        if self._turning.ident is not None:
            self._turning.join(seconds)
        self._close_all(seconds)
        for thread in list(self._closing):
            thread.join(seconds + 10)
        with self._lock:
            return [self._row(name, at) for name in self._kinds]

    def _turn_shifts(self) -> None:
        while not self._ending.wait(self.settings.shift_seconds):
            self._close_all(self.settings.finish_seconds)
            self._begin_shift()

    def _begin_shift(self) -> None:
        with self._lock:
            if self._ending.is_set():
                return
            for name, settings in self._kinds.items():
                # The queue of the shift before may still be drained, the one before it is empty.
                queue = f"/queue/soak.{name}.{self.shift_count % 2}"
                load = TimedLoad(self.addresses, replace(settings, destination=queue), self.meter)
                load.__enter__()
                self._shifts.append(_Shift(name, load))
            self.shift_count += 1

    def _close_all(self, seconds: float) -> None:
        self._closing = [thread for thread in self._closing if thread.is_alive()]
        for shift in list(self._shifts):
            if not shift.is_closing:
                shift.is_closing = True
                thread = threading.Thread(target=self._close, args=(shift, seconds), daemon=True)
                thread.start()
                self._closing.append(thread)

    def _close(self, shift: _Shift, seconds: float) -> None:
        problem = ""
        try:
            account = shift.load.finish(seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the account
            if not isinstance(error, TimeoutError):
                problem = f"the load broke: {error!r}"
            account = shift.load.ledger.account(time.monotonic())
        with self._lock:
            self._add(shift.name, account)
            if problem:
                self._errors[shift.name].append(problem)
            self._shifts.remove(shift)

    def _add(self, name: str, account: Account) -> None:
        sums = self._sums[name]
        for key in ("sent", "confirmed", "delivered", "lost", "unflagged", "reordered"):
            sums[key] += getattr(account, key)
        sums["redelivered"] += account.redelivered
        sums["twice"] += account.stored_twice + account.resurrected
        sums["unexpected"] += account.foreign + account.corrupt
        self._errors[name].extend(account.errors)
        if account.unconfirmed:
            self._errors[name].append(f"{account.unconfirmed:,} were never confirmed")

    def _row(self, name: str, at: float) -> AccountRow:
        return AccountRow(
            at=at,
            name=name,
            is_strict=True,
            errors=tuple(self._errors[name]),
            **self._sums[name],
        )


def _load_settings(settings: SoakSettings) -> dict[str, LoadSettings]:
    """Small bodies often, large ones seldom; durable, deduplicated, with settled receipts."""

    def load(body_bytes: int, rate: float, count: int) -> LoadSettings:
        return LoadSettings(
            producers=count,
            consumers=count,
            body_bytes=body_bytes,
            rate=max(_RATE_MIN, rate * settings.rate),
            window=200,
            prefetch=100,
            deduplicated=True,
            settle_receipts=True,
        )

    return {
        "strict-100B": load(100, 150, 2),
        "strict-1KiB": load(1 << 10, 150, 1),
        "strict-64KiB": load(1 << 16, 10, 1),
    }
