"""
Certificates that run out while a node runs: told well before, and when it has happened.

What runs out ends no connection, so nobody notices: at the next failover or restart no node is
linked with another, or no client comes in. Each is told of 30 days, 7 days and a day before its
end, and at it. Of what lives for less it is a fifth, a tenth and a fiftieth of its time.

Invariants:
    Each step is told once, and of what was read anew only those that come later: whoever reads it
    anew says where it stands.
    What counts is what was read, not what lies on the disk by now.

Owned by the loop; reads memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from holdfast.admin.certificate_status import CertificateStatus, State
from holdfast.transport.tls import SOON, SOON_PART, Ending, ServerTls

log = structlog.get_logger("holdfast.server")

LOOK_SECONDS: Final = 10.0
_STEPS: Final = ((SOON, SOON_PART), (timedelta(days=7), 10), (timedelta(days=1), 50))
"""So long before the end, or in this part of the whole time if that is less."""

_STATES: Final[tuple[State, ...]] = ("good", "soon", "urgent", "urgent", "over")
_REMEDY: Final = "put a new one in its place, then: holdfast reload"


class CertificateWatch:
    """Looks when what is shown runs out."""

    __slots__ = ("_look_at", "_shown", "_told", "_wall")

    def __init__(self, shown: Iterable[ServerTls], wall: Callable[[], int]) -> None:
        """`wall` gives the microseconds since the epoch."""
        self._shown = tuple(shown)
        self._wall = wall
        self._told: dict[tuple[str, Ending], int] = {}
        """How many steps were told of each."""
        self._look_at = float("-inf")

    def step(self, now: float) -> None:
        """Look, if it is time to; `now` by the monotonic clock."""
        if now >= self._look_at and self._shown:
            self._look_at = now + LOOK_SECONDS
            self._look(_time(self._wall()))

    def _look(self, at: datetime) -> None:
        told, self._told = self._told, {}
        for each in self._shown:
            for ending in each.endings:
                key, step = (each.options.name, ending), _step(ending, at)
                if step > told.get(key, step):
                    _tell(_status(each, ending, at))
                self._told[key] = max(step, told.get(key, step))


def certificate_statuses(
    shown: Iterable[ServerTls], wall_microseconds: int
) -> tuple[CertificateStatus, ...]:
    """Say of all that is shown and judged by until when it can be used, the first to end first."""
    at = _time(wall_microseconds)
    found = [_status(each, ending, at) for each in shown for ending in each.endings]
    return tuple(sorted(found, key=lambda it: it.left_seconds))


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def _step(ending: Ending, at: datetime) -> int:
    """Give how many steps are behind it; one more than there are once it has run out."""
    left, whole = ending.ends - at, ending.ends - ending.begins
    if left <= timedelta():
        return len(_STEPS) + 1
    return sum(left <= min(most, whole / part) for most, part in _STEPS)


def _status(shown: ServerTls, ending: Ending, at: datetime) -> CertificateStatus:
    return CertificateStatus(
        tls=shown.options.name,
        kind=ending.kind,
        named=ending.named,
        ends=f"{ending.ends:%Y-%m-%dT%H:%M:%SZ}",
        left_seconds=(ending.ends - at).total_seconds(),
        state=_STATES[_step(ending, at)],
    )


def _tell(status: CertificateStatus) -> None:
    tell = log.error if status.state == "over" else log.warning
    tell("certificates", notice=status.sentence, remedy=_REMEDY)
