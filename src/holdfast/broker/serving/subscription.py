"""
One consumer's interest in one queue or topic.

Queues and topics know it as a consumer; it knows which of them it hangs on.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterator
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

    __slots__ = ("browser", "is_wild", "queue", "topic")

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
        self.is_wild = False
        """Its client did not name its destination: that may come and go."""
        self.browser: Browser | None = None
        """What it looks through, if it only does that."""

    @property
    def bundle(self) -> Subscription | None:
        """What its client knows it as, where it is to several queues and topics; see `bundle`."""
        return None

    @property
    def left_in(self) -> int:
        """In how many steps its connection leaves it."""
        return 1

    @property
    def queues(self) -> list[Queue]:
        """The queues that it takes messages from."""
        return [] if self.queue is None else [self.queue]

    @property
    def sole_holder(self) -> Subscription:
        """What of it has the one message that is in delivery, where there is but one."""
        return self

    def part_of(self, queue_number: int, key: int) -> Subscription | None:
        """Give what of it may have a message of a queue (0: of a topic), None if nothing may."""
        return self if self.queue_number == queue_number else None

    def step_back(self) -> None:
        """Let those of its client go first that wait for longer; alone it goes first anyway."""

    def reserve(self, keys: list[int]) -> None:
        """Take what a transaction settles out of the window; it may come back."""
        take = self.unacknowledged.pop
        for key in keys:
            take(key, None)
        self.reserved_count += len(keys)

    def committed(self, keys: list[int], step_count: int) -> Iterator[None]:
        """Let go, in steps, of what a transaction has settled."""
        self.reserved_count -= len(keys)
        yield from ()

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
