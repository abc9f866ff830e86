"""
What an elector's word is worth to a broker that waits for a lease, or holds it: pure.

A broker that waits takes the lease when it is the first in the line, but for a holder whose time is
over. A holder whose session is known to live needs no beat for a whole lease; one that is not sure
of its session goes by a shorter time. So who waits may take the lease after that shorter time, once
the holder's session was seen to have ended: both together prove that it dispatches no more.

An elector that is away, or elects somebody who never takes, costs patience and no more: after it
whoever waits takes the lease as it would without one.

Invariants:
    A session counts as ours from before it was asked for, and only while we stand in the line.
    The line that proves a session's end was read after the shorter time was over.
"""

from __future__ import annotations

from typing import Final

from holdfast.leases.contract import Holding
from holdfast.leases.elector import Reading

SHORT_FRACTION: Final = 0.4
"""The share of a lease for which a holder's beat counts by itself, if its session may be over."""

NOT_ASKED: Final = "it was not asked yet"

_NEVER: Final = float("-inf")
_KNOWN_COUNT_MAX: Final = 1_000
_PATIENCE_LEASES: Final = 2.0


class Elections:
    """What one broker knows of its elector."""

    __slots__ = (
        "_known",
        "_read_began",
        "_willing_since",
        "heard_at",
        "is_willing",
        "line",
        "own",
        "patience_setting",
        "strangers",
        "sure_until",
        "trouble",
    )

    def __init__(self, own: str, patience_seconds: float = 0.0) -> None:
        """Nothing is known; `own` is how we are known, 0 of patience stands for two leases."""
        self.own = own
        self.patience_setting = patience_seconds
        self.is_willing = False
        """Whether we want to be elected."""
        self._willing_since = _NEVER
        self.line: tuple[str, ...] = ()
        self._read_began = _NEVER
        self.sure_until = _NEVER
        """Until when, by the lease clock, our session cannot end."""
        self.heard_at = _NEVER
        self.trouble = NOT_ASKED
        """Why the line is not known; empty while it is."""
        self.strangers = 0
        self._known: set[str] = set()
        """Who was ever seen in the line: each of them goes by the rules of this module."""

    def want(self, *, is_willing: bool, now: float) -> None:
        """Stand for election from now on, or do not."""
        if is_willing == self.is_willing:
            return
        self.is_willing, self._willing_since = is_willing, now
        self.sure_until = _NEVER

    def note(self, reading: Reading, margin_fraction: float) -> None:
        """The elector was asked, or could not be; the margin is what clocks differ by."""
        line = reading.line
        self.trouble = reading.trouble
        if line is None:
            return
        self.heard_at = reading.ended
        self.line, self._read_began, self.strangers = line.holders, reading.began, line.strangers
        if len(self._known) > _KNOWN_COUNT_MAX:
            self._known.clear()
        self._known.update(line.holders)
        is_ours = self.is_willing and reading.is_willing and reading.began >= self._willing_since
        if is_ours and self.own in line.holders:
            until = reading.began + line.sure_seconds * (1.0 - margin_fraction)
            self.sure_until = max(self.sure_until, until)

    def elected(self, but: str = "") -> str:
        """Who is first in the line, leaving one out; empty if nobody is."""
        return next((it for it in self.line if it != but), "")

    def is_elected(self, now: float, but: str = "") -> bool:
        """Whether that is us, for sure."""
        return now < self.sure_until and self.elected(but) == self.own

    def patience_seconds(self, lease_seconds: float) -> float:
        """So much longer than the lease whoever is not elected waits."""
        return self.patience_setting or _PATIENCE_LEASES * lease_seconds

    def has_lost_session(self, holder: str, silent_since: float, short_seconds: float) -> bool:
        """Whether a holder was not in the line any more when it had been silent for so long."""
        if holder in self.line or holder not in self._known:
            return False
        return self._read_began >= silent_since + short_seconds

    def may_take(
        self,
        holding: Holding,
        now: float,
        *,
        is_over: bool,
        silent_since: float,
        short_seconds: float,
    ) -> bool:
        """
        Whether we are to take a lease, within our patience.

        Args:
            is_over: Whether its holder's time is over without the elector's word.
            silent_since: When the beat that was read just now was first seen.
            short_seconds: The shorter time, and the margin.
        """
        holder = "" if holding.claimant is None else holding.claimant.holder
        is_over = is_over or self.has_lost_session(holder, silent_since, short_seconds)
        return is_over and self.is_elected(now, but=holder)
