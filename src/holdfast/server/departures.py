"""
Clients that go, and clients that are sent away: in slices, as there may be ten thousand at once.

Whoever is gone still holds deliveries, transactions and temporary queues until its turn comes; it
is given nothing more meanwhile. Where the leadership is over nothing is given back: the sockets are
closed, with a last word if there is one.

Invariants:
    A connection that came here is in nobody's list of clients any more.

Owned by the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment

_ENDED_AT_ONCE: Final = 256


class Departures:
    """What is left to be done for those who do not come back."""

    __slots__ = ("_broker", "_closing", "_containment", "_gone", "_parting", "are_waiting")

    def __init__(self, broker: Broker, containment: Containment) -> None:
        self._broker = broker
        self._containment = containment
        self._gone: deque[ClientConnection] = deque()
        """Lost: what they hold is to be given back."""
        self._closing: deque[tuple[ClientConnection, str]] = deque()
        """Of a leadership that is over: to be closed, with this last word."""
        self._parting: dict[ClientConnection, float] = {}
        """Closed with a last word that may never be read, and when they are ended, oldest first."""

        self.are_waiting = False
        """There are some to be seen off."""

    def __bool__(self) -> bool:
        return self.are_waiting

    def gone(self, connection: ClientConnection) -> None:
        """Take a connection that is lost, and of which all is read."""
        self._gone.append(connection)
        self.are_waiting = True

    def send_away(self, connections: Iterable[ClientConnection], farewell: str) -> None:
        """Close all clients, as the leadership is over; what anybody holds is dropped with it."""
        self._broker.flow.discards.add(self._gone)
        self._gone = deque()
        self._closing.extend((connection, farewell) for connection in connections)
        self.are_waiting = bool(self._closing)

    def parting(self, connection: ClientConnection, until: float) -> None:
        """Take a connection that was told its last word and may never read it."""
        self._parting.setdefault(connection, until)

    def parted(self, connection: ClientConnection) -> None:
        """Note that a connection is closed, whether it has read its last word or not."""
        self._parting.pop(connection, None)

    def part(self, now: float) -> None:
        """End the connections that did not take their last words in time, some at a time."""
        for connection, until in list(islice(self._parting.items(), _ENDED_AT_ONCE)):
            if until > now:
                break
            del self._parting[connection]
            connection.transport.abort()

    def step(self, is_spent: IsSpent) -> None:
        """See off one after the other until the time is spent; at least one."""
        self._see_off(is_spent)
        self.are_waiting = bool(self._gone or self._closing)

    def _see_off(self, is_spent: IsSpent) -> None:
        while self._closing:
            self._close(*self._closing.popleft())
            if is_spent():
                return
        while self._gone:
            connection = self._gone.popleft()
            self._containment.leave(connection.session)
            # Else the two hold each other, and thousands wait for the collector of cycles.
            connection.session.connection = None
            if is_spent():
                return

    def _close(self, connection: ClientConnection, farewell: str) -> None:
        session = connection.session
        session.out.clear()
        try:
            if farewell and not connection.transport.get_write_buffer_size():
                session.farewell(farewell, "quorum-lost")
                connection.flush()
            else:
                connection.transport.abort()
        finally:
            self._broker.flow.discards.add(*session.forget())
