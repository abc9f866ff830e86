"""
Holds have an end: an age, a bound, and a disk that has room.

A reader that is gone for good would keep the log until the disk is full. So a hold ends when its
reader was not heard of for as long as it asked for; it keeps no more than the node allows, whatever
it asked for; and where the disk is almost full it gives way, a learner's too: publishing goes
before reading.

How old a hold is, is counted in log time, so that every later leader counts on. Log time may jump,
and while nobody led no reader could be heard; so a leader also has watched a hold for a while
before it ends it. Log time may stand still too, after a leader whose clock was far ahead: what a
leader has watched for the whole time itself has been silent, whatever the log says.

Owned by the loop; used on the leader.
"""

from __future__ import annotations

from typing import Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.errors import LimitReachedError
from holdfast.model.limits import GiB
from holdfast.model.records import HoldLoss, HoldRecord, Record
from holdfast.server.learner_holds import LEARNER_PREFIX
from holdfast.server.settings import ServerSettings

log = structlog.get_logger("holdfast.server")

HOLD_BYTES_DEFAULT: Final = 16 * GiB
"""What is kept for a named reader that names no bound."""

WATCH_SECONDS: Final = 3600.0
"""A leader watches a hold for so long, or for half its age, before it ends it."""


class ReaderHolds:
    """Ends the holds of readers that are not heard of any more."""

    __slots__ = ("_broker", "_look_at", "_seen", "_settings")

    def __init__(self, broker: Broker, settings: ServerSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._look_at = 0.0
        self._seen: dict[str, tuple[int, float]] = {}
        """When each was renewed, and since when this leader knows that."""

    def stop(self) -> None:
        """Forget what was seen: who leads next watches anew."""
        self._seen = {}
        self._look_at = 0.0

    def step(self, now: float) -> None:
        """Look at the holds, every few seconds."""
        if now < self._look_at:
            return
        self._look_at = now + self._settings.hold_look_seconds
        holds = self._broker.state.holds
        moving = self._broker.receipts.holds_under_way()
        seen = {}
        ended: list[Record] = []
        for name, hold in holds.items():
            renewed_at, since = self._seen.get(name, (hold.renewed_at, now))
            seen[name] = (hold.renewed_at, since if renewed_at == hold.renewed_at else now)
            if name not in moving and self._is_over(hold, now - seen[name][1]):
                ended.append(HoldRecord(name, 0, 0))
        self._seen = seen
        if ended:
            self._broker.receipts.add_records(ended)

    def _is_over(self, hold: HoldRecord, watched_seconds: float) -> bool:
        expiry = expiry_seconds(hold, self._settings)
        in_log_time = (self._broker.state.timestamp - hold.renewed_at) / 1_000_000
        silent_seconds = max(in_log_time, watched_seconds)
        if not expiry or silent_seconds < expiry:
            return False
        if watched_seconds < min(expiry / 2, WATCH_SECONDS):
            return False
        log.warning(
            "a reader of the log was not heard of for long: the log is not kept for it any more",
            hold=hold.name,
            held_from=hold.index,
            silent_seconds=int(silent_seconds),
        )
        return True


def expiry_seconds(hold: HoldRecord, settings: ServerSettings) -> int:
    """For how long a hold stands without being heard of; 0: for ever, as a learner's."""
    if hold.name.startswith(LEARNER_PREFIX):
        return 0
    return hold.expiry_seconds or settings.hold_expiry_seconds


def bound_bytes(hold: HoldRecord, settings: ServerSettings) -> int:
    """How much is kept for it: what it asked for, within what the node allows now."""
    if hold.name.startswith(LEARNER_PREFIX):
        return hold.bytes_max
    return min(hold.bytes_max, settings.reader_hold_bytes_max)


def admitted_bytes(
    holds: dict[str, HoldRecord], name: str, bytes_max: int | None, settings: ServerSettings
) -> int:
    """
    Give the bound of a hold that is to be set.

    Raises:
        LimitReachedError: It asks for more than is allowed, or there are too many holds.
    """
    known = holds.get(name)
    if known is None and len(holds) >= settings.hold_count_max:
        raise LimitReachedError(
            f"the log is kept for {len(holds):,} readers already, which is the most: end one of"
            f" them with DELETE /holds/NAME"
        )
    if bytes_max is None:
        # Without a wish it is within what is allowed, whatever that is by now.
        wanted = known.bytes_max if known is not None else HOLD_BYTES_DEFAULT
        return min(wanted, settings.reader_hold_bytes_max)
    if bytes_max > settings.reader_hold_bytes_max:
        raise LimitReachedError(
            f"{name} asks to keep {bytes_max:,} bytes of the log; this cluster keeps"
            f" {settings.reader_hold_bytes_max:,} for a reader at most (reader_hold)"
        )
    return bytes_max


def why_it_goes(
    hold: HoldRecord, held_bytes: int, settings: ServerSettings, *, is_space_low: bool
) -> HoldLoss:
    """Why what is held may go before it is taken; NONE if it may not."""
    if held_bytes > bound_bytes(hold, settings):
        return HoldLoss.BOUND
    return HoldLoss.SPACE if is_space_low else HoldLoss.NONE


def told_left_behind(hold: HoldRecord, loss: HoldLoss, through_index: int) -> HoldRecord:
    """Say that a reader is left behind, and give the record that says so for good."""
    because = {HoldLoss.BOUND: "its bound is reached", HoldLoss.SPACE: "the disk is almost full"}
    log.error(
        "a learner's place in the log is given up"
        if hold.name.startswith(LEARNER_PREFIX)
        else "a reader of the log is left behind",
        reason=because[loss],
        hold=hold.name,
        held_from=hold.index,
        bytes_max=hold.bytes_max,
        lost_through=through_index,
    )
    return HoldRecord(
        hold.name,
        through_index + 1,
        hold.bytes_max,
        through_index,
        expiry_seconds=hold.expiry_seconds,
        renewed_at=hold.renewed_at,
        loss=loss,
    )
