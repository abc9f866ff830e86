"""
One consumer's interest in one queue or topic.

Queues and topics know it as a consumer; it knows which of them it hangs on.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.broker.serving.consumer import (
    AcknowledgeMode,
    Consumer,
    MessageSelector,
    Receiver,
)
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic


class Subscription(Consumer):
    """One consumer on one queue or topic."""

    __slots__ = ("queue", "topic")

    def __init__(
        self,
        receiver: Receiver,
        subscription_id: str,
        *,
        mode: AcknowledgeMode,
        prefetch: int,
        destination: str = "",
        client: str = "",
        selector: MessageSelector | None = None,
    ) -> None:
        super().__init__(
            receiver,
            subscription_id,
            mode=mode,
            prefetch=prefetch,
            destination=destination,
            client=client,
            selector=selector,
        )
        self.queue: Queue | None = None
        self.topic: Topic | None = None


class Subscriber(Receiver, Protocol):
    """A connection with all its subscriptions."""

    subscriptions: dict[str, Subscription]
