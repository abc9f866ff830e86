"""
Who uses the broker in its property test: connections with a subscription, and open transactions.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.settings import BrokerSettings
from tests.property.broker.expected import PLACE

SETTINGS = BrokerSettings(
    memory_bytes=600,
    message_memory_overhead_bytes=20,
    dispatch_mark_step_min=4,
    dispatch_mark_step_max=16,
    step_count_max=2,
    dead_letter_queue="dead",
    producer_idle_seconds=0.00002,
)


class Consumer:
    """A connection with one subscription."""

    def __init__(self, name: str, mode: AcknowledgeMode, prefetch: int) -> None:
        self.room_bytes = 1 << 30
        self.subscriptions: dict[str, Subscription] = {}
        self.queue = name
        self.subscription = Subscription(self, "s", mode=mode, prefetch=prefetch)
        self.subscriptions["s"] = self.subscription
        self.held: dict[int, PLACE] = {}
        """Key to message, in the order of delivery."""

    def recount_room(self) -> None:
        """There is as much room as before."""


class OpenTransaction:
    def __init__(self) -> None:
        self.transaction = Transaction("t", SETTINGS)
        self.sends: list[tuple[str, bytes]] = []
        self.settled: list[tuple[Consumer, dict[int, PLACE]]] = []
        self.late: list[tuple[Queue, int, PLACE]] = []
        self.due: dict[PLACE, int | None] = {}
        """Until when what it settled late was to rest, if it was coming again."""
