"""
What waits in memory for topic subscribers that do not read, and who is closed when it is too much.

Each subscription has a limit of its own, past which its topic's producers wait. One connection may
have thousands of subscriptions and read none of them, so all that waits for one connection has a
limit, and all that waits on this node. Past them the connection with the most is closed with an
ERROR: those that read get on, and it may come back and start anew, as topics have it.

What a connection asked for that topics had kept for it counts for the limit of one connection only
where it is more than all of them may keep: it cannot be read as fast as it is given.

Memory for what waits is counted with what a message costs beside its content.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.serving.consumer import Receiver
from holdfast.errors import SlowConsumerError
from holdfast.server.settings import ServerSettings

SLOW_CONSUMER = SlowConsumerError.code


class SlowConsumers:
    """Watches what waits for the topic subscribers of one broker."""

    __slots__ = ("_broker", "_settings", "closed_count", "pending_bytes")

    def __init__(self, broker: Broker, settings: ServerSettings) -> None:
        self._broker = broker
        self._settings = settings
        self.pending_bytes = 0
        """What waited at the last look."""
        self.closed_count = 0

    def is_due(self) -> bool:
        """Whether so much more waits than at the last look that it is worth another."""
        return self._broker.publishing.backlogs.growth_bytes >= self._settings.backlog_look_bytes

    def look(self) -> list[tuple[Receiver, str]]:
        """Give the connections to close, each with the sentence that says why."""
        backlogs = self._broker.publishing.backlogs
        backlogs.growth_bytes = 0
        waiting, recovered = backlogs.sizes, backlogs.recovered_sizes
        self.pending_bytes = backlogs.total_bytes
        connection_max = self._settings.connection_backlog_bytes_max
        node_max = self._settings.backlog_bytes_max
        chosen: list[tuple[Receiver, str]] = []
        if self.pending_bytes <= node_max and max(waiting.values(), default=0) <= connection_max:
            return chosen
        recovered_max = self._broker.settings.recovery_bytes_max
        for receiver in sorted(waiting, key=waiting.__getitem__, reverse=True):
            size = waiting[receiver]
            if size - min(recovered.get(receiver, 0), recovered_max) > connection_max:
                limit = f"at most {connection_max:,} for one connection"
            elif self.pending_bytes > node_max:
                limit = f"and {self.pending_bytes:,} for all, at most {node_max:,}"
            elif size > connection_max:
                continue
            else:
                break
            self.pending_bytes -= size
            self.closed_count += 1
            why = f"this connection does not read: {size:,} bytes from topics wait for it, {limit}"
            chosen.append((receiver, why))
        return chosen
