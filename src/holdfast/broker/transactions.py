"""
Sends and acknowledgements held until commit.

A transaction lives with its connection on the leader; nothing of it is in the log before COMMIT.
Then all its records go into one batch, so into one log entry: all or nothing, also over a failover.
"""

from __future__ import annotations

from collections.abc import Container

from holdfast.broker.queue import Queue
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.subscription import Subscription
from holdfast.broker.topic import Topic
from holdfast.errors import TransactionError


class Transaction:
    """One local transaction of one connection."""

    __slots__ = (
        "failure",
        "late",
        "name",
        "operation_count",
        "sends",
        "settings",
        "settlements",
        "size_bytes",
    )

    def __init__(self, name: str, settings: BrokerSettings) -> None:
        self.name = name
        self.settings = settings
        self.sends: list[tuple[Queue | Topic, bytes, bytes, bool]] = []
        """Destination, headers, body, persistent."""
        self.settlements: list[tuple[Subscription, list[int]]] = []
        self.late: list[tuple[Queue, int]] = []
        """Queue and key: acknowledgements that outlived their connection."""
        self.failure: str | None = None
        """Why a part of it was refused; the whole can only be rolled back then."""
        self.size_bytes = 0
        self.operation_count = 0

    def add_send(
        self, destination: Queue | Topic, headers: bytes, body: bytes, *, persistent: bool
    ) -> None:
        """
        Hold a send until commit.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        self._grow(1, len(headers) + len(body))
        self.sends.append((destination, headers, body, persistent))

    def add_settlement(self, subscription: Subscription, keys: list[int]) -> None:
        """
        Hold an acknowledgement until commit; the deliveries leave the prefetch window now.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        self._grow(len(keys), 0)
        for key in keys:
            subscription.unacknowledged.pop(key, None)
        if subscription.queue is not None:
            subscription.queue.reserved.update(keys)
        self.settlements.append((subscription, keys))

    def add_late(self, queue: Queue, key: int) -> None:
        """
        Hold an acknowledgement of what nobody has until commit; nobody gets it meanwhile.

        Raises:
            TransactionError: The transaction grew over its limits.
        """
        self._grow(1, 0)
        queue.reserve(key)
        self.late.append((queue, key))

    def missing_queues(self, known: Container[str]) -> int:
        """Count the queues it sends to that were deleted since and are not among the `known`."""
        return len(
            {
                destination.name
                for destination, _, _, _ in self.sends
                if destination.is_deleted
                and isinstance(destination, Queue)
                and not destination.is_temporary
                and destination.name not in known
            }
        )

    def undo(self) -> list[tuple[Queue, list[int]]]:
        """
        Roll back: what was acknowledged is in delivery again and may be acknowledged again.

        It stands before what was delivered after it. Gives what cannot be in delivery, because its
        subscription is closed or it never had one, by queue.
        """
        by_subscription: dict[Subscription, list[int]] = {}
        for subscription, keys in self.settlements:
            by_subscription.setdefault(subscription, []).extend(keys)
        homeless: dict[Queue, list[int]] = {}
        for subscription, keys in by_subscription.items():
            queue = subscription.queue
            if not subscription.is_closed:
                if queue is not None:
                    queue.reserved.difference_update(keys)
                subscription.unacknowledged = dict.fromkeys([*keys, *subscription.unacknowledged])
            elif queue is not None:
                homeless.setdefault(queue, []).extend(keys)
        for queue, key in self.late:
            homeless.setdefault(queue, []).append(key)
        return list(homeless.items())

    def _grow(self, count: int, size: int) -> None:
        settings = self.settings
        if self.operation_count + count > settings.transaction_operation_count_max:
            raise TransactionError(
                f"transaction {self.name!r} has more than"
                f" {settings.transaction_operation_count_max:,} operations; commit more often"
            )
        if self.size_bytes + size > settings.transaction_bytes_max:
            raise TransactionError(
                f"transaction {self.name!r} has more than"
                f" {settings.transaction_bytes_max:,} bytes; commit more often"
            )
        self.operation_count += count
        self.size_bytes += size
