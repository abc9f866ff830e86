"""
What one broker knows of the log that it shares, between two turns.

Only data, and what is worked out from it at once: the driver, and the modules that decide for it,
change it in a turn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from holdfast.errors import StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, Waiter
from holdfast.leases.elections import SHORT_FRACTION, Elections
from holdfast.leases.orders import Tell
from holdfast.leases.projection import Changes, MessageKey
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.silence import Silence
from holdfast.leases.throughput import LARGE_BYTES, Throughput

RENEWALS = 5
"""Signs of life in the time of one lease."""

GONE_BEATS = 2
"""For so many a holder is silent that is taken for an earlier process of our own directory."""

_MUCH_FRACTION = 0.8
NEVER = float("-inf")
ALWAYS = float("inf")


class Phase(Enum):
    """What a broker is at."""

    JOINING = "joining"
    """The medium was not reached yet, or its log is not known to be ours."""

    WAITING = "standby"
    """Another one holds the lease, or nobody does."""

    CATCHING_UP = "catching up"
    """It is ours, and the rest of the log is being read."""

    HOLDING = "leader"
    """It is ours, and this broker knows the whole log."""


class Undone(NamedTuple):
    """An order that the log does not need, and that the medium refused."""

    reason: str
    until: float
    """It is not tried again before."""


@dataclass(slots=True, kw_only=True)
class LeasedState:
    """All that is known, and all that waits."""

    claimant: Claimant
    settings: LeaseSettings
    lease_seconds: float
    is_fence: bool
    now: float = 0.0
    """By the lease clock, as of this turn."""

    phase: Phase = Phase.JOINING
    epoch: int = 0
    """The newest that is known."""

    valid_until: float = NEVER
    """Until when, by the lease clock, nobody else can hold the lease."""

    held_since: float = 0.0
    holding: Holding | None = None
    """The lease as it was read or taken last."""

    is_fresh: bool = False
    """It was read just now: what follows from it may be decided."""

    read_at: float | None = None
    """When the look began after which nothing of the log was unread; None: there was none yet."""

    silence: Silence = field(default_factory=Silence)
    silent_seconds: float = 0.0
    elections: Elections | None = None
    """What is known of the elector, where there is one."""

    end_index: int = 0
    """What must be read before this broker serves, of the epoch that it took."""

    pending: deque[Entry] = field(default_factory=deque)
    """Proposed, and not given to the worker."""

    in_flight: list[Entry] = field(default_factory=list)
    """Given to the worker; their outcome is not known."""

    throughput: Throughput = field(default_factory=Throughput)
    is_known_late: bool = False
    """Of what is in flight it is noted that it was not stored in its time."""

    look_seconds_max: float = 0.0
    """How long a look may take while we wait, where the usual time was too short to read in."""

    uncommitted_bytes: int = 0
    refusal: str = ""
    """Why the medium keeps nothing more; empty while it does."""

    refused_since: float = NEVER
    """Since when that is so."""

    trouble: str = ""
    """Why it is not reached; empty while it is."""

    is_use_troubled: bool = False
    """That came of using the log, for which it takes more than to be told of something."""

    taking: str = ""
    """What is done before the lease is ours, while a take goes on that was begun; else empty."""

    take_trouble: str = ""
    """Why the lease could not be taken the last time; empty once somebody holds it."""

    failed_takes: int = 0
    """How often that was so, one after the other."""

    take_at: float = NEVER
    """It is not tried again before."""

    commit_index: int = 0
    taken_index: int = 0
    stores_in_row: int = 0
    """Appends ordered one after the other."""

    left_last: type = Tell
    """Which of the orders that come when nothing waits came last."""

    term_start: int = 0
    sure_index: int = -1
    """All that was stored before this process began is at or before this entry; -1: the medium was
    not read to its end yet."""

    log_epoch: int = 0
    is_giving_up: bool = False
    """The lease is being given back."""

    is_closed: bool = False
    """There is no room for what is stored: nothing is, but what there was before the lease goes."""

    rests_until: float = NEVER
    """Given back to others, it is not taken before."""

    is_busy: bool = False
    """An order is under way."""

    retry_at: float = NEVER
    retry_seconds: float = 0.0
    look_at: float = NEVER
    renewed_at: float = NEVER
    """When the last sign of life that was stored began."""

    tell_at: float = NEVER
    told_count: int = 0
    forgets: tuple[str, ...] = ()
    """Brokers that are gone for good: their lines are to be dropped."""

    left_undone: dict[type, Undone] = field(default_factory=dict)
    """What the log does not need and was refused, by the kind of order."""

    first_there: int = 0
    """The first entry that the medium keeps, for sure: what an earlier holder began is done."""

    drop_to: int = 0
    """The first one that it has to keep."""

    projecting: deque[Changes] = field(default_factory=deque)
    """What the medium is to show, and does not yet."""

    shown_keys: tuple[MessageKey, ...] = ()
    """What it shows of messages, as it was asked for last."""

    projections_lost: int = 0
    """How often what it was to show was given up: it may show anything now."""

    projection_trouble: str = ""
    """Why it shows nothing new; empty while it does."""

    said_gone: str = ""
    """A holder that ran on our directory, as it seems: its beat is to stand still first."""

    namesake: str = ""
    """What is to be told of another broker of our name; empty if there is none."""
    namesake_count: int = 0
    """How often it was met since this broker last held the lease."""

    waiters: dict[str, Waiter] = field(default_factory=dict)
    is_company_known: bool = False
    """What the others told was read since the lease was taken the last time."""
    waiters_seen_at: dict[str, float] = field(default_factory=dict)
    """When each one's beat was last seen to change."""

    damaged: set[int] = field(default_factory=set)
    """Entries of the cache that are damaged and not yet mended."""

    is_mending: bool = False
    """One of them is being written over."""

    mend_at: float = NEVER
    """What could not be mended is not tried again before."""

    repaired_count: int = 0
    failure: StoreError | None = None

    @property
    def is_holder(self) -> bool:
        """Whether the lease is ours, as far as is known."""
        return self.phase in (Phase.CATCHING_UP, Phase.HOLDING)

    @property
    def may_store(self) -> bool:
        """Whether something waits that may be given to the worker."""
        return bool(self.pending) and (self.is_giving_up or not self.is_closed)

    @property
    def last_unstored(self) -> Entry | None:
        """The last entry that was proposed and is not known to be stored; None if there is none."""
        if self.pending:
            return self.pending[-1]
        return self.in_flight[-1] if self.in_flight else None

    @property
    def margin_seconds(self) -> float:
        """What the clocks of two brokers may differ by in the time of one lease."""
        return self.lease_seconds * self.settings.margin_fraction

    @property
    def needed_silence(self) -> float:
        """
        After so long without a sign of life the lease may be taken.

        By the holder's own length of a lease, which may be set to another one than ours. The holder
        ends a whole margin before it: with half of one behind it, more than a margin lies between.
        """
        return self.holders_lease_seconds * (1 + self.settings.margin_fraction / 2)

    @property
    def short_silence(self) -> float:
        """After so long it may be taken, if the holder's session has ended as well."""
        return self.holders_lease_seconds * (SHORT_FRACTION + self.settings.margin_fraction)

    @property
    def holders_lease_seconds(self) -> float:
        """How long who holds the lease believes in it after a sign of life; ours if unknown."""
        holding = self.holding
        claimant = None if holding is None else holding.claimant
        return (
            self.lease_seconds if claimant is None else claimant.lease_seconds or self.lease_seconds
        )

    @property
    def holders_beat_seconds(self) -> float:
        """How often who holds the lease gives a sign of life at least."""
        return self.holders_lease_seconds / RENEWALS

    @property
    def short_seconds(self) -> float:
        """For so long a beat counts by itself where the holder's session may be over."""
        return self.lease_seconds if self.elections is None else SHORT_FRACTION * self.lease_seconds

    @property
    def _is_session_sure(self) -> bool:
        """Whether our session is alive for a while yet, or nobody is asked who is elected."""
        elections = self.elections
        return elections is None or elections.sure_until > self.now + self.lease_seconds / RENEWALS

    @property
    def sure_seconds(self) -> float:
        """For so long the lease is ours after a sign of life that is given now."""
        return self.lease_seconds if self._is_session_sure else self.short_seconds

    @property
    def beat_seconds(self) -> float:
        """A holder gives a sign of life so often; twice as often if its session may be over."""
        usual = self.lease_seconds / RENEWALS
        return usual if self._is_session_sure else usual / 2

    def validity(self) -> float:
        """
        Until when nobody else can hold the lease, after the last sign of life that was stored.

        With an elector the whole lease counts only while our session is alive for sure: whoever
        waits takes it sooner if it has ended.
        """
        until = self.renewed_at + self.lease_seconds - self.margin_seconds
        if self.elections is None:
            return until
        short = self.renewed_at + self.short_seconds - self.margin_seconds
        return max(short, min(until, self.elections.sure_until))

    def put_off_until(self, kind: type) -> float:
        """Before when an order of this kind, refused as it was, is not tried again."""
        undone = self.left_undone.get(kind)
        return NEVER if undone is None else undone.until

    def call_seconds(self, count: int = 0) -> float:
        """
        How long a call may take now that carries so many bytes.

        A holder's ends while half of what is left of the lease is left: a reply that is lost must
        not cost the lease, since the same again may be answered at once. One that carries much is
        given most of it: to send all that again takes as long. With an elector it is the whole
        lease while our session lives.
        """
        bound = self.settings.call_seconds_max
        if self.is_holder:
            fraction = _MUCH_FRACTION if count >= LARGE_BYTES else 0.5
            bound = min(bound, (self._call_until() - self.now) * fraction)
        return max(bound, 0.05)

    def _call_until(self) -> float:
        if self.elections is None or not self._is_session_sure:
            return self.valid_until
        return self.renewed_at + self.lease_seconds - self.margin_seconds
