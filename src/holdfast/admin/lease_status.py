"""
The lease of a log that several brokers share, and the store that keeps it, for operators.

Values only, as one broker saw them last; the store is not asked for them, so that a status is
answered while it does not answer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStatus:
    """One of the copies that a store keeps alike."""

    id: str
    place: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorStatus:
    """Who is to take the lease next, as ZooKeeper or etcd said last."""

    kind: str
    place: str
    """Where, without any password."""

    trouble: str = ""
    """Why it is not reached; empty while it is."""

    elected: str | None = None
    """The name of the first in the line; None if nobody stands in it."""

    is_elected: bool = False
    """Whether that is this broker, for sure."""

    heard_seconds: float | None = None
    """How long ago it answered; None if it never did."""

    line: tuple[str, ...] = ()
    """Who stands for election, in order."""

    strangers: int = 0
    """How much else is kept in its place, which no broker has put there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """Who may write the log, since when, and where it is kept."""

    kind: str
    """What keeps it, in a word or two."""

    place: str
    """Where, without any password."""

    lease_seconds: float
    """So long a silent holder is waited for, and a margin."""

    is_held: bool = False
    """By this broker."""

    holder: str | None = None
    """The name of who holds it; None if nobody does."""

    holder_stomp: str = ""
    holder_admin: str = ""
    held_seconds: float | None = None
    """For how long it is ours; None if it is not."""

    left_seconds: float = 0.0
    """For how long nobody else can take it; 0 if it is not ours."""

    silent_seconds: float = 0.0
    """For how long its holder gave no sign of life, as this broker saw it."""

    trouble: str = ""
    """Why the store is not reached; empty while it is."""

    refusal: str = ""
    """Why it keeps nothing more, or this broker cannot keep up with it; empty if neither is so."""

    warnings: tuple[str, ...] = ()
    """What is unsafe about it and was allowed, and what is wrong just now."""

    copies: tuple[CopyStatus, ...] = ()
    """Where it keeps several."""

    elector: ElectorStatus | None = None
    """Where something elects."""
