"""
What sessions have written leaves with one write for each connection, in slices of a turn.

Copying counts: a slice ends after so many connections or, where bodies are large, so many bytes.
Sixty-four clients that get one message of 60 MB each were a turn of eight seconds.

Owned by the loop.
"""

from __future__ import annotations

from typing import Final

from holdfast.environment.clock import Clock
from holdfast.model.limits import KiB
from holdfast.server.containment import Containment
from holdfast.server.resuming import Resuming
from holdfast.server.turn_budget import TurnBudget
from holdfast.sessions.context import SessionContext

_CONNECTIONS_PER_LOOK: Final = 16
_BYTES_PER_CONNECTION: Final = 16 * KiB
"""To write so much takes about as long as another connection."""


class Flushing:
    """Sends what the sessions of one node have written."""

    __slots__ = ("_budget", "_clock", "_containment", "_context", "_resuming")

    def __init__(
        self,
        context: SessionContext,
        clock: Clock,
        containment: Containment,
        resuming: Resuming,
        budget: TurnBudget,
    ) -> None:
        self._context = context
        self._clock = clock
        self._containment = containment
        self._resuming = resuming
        self._budget = budget

    def step(self) -> bool:
        """Send as much as the time allows; whether another turn is to come soon."""
        context = self._context
        dirty, context.dirty = context.dirty, []
        now = self._clock.monotonic()
        self._budget.begin(now)
        again = False
        effort = 0
        for place, session in enumerate(dirty, 1):
            connection = session.connection
            if connection is None:
                continue
            was_full = session.room_bytes <= 0
            try:
                effort += 1 + connection.flush() // _BYTES_PER_CONNECTION
                session.note_sent(now)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self._containment.broke(session, error)
                continue
            if was_full and session.room_bytes > 0:
                self._resuming.resume(session)
                again = True
            if again or effort >= _CONNECTIONS_PER_LOOK:
                effort = 0
                if self._budget.is_spent():
                    context.dirty[:0] = dirty[place:]
                    return True
        return again
