"""
A place that elects one of several brokers: the contract of ZooKeeper and etcd for a lease.

An elector only says who is to take the lease next, and notices sooner than the store that a holder
is gone. Whatever it says, true or not, the epoch in the store is the fence: an elector that is
away, wrong or replaced can make a takeover late, and never can it make two brokers confirm.

What every elector promises, as far as anything depends on it:
    A session that was kept alive does not end before `sure_seconds` have passed since it was asked.
    A line is read as it is when it is asked for, not as it was.

Blocking: `stand` may wait for the elector, at most about `seconds_max`, and is called on one thread
at a time; no callback of a client library reaches anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LINE_COUNT_MAX: Final = 64
"""So many candidates of a line are looked at, the first ones; no log has so many brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Who stands for election, as it was read."""

    holders: tuple[str, ...]
    """By `Claimant.holder`, the one that is elected first."""

    sure_seconds: float = 0.0
    """So long after it was asked for our own session cannot end; 0 if we stand in no line."""

    strangers: int = 0
    """How much else is kept in this place that no broker has put there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of asking once."""

    began: float
    """By the lease clock, before anything was sent."""

    ended: float
    is_willing: bool
    """Whether we wanted to be in the line."""

    line: Line | None = None
    trouble: str = ""
    """Why nothing is known; there is no line then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorFacts:
    """What elects, for people; without any password."""

    kind: str
    """`ZooKeeper`, `etcd`."""

    place: str


class Elector(Protocol):
    """One elector. Made with its address; nothing is reached before `stand`."""

    def facts(self) -> ElectorFacts:
        """Tell what this is; waits for nothing."""
        ...

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        """
        Keep the session alive, be in the line or leave it, and read the line.

        Who leaves it and comes back stands at its end. Asked again and again: one that does not
        ask any more leaves the line by itself when its session ends.

        Raises:
            UnreachableError: The elector did not answer in time, or not as it should; whether we
                stand in the line is not known.
        """
        ...

    def close(self, seconds_max: float) -> None:
        """Leave the line at once, and let go; what cannot be told ends with the session."""
        ...
