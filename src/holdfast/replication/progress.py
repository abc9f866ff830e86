"""
A peer as the leader sees it: how far its log is, how much is under way to it, when it was heard.

Invariants:
    match_index < next_index.
    PROBING: at most one append request with entries is under way; the answer to it, or to a
        heartbeat behind it, tells where the logs agree.
    REPLICATING: requests follow each other without waiting, within the window.
    RESETTING: the peer was told to start over; nothing is sent until it has answered.
    match_index counts only what the peer said is durable there, in this leader's term.
    keeps_up is about the link as well: what a peer lacks then is there as soon again.
    contact_at is when the newest answered request was SENT, by the leader's clock: a lease may be
    counted from it, never from when the answer came.
"""

from __future__ import annotations

from collections import deque
from enum import Enum


class Pace(Enum):
    """How entries are sent to a peer."""

    PROBING = "probing"
    REPLICATING = "replicating"
    RESETTING = "resetting"


class Progress:
    """The leader's view of one peer in its own term."""

    __slots__ = (
        "contact_at",
        "is_waiting",
        "keeps_up",
        "match_index",
        "moved_at",
        "next_index",
        "pace",
        "probed_at",
        "round_at",
        "round_index",
        "sent_at",
        "under_way",
        "under_way_bytes",
    )

    def __init__(self, next_index: int) -> None:
        self.next_index = next_index
        self.match_index = 0
        self.pace = Pace.PROBING
        self.contact_at = float("-inf")
        self.moved_at = float("-inf")
        """When a part of what was sent last went out: no contact, but no silence either."""
        self.sent_at = float("-inf")
        """When anything was last sent; the next heartbeat is due one period later."""
        self.is_waiting = False
        """Probing or resetting: one request is under way; heartbeats ask again, without entries."""
        self.probed_at = float("-inf")
        """When the request of the last probe was sent: a rejection of an older one says nothing."""
        self.under_way: deque[tuple[int, int]] = deque()
        """(last index, bytes) of each append request that is sent and not yet matched."""
        self.under_way_bytes = 0
        self.keeps_up = False
        """What this leader had when the last round began, the peer had within a short time."""
        self.round_index = 0
        self.round_at = float("-inf")

    def look(self, now: float, last_index: int, seconds_max: float) -> None:
        """See whether the peer keeps up: a round ends when it has what there was as it began."""
        is_over = self.match_index >= self.round_index
        if now - self.round_at > seconds_max:
            self.keeps_up = False
        elif is_over:
            self.keeps_up = True
        if is_over:
            self.round_index, self.round_at = last_index, now

    def sent(self, last_index: int, size: int) -> None:
        """Note that entries through `last_index`, of `size` bytes, are on their way."""
        self.next_index = last_index + 1
        self.under_way.append((last_index, size))
        self.under_way_bytes += size

    def matched(self, index: int) -> bool:
        """Note that the peer holds everything through `index`; tell whether that is news."""
        if self.pace is not Pace.REPLICATING:
            self.pace = Pace.REPLICATING
            self.is_waiting = False
            self._forget_under_way()
            self.next_index = max(index, self.match_index) + 1
        under_way = self.under_way
        while under_way and under_way[0][0] <= index:
            self.under_way_bytes -= under_way.popleft()[1]
        if index <= self.match_index:
            return False
        self.match_index = index
        if self.next_index <= index:
            self.next_index = index + 1
        return True

    def probe(self, next_index: int) -> None:
        """Go back to asking where the logs agree, starting before `next_index`."""
        self.pace = Pace.PROBING
        self.is_waiting = False
        self._forget_under_way()
        self.next_index = max(next_index, self.match_index + 1)

    def reset(self, base_index: int) -> None:
        """The peer was told to start over at `base_index`; wait for it."""
        self.pace = Pace.RESETTING
        self.is_waiting = True
        self._forget_under_way()
        self.match_index = 0
        self.next_index = base_index

    def _forget_under_way(self) -> None:
        self.under_way.clear()
        self.under_way_bytes = 0
