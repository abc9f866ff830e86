"""
What the driver has its worker do, and what comes of it.

The driver decides and never waits; the worker waits and decides nothing. One order is under way at
a time, so a report always answers the order given last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from holdfast.errors import JournalFailedError, StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, Outcome, Waiter
from holdfast.leases.projection import Changes, MessageKey


@dataclass(frozen=True, slots=True)
class Join:
    """Open the medium, and find out whether the cache that ends here is of its log."""

    last_index: int
    chain: bytes
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Look:
    """Read the lease, and entries behind the last one that is known."""

    last_index: int
    chain: bytes
    seconds_max: float
    read_seconds_max: float = 0.0
    """For entries, if that is more: one may be large, and the lease is a row."""


@dataclass(frozen=True, slots=True)
class Take:
    """Take the lease, unless there was a sign of life since it was seen."""

    seen: Holding
    claimant: Claimant
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Store:
    """Append these entries."""

    entries: list[Entry] = field(repr=False)
    seconds_max: float
    final_until: float = float("inf")
    """Until when, by the lease clock, what was stored is final for sure; without a fence the lease
    has to be ours still."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Give a sign of life."""

    seconds_max: float


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease back."""

    seconds_max: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget entries before this one."""

    before: int
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read one entry that is damaged in the cache."""

    index: int
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the others of this broker, and ask who they are."""

    waiter: Waiter
    seconds_max: float
    forgets: tuple[str, ...] = ()
    """Brokers whose lines are dropped before that."""


@dataclass(frozen=True, slots=True)
class Project:
    """Write what the medium shows of the broker's state."""

    changes: Changes = field(repr=False)
    seconds_max: float


class Namesake(NamedTuple):
    """Another living broker that has the name of this one."""

    holder: str
    told: str
    """What is to be told of it."""


Order = Join | Look | Take | Store | Renew | Release | Drop | Fetch | Tell | Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of one order."""

    order: Order
    began: float
    """By the lease clock, before anything of it was sent."""

    seconds: float = 0.0
    error: StoreError | None = None
    """Why nothing came of it, or nothing that is known; else what was asked for is below."""

    outcome: Outcome | None = None
    holding: Holding | None = None
    """As read, or taken; None of a `Take`: somebody else was first. Of a `Look` also where entries
    could not be read, of a `Join` where a line of our name is watched."""

    entries: list[Entry] = field(default_factory=list)
    anchor: Entry | None = None
    """Of a `Join` or `Look`: what is known is not in this log; it is read from behind this one."""

    is_other: bool = False
    """Of the same: what is known must be thrown away; from the beginning if there is no anchor."""

    is_more: bool = False
    """Something is left to forget, or to read."""

    gone: str = ""
    """Of a `Join`: the holder, if its process ran on this directory, as far as that can be told."""

    namesake: Namesake | None = None
    """Of a `Tell`: another living broker of the same name, if there is one."""

    waiters: list[Waiter] = field(default_factory=list)
    keys: list[MessageKey] = field(default_factory=list)
    """Of a `Project` that asked for them: what is shown of messages."""

    @property
    def ended(self) -> float:
        """By the lease clock, when all of it was known."""
        return self.began + self.seconds

    failure: ClassVar[JournalFailedError | None] = None
    """As the store's writers say it; whatever fails here is the driver's to judge."""
