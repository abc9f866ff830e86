"""
Keeping the log of a cluster for a reader, under a name.

The cluster ends a hold of which it has not heard for as long as it was asked for. So who reads
renews it now and then, also while there is nothing new to take. A single read has a hold of its
own, with a name that nobody else has, for as long as it runs: it ends when the read ends, or a few
minutes after the last task that read for it died.

Invariants:
    To hold is never a reason for a single read to fail: who cannot, reads as it would without.

Blocking. A hold belongs to one thread at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from holdfast.environment.clock import SystemClock
from holdfast.errors import AuthenticationError, HoldfastError
from holdfast.model.limits import HOLD_EXPIRY_SECONDS_DEFAULT
from holdfast.spark.log.client import PATIENCE_SECONDS, RemoteLog
from holdfast.spark.log.source import LogSource

logger = logging.getLogger("holdfast.spark")

RENEWALS_PER_EXPIRY: Final = 4
"""A hold is renewed after a quarter of what it may be silent for."""

READ_EXPIRY_SECONDS: Final = 900
"""After this long without any of its tasks a single read counts as ended. Half of it is for clocks
of driver and workers that differ: a task that begins with a clock behind takes the plan for young,
and renews the hold only a quarter later."""

_PATIENCE_SECONDS: Final = 3.0
"""Without a leader nothing is cleaned, so a single read need not wait for one."""


@dataclass(slots=True)
class Hold:
    """A named hold on a cluster's log, set when it is first moved."""

    log: RemoteLog
    name: str
    bytes_max: int | None = None
    """None: what the cluster keeps for who does not say."""

    expiry_seconds: int = HOLD_EXPIRY_SECONDS_DEFAULT
    patience_seconds: float = PATIENCE_SECONDS
    held_bytes: int = field(default=0, init=False)
    """Of the log, by whole files, as the cluster said when this was last set or renewed."""

    _renewed_at: float = field(default=float("-inf"), init=False)

    def move(self, index: int, *, or_first: bool = False) -> int:
        """
        Keep the log from an entry on; with `or_first` from where it begins, if that is later.

        Gives from where on it is kept.

        Raises:
            RecordNotFoundError: The log does not go back so far any more.
            LimitReachedError: The cluster does not keep so much, or for so many.
            LinkError: No node answers.
        """
        return self._ask({"index": index, "or_first": or_first})

    def renew_if_due(self, index: int) -> None:
        """
        Say that the reader is there, after a while; one that has ended begins again at an entry.

        Raises:
            RecordNotFoundError: It has ended, and the log does not go back so far any more.
            LinkError: No node answers.
        """
        if time.monotonic() - self._renewed_at > self.expiry_seconds / RENEWALS_PER_EXPIRY:
            self.renew(index)

    def renew(self, index: int) -> None:
        """Do so now; see there."""
        self._ask({"index": index, "only_renews": True})

    def end(self) -> None:
        """
        Keep the log no more.

        Raises:
            DestinationError: It has ended before.
            LinkError: No node answers.
        """
        self._send("DELETE", None)

    def _ask(self, body: dict[str, Any]) -> int:
        body |= {"expiry_seconds": self.expiry_seconds}
        if self.bytes_max is not None:
            body |= {"bytes_max": self.bytes_max}
        answer = self._send("POST", body, {"index": int})
        self._renewed_at = time.monotonic()
        self.held_bytes = int(answer.get("held_bytes", 0))
        return int(answer["index"])

    def _send(
        self, method: str, body: dict[str, Any] | None, told: dict[str, type] | None = None
    ) -> dict[str, Any]:
        path, patience = f"/holds/{self.name}", self.patience_seconds
        return self.log.ask(method, path, body, told=told, patience_seconds=patience)


@dataclass(frozen=True, slots=True)
class HeldRead:
    """The hold of a single read, as its tasks know it."""

    name: str
    planned_at: float
    """By the clock of whoever planned it."""

    is_alone: bool = False
    """There is one task only: when it ends, the read has ended."""

    def is_due(self, now: float) -> bool:
        """Whether a task that begins now has to renew it at once."""
        fresh = READ_EXPIRY_SECONDS / RENEWALS_PER_EXPIRY
        return self.is_alone or not 0 <= now - self.planned_at < fresh


def wall_seconds() -> float:
    """What time it is here; driver and workers may differ: see `READ_EXPIRY_SECONDS`."""
    return SystemClock().wall_microseconds() / 1_000_000


def hold_for_read(source: LogSource, index: int, kind: str = "read") -> tuple[Hold | None, int]:
    """
    Keep the log for one read, from an entry on or from where it begins.

    Gives the hold, and what is kept; None and the entry where there is nothing to hold, or no way.

    Raises:
        AuthenticationError: The token is missing or wrong.
    """
    if not isinstance(source, RemoteLog):
        return None, index
    hold = _read_hold(source, f"{kind}-{uuid4().hex[:16]}")
    try:
        return hold, hold.move(index, or_first=True)
    except AuthenticationError:
        raise
    except HoldfastError as error:
        logger.warning("the log is read without being held: %s", error)
        return None, index


@contextmanager
def kept_while_reading(source: LogSource, held: HeldRead | None, index: int) -> Iterator[None]:
    """Renew the hold of a read while one of its tasks goes on, which begins at an entry."""
    if held is None or not isinstance(source, RemoteLog):
        yield
        return
    hold = _read_hold(source, held.name)
    with renewed(hold, index, at_once=held.is_due(wall_seconds())):
        yield
    if held.is_alone:
        let_go(hold)


@contextmanager
def held_for_a_while(source: LogSource, kind: str) -> Iterator[int]:
    """Keep all that a log has while something is done with it; gives from where on it is kept."""
    hold, first = hold_for_read(source, 1, kind)
    if hold is None:
        yield first
        return
    try:
        with renewed(hold, first):
            yield first
    finally:
        let_go(hold)


@contextmanager
def renewed(hold: Hold, index: int, *, at_once: bool = False) -> Iterator[None]:
    """Renew a hold again and again, from a thread of its own."""
    left = threading.Event()

    def renew() -> None:
        pause = 0.0 if at_once else hold.expiry_seconds / RENEWALS_PER_EXPIRY
        while not left.wait(pause):
            pause = hold.expiry_seconds / RENEWALS_PER_EXPIRY
            try:
                hold.renew(index)
            except HoldfastError as error:
                logger.warning("the log is not held for now: %s", error)

    thread = threading.Thread(target=renew, name=f"renew {hold.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()


def _read_hold(log: RemoteLog, name: str) -> Hold:
    return Hold(log, name, expiry_seconds=READ_EXPIRY_SECONDS, patience_seconds=_PATIENCE_SECONDS)


def try_to_move(hold: Hold, index: int) -> None:
    """Keep no more than is needed, if that can be said."""
    try:
        hold.move(index, or_first=True)
    except HoldfastError as error:
        logger.info("the log is held from before entry %d: %s", index, error)


def let_go(hold: Hold | None) -> None:
    """End a hold, if that can be said."""
    if hold is None:
        return
    try:
        hold.end()
    except HoldfastError as error:
        logger.info("the hold %s is left to end by itself: %s", hold.name, error)
