"""
Heart-beats of all clients: who is due a beat, and who has been silent for too long.

A round passes each connection once, in slices: ten thousand that are due at once are ten thousand
writes. The next round begins at the tick after the one before is done.

Invariants:
    What comes and goes only puts a deadline off, once heart-beats are agreed upon. So a client is
    looked at again when the deadline that was seen last has come: ten thousand that are quiet and
    well cost a comparison each.
    Nobody is held to be silent of whom something waits here to be read.

Owned by the loop.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from holdfast.broker.errands import IsSpent
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment
from holdfast.server.keep_alive import AGAIN_SECONDS, has_vanished

_LOOKED_AT_PER_STEP = 16


class HeartBeats:
    """Keeps the deadlines of one node's clients."""

    __slots__ = ("_containment", "_left", "is_under_way")

    def __init__(self, containment: Containment) -> None:
        self._containment = containment
        self._left: Iterator[ClientConnection] = iter(())
        self.is_under_way = False
        """A round was begun and is not done."""

    def begin(self, connections: Collection[ClientConnection]) -> None:
        """Begin a round, if none is under way."""
        if connections and not self.is_under_way:
            self._left = iter(list(connections))
            self.is_under_way = True

    def step(self, now: float, is_spent: IsSpent) -> None:
        """Go on with the round until it is done or the time is spent; at least a few."""
        for place, connection in enumerate(self._left, 1):
            if connection.look_at <= now and not connection.is_lost:
                self._look(connection, now)
            if connection.ask_at <= now:
                self._ask(connection, now)
            if not place % _LOOKED_AT_PER_STEP and is_spent():
                return
        self.is_under_way = False

    def _ask(self, connection: ClientConnection, now: float) -> None:
        """End a client whose machine is gone, whatever it agreed upon."""
        connection.ask_at = now + AGAIN_SECONDS
        if connection.is_lost:
            return
        opened = connection.transport.get_extra_info("socket")
        if opened is not None and has_vanished(opened):
            connection.transport.abort()

    def _look(self, connection: ClientConnection, now: float) -> None:
        session = connection.session
        if connection.is_paused:
            session.note_received(now)
        deadline = session.deadline
        if deadline is None or deadline > now:
            if session.is_connected:
                connection.look_at = math.inf if deadline is None else deadline
            return
        try:
            beat = session.handle_deadline(now)
            if beat is None:
                if not self._is_put_off(connection, now):
                    connection.transport.abort()
            # What its socket has not taken is a sign of life as well. Beats behind it would
            # only heap up, ten a second for as long as it reads nothing.
            elif beat and not connection.transport.get_write_buffer_size():
                connection.transport.write(beat)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._containment.broke(session, error)

    def _is_put_off(self, connection: ClientConnection, now: float) -> bool:
        """
        Whether one whose time is up is waited for, as it is we who have not read what came.

        Who has not said who he is gains the time until that is read, whatever he sends behind it.
        """
        session = connection.session
        if not connection.has_unread:
            return False
        if session.is_connected:
            session.note_received(now)
            return True
        if connection.overdue_at is None:
            connection.overdue_at = now
        received_at = session.received_at
        was_read = received_at is not None and received_at > connection.overdue_at
        return not was_read and not session.is_full
