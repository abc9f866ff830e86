"""
Clients that take deliveries again: their sockets have caught up with what was written to them.

Each looks at all its subscriptions, up to 10,000 in 2 ms, and sockets that drain in one round of
the loop are many: so they are resumed in slices of a turn, one after the other.

Owned by the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment
from holdfast.sessions.session import Session


class Resuming:
    """Lets sessions have deliveries again."""

    __slots__ = ("_broker", "_containment", "drained")

    def __init__(self, broker: Broker, containment: Containment) -> None:
        self._broker = broker
        self._containment = containment
        self.drained: deque[ClientConnection] = deque()
        """Whose sockets have caught up, and to whom nothing was given since."""

    def later(self, connection: ClientConnection) -> None:
        """Resume this client in one of the next steps."""
        self.drained.append(connection)

    def step(self, served: Collection[ClientConnection], is_spent: IsSpent) -> bool:
        """Resume those that are served still; whether these were all."""
        while self.drained:
            connection = self.drained.popleft()
            if connection in served:
                self.resume(connection.session)
                if is_spent():
                    return not self.drained
        return True

    def resume(self, session: Session) -> None:
        """Let a session have deliveries again; one that breaks over it costs that client."""
        try:
            self._broker.resume(session)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._containment.broke(session, error)

    def stop(self) -> None:
        """Forget them all: the clients of a leadership that is over."""
        self.drained.clear()
