"""
What may be told to whoever says what happens (`advising`), as those see it who tell.

Nobody tells anything as long as nobody listens: to ask that is all it costs.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Final

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model.facts import Cause
from holdfast.model.records import Record


class Advises:
    """Says what happens to who listens; as it stands here, nobody does."""

    __slots__ = ("is_heard", "listeners")

    def __init__(self) -> None:
        self.listeners: Sized = ()
        """Who listens."""
        self.is_heard = False
        """Whether anybody does: it costs less to look at, where that is for each message."""

    @property
    def effort(self) -> int:
        """What saying something takes at most, counted in deliveries; none where nobody listens."""
        return 0

    def came(self, destination: Queue | Topic) -> None:
        """Say that there is a new queue or topic."""

    def went(self, destination: Queue | Topic) -> None:
        """Say that a queue or topic is gone."""

    def subscribed(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Say that somebody consumes from a queue or topic."""

    def unsubscribed(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Say that somebody does not do so any more."""

    def died(self, queue: Queue, keys: Sequence[int], cause: Cause, *, is_buried: bool) -> None:
        """Say of messages of a queue that they have expired, or are dead letters now, or both."""

    def expired_on_topic(self, topic: Topic, key: int) -> None:
        """Say that a message of a topic has expired before somebody had it."""

    def consumed(self, queue: Queue, keys: Sequence[int]) -> None:
        """Say of messages that they are acknowledged."""

    def arrived(self, records: Sequence[Record], size_bytes: int) -> None:
        """Say of messages in an entry that is applied, and has such a size, that they have come."""

    def arrived_in_memory(self, place: Queue | Topic, message: TransientMessage) -> None:
        """Say the same of one that is stored nowhere; and if nobody consumes from there."""

    def evicted(self, consumer: Consumer, key: int) -> None:
        """Say that a message is dropped, as too many wait for a consumer of a topic."""

    def full(self, place: Queue | Topic, why: str, producer: str) -> None:
        """Say that there is no room for what is sent somewhere; who must wait, if he does."""

    def slow(self, subscription: Subscription, place: Queue | Topic) -> None:
        """Say that a consumer is slow."""


SILENCE: Final = Advises()
"""Until there is somebody who says what happens."""
