"""
One consumer's interest in one queue or topic.

Queues and topics know it as a consumer; it knows which of them it hangs on.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.broker.serving.browser import Browser
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

    __slots__ = ("browser", "queue", "topic")

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
        """What it takes from."""
        self.topic: Topic | None = None
        self.browser: Browser | None = None
        """What it looks through, if it only does that."""

    @property
    def source(self) -> Queue | None:
        """The queue whose messages it gets, whether it takes them or looks through them."""
        return self.queue if self.browser is None else self.browser.queue

    @property
    def queue_number(self) -> int:
        """The number of that queue; 0 on a topic."""
        source = self.source
        return 0 if source is None else source.number


class Subscriber(Receiver, Protocol):
    """A connection with all its subscriptions."""

    subscriptions: dict[str, Subscription]
