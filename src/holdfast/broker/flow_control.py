"""
What clients make the leader hold beside messages on queues, and when that is enough.

Open transactions, subscriptions and the names of destinations have bounds; who would pass one is
refused, and nothing of it is kept.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, TransactionError


class FlowControl:
    """What is held for all clients of one broker."""

    __slots__ = ("_settings", "held_bytes", "subscription_bytes", "subscription_count")

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.forget_leadership()

    def forget_leadership(self) -> None:
        """Count anew: nobody is connected."""
        self.held_bytes = 0
        """What open transactions hold, with what a message costs beside its content."""
        self.subscription_count = self.subscription_bytes = 0
        """Of all connections."""

    def require_held_room(self, cost: int) -> None:
        """
        Refuse what open transactions would hold beyond the bound.

        Raises:
            TransactionError: All transactions together hold too much; many empty ones do.
        """
        if self.held_bytes + cost > self._settings.transactions_bytes_max:
            raise TransactionError(
                f"open transactions hold {self.held_bytes:,} bytes;"
                f" at most {self._settings.transactions_bytes_max:,}; commit some first"
            )


def require_room(count: int, count_max: int, what: str) -> None:
    """
    Refuse one more of something that has a limit.

    Raises:
        DestinationError: There are as many as there may be.
    """
    if count >= count_max:
        raise DestinationError(f"there are {count:,} {what} already; at most {count_max:,}")
