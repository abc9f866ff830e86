"""
Want of room for the cache: it costs no message, and a holder its lease only where another serves.

Nothing confirmed depends on the cache. So while its file system has no room a holder goes on: what
is stored in the medium waits in memory to be written, up to a bound, and is read from there. Sooner
than that it hands the lease to a broker that waits and has read further than this one could write,
now and then, so that two without room do not hand it back and forth. At the bound nothing more is
published here, and a broker that has to read the log first does not take the lease, or gives it
back: it would never serve. What else is stored (acknowledgements, subscriptions, users) has as much
again. Past that nothing is stored here before there is room: whoever asks for it waits, as with a
medium that takes nothing, and the lease is handed over more readily.

Invariant:
    No more is stored while twice `unread_bytes_max` wait; with what is under way that bounds them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from holdfast.journal.journal import Journal
from holdfast.leases.contract import Waiter
from holdfast.leases.state import NEVER, LeasedState, Phase

logger = logging.getLogger("holdfast.leases")

CLOSED_AT: Final = 2
"""So many times `unread_bytes_max` may wait to be written, publishing or not."""
AGAIN_SECONDS: Final = 600.0
"""The lease is handed over for want of room so often at most."""
CLOSED_AGAIN_SECONDS: Final = 30.0
"""The same where nobody is served who stores anything."""


class CacheRoom:
    """Watches over the cache of one broker."""

    __slots__ = ("_handed_at", "_journal", "_state")

    def __init__(self, state: LeasedState, journal: Journal) -> None:
        """There is room, as far as is known."""
        self._state = state
        self._journal = journal
        self._handed_at = NEVER

    @property
    def is_out(self) -> bool:
        """Whether what is stored in the medium waits to be written into the cache."""
        return self._journal.is_out_of_room

    @property
    def is_stuck(self) -> bool:
        """Whether no more may wait."""
        waiting = self._journal.tail.memory.bytes
        return self.is_out and waiting >= self._state.settings.unread_bytes_max

    @property
    def is_closed(self) -> bool:
        """Whether nothing more may be stored, whatever it is."""
        waiting = self._journal.tail.memory.bytes
        return self.is_out and waiting >= CLOSED_AT * self._state.settings.unread_bytes_max

    @property
    def trouble(self) -> str:
        """What its operator is to do; empty while there is room."""
        if not self.is_out:
            return ""
        all_waits = self.is_closed and self._state.is_holder
        closed = "; until then nothing is stored, and acknowledgements wait" if all_waits else ""
        return (
            f"--data ({self._journal.directory.parent}) has no room for this broker's copy of the"
            f" log, which is no part of it: make room there, or give it a larger --data{closed}"
        )

    def step(self, others: Iterable[Waiter]) -> None:
        """
        Hand the lease over, or do without it, where there is no room for the cache.

        Args:
            others: Brokers that are there.
        """
        state = self._state
        self._tell_closed()
        if not self.is_out:
            return
        if state.phase is Phase.HOLDING:
            self._hand_over(others)
            return
        if not self.is_stuck:
            return
        if state.is_holder and not state.is_giving_up:
            logger.error("the lease is given back: %s", self.trouble)
            state.is_giving_up = True
        # It is looked at again, and meanwhile nothing is read: it could not be kept.
        later = state.now + state.settings.look_seconds
        state.look_at = max(state.look_at, later)
        state.take_at = max(state.take_at, later)

    def _tell_closed(self) -> None:
        """Say so once: it stops whoever acknowledges."""
        state = self._state
        was, state.is_closed = state.is_closed, self.is_closed and state.phase is Phase.HOLDING
        if state.is_closed and not was:
            logger.error("nothing more is stored: %s", self.trouble)
        elif was and not state.is_closed and state.phase is Phase.HOLDING:
            logger.warning("there is room for this broker's copy again: what waited is stored")

    def _hand_over(self, others: Iterable[Waiter]) -> None:
        state = self._state
        is_idle = state.is_giving_up or state.refusal or state.trouble
        again_at = self._handed_at + (CLOSED_AGAIN_SECONDS if self.is_closed else AGAIN_SECONDS)
        if is_idle or state.now < again_at:
            return
        if state.elections is not None and state.elections.trouble:
            return  # Whoever waits would take it after three leases only.
        written = self._journal.stored_index
        able = [it.claimant.name for it in others if it.applied_index > written]
        if not able:
            return
        logger.error("the lease is given to %s: %s", " or ".join(able), self.trouble)
        self._handed_at = state.now
        state.is_giving_up = True
