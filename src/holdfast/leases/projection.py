"""
What a medium may show of the broker's state beside the log, to people who look into the medium.

A projection is derived from the log and read by nobody here: it may be late, it may be thrown away,
and whatever is changed in it by hand does nothing. The holder writes it in the pauses of the log,
under the same fence, so that what a deposed one still had to tell is never seen.

Source: Young, "CQRS documents" (2010), for the word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.leases.contract import Outcome

ROWS_MAX = 200
"""Of queues in one call, so that an append waits for no long one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """What is told of one queue."""

    number: int
    name: str
    depth: int
    """Messages on it, those in delivery too."""

    bytes: int
    enqueued: int
    """Put on it since the process that tells this began to read the log."""

    dequeued: int
    """Acknowledged, in the same time."""

    oldest_at: int
    """When the first of them was sent, in milliseconds since 1970; 0 if there is none."""

    as_of_index: int
    """The entry of the log after which this was so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is written in one call, all or nothing."""

    queues: tuple[QueueRow, ...] = ()
    gone: tuple[int, ...] = ()
    """Numbers of queues that are not there any more."""

    stale_before: int = 0
    """Rows that are of before this entry are somebody else's, and of queues that are gone."""


@runtime_checkable
class Projection(Protocol):
    """The optional face of a medium that shows something."""

    def project(self, changes: Changes, seconds_max: float) -> Outcome:
        """
        Write these; what stands there already is written over, so that the same again harms nobody.

        It is a sign of life as well.

        Raises:
            UnreachableError: It is not known whether it was written.
            StoreError: It cannot be written: the sentence says why.
        """
        ...
