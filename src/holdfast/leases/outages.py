"""
What comes of a medium that does not answer: the same again a little later, and ever later.

A take that fails is counted apart from all else: to read the lease in between says nothing of why
it cannot be taken, and each attempt writes into the medium and into the log of this broker.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.environment.randomness import Randomness
from holdfast.errors import StoreError
from holdfast.journal.entry import bytes_of
from holdfast.leases import tenure
from holdfast.leases.contract import TakeGoesOnError
from holdfast.leases.orders import (
    Drop,
    Join,
    Look,
    Order,
    Project,
    Release,
    Report,
    Store,
    Take,
    Tell,
)
from holdfast.leases.state import LeasedState

logger = logging.getLogger("holdfast.leases")

LOOK_SECONDS_MAX: Final = 160.0
"""The longest a broker that waits reads at once: an entry of 64 MiB at 0.4 MiB a second."""
_LATE_FRACTION: Final = 0.5
"""Of its time: less was no want of time."""
_DOUBLINGS_MAX: Final = 16
_SAYS_LITTLE: Final = (Drop, Project, Release, Tell)
"""What may be done though the log cannot be used: of several databases one is enough for it."""


def put_off(state: LeasedState, report: Report, error: StoreError, randomness: Randomness) -> None:
    """The outcome is not known, or nothing was reached: the same again, a little later."""
    order = report.order
    if isinstance(error, TakeGoesOnError):
        # Nobody else has it, and it ends if nothing is asked: at once, by what was read before.
        # Nothing else comes between: it may be asked of a database that is slow, and has to answer
        # what the take asks of it next.
        state.taking = str(error)
        state.is_fresh, state.retry_at = True, state.now
        return
    if isinstance(order, Take):
        _put_off_take(state, error, randomness)
        return
    if isinstance(order, Store):
        if report.seconds >= _LATE_FRACTION * order.seconds_max and not state.is_known_late:
            # Once: what is tried again says nothing new, and less while there is less time.
            state.is_known_late = True
            state.throughput.late(bytes_of(order.entries), report.seconds, state.now)
    elif isinstance(order, Join) and report.holding is not None:
        state.silence.note(report.holding, report.began, report.ended)
    elif isinstance(order, Look) and report.holding is not None:
        # Who waits may take its time: what is read is one entry at least, however long. Where not
        # even the lease could be read the store is away, and may be back at any moment.
        reading = max(order.seconds_max, order.read_seconds_max)
        if report.seconds >= _LATE_FRACTION * reading:
            state.look_seconds_max = min(2 * reading, LOOK_SECONDS_MAX)
    if state.is_holder:
        tenure.forget_projection(state)  # A medium that crashed may have lost what it showed.
    if not state.trouble:
        is_joining = isinstance(order, Join)
        what = "the log cannot be joined yet" if is_joining else "the store does not answer"
        logger.warning("%s: %s", what, error)
    state.trouble = str(error)
    state.is_use_troubled |= not isinstance(order, _SAYS_LITTLE)
    settings = state.settings
    state.retry_seconds = min(
        max(2 * state.retry_seconds, settings.retry_seconds_min), settings.retry_seconds_max
    )
    state.retry_at = state.now + state.retry_seconds * randomness.uniform(0.5, 1.0)
    if isinstance(order, Look):
        state.look_at = state.retry_at


def _put_off_take(state: LeasedState, error: StoreError, randomness: Randomness) -> None:
    """It is tried again after a pause that grows to the length of a lease, and told once."""
    if state.take_trouble != str(error):
        logger.warning("the lease cannot be taken: %s", error)
    state.take_trouble, state.taking = str(error), ""
    doublings = min(state.failed_takes, _DOUBLINGS_MAX)
    state.failed_takes += 1
    pause = min(state.settings.retry_seconds_min * 2**doublings, state.lease_seconds)
    state.take_at = state.now + pause * randomness.uniform(0.5, 1.0)
    state.look_at = min(state.take_at, state.now + state.settings.look_seconds)


def is_over(state: LeasedState, order: Order) -> None:
    """
    It answers to this order.

    What was wrong with the use of the log is over once the log was used, and not by what is done
    wherever it can be.
    """
    if state.is_use_troubled and isinstance(order, _SAYS_LITTLE):
        return
    if state.trouble:
        logger.warning("the store answers again")
    state.trouble, state.is_use_troubled = "", False
    state.retry_seconds = 0.0
    state.retry_at = state.now
