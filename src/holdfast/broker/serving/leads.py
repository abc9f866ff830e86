"""
What all queues of one leader share, as each of them sees it.

A queue tells it what is to be done later or by others, and asks it for what is not the queue's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Protocol, TypeVar

from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription, SubscriptionKey
from holdfast.broker.serving.choice import Choice
from holdfast.broker.serving.consumer import MessageSelector
from holdfast.broker.settings import BrokerSettings
from holdfast.model.numbering import Numbering
from holdfast.model.records import ReturnCause

Queue = TypeVar("Queue")
"""What its queues are."""


class Leads(Protocol[Queue]):
    """What all queues of one leader share, as each of them sees it."""

    settings: BrokerSettings
    flow: FlowControl
    numbering: Numbering
    touched: deque[Queue]
    """Queues with consumers that may have something new to dispatch."""
    leaving: dict[int, Queue]
    """By number: queues whose deletion is on its way."""
    filling: dict[Queue, None]
    """Queues that may have come to hold more than they may."""
    known_count: int
    """Words of messages by which those of all queues are found that have selectors."""

    def make_choice(self, queue: Queue) -> Choice:
        """Make what pairs a queue's messages with its consumers."""

    def first_number(self, lasting: LastingQueue) -> int:
        """Give the first number that this leader gives on a queue."""

    def half_of(self, lasting: LastingQueue) -> Queue | None:
        """Give the serving half of a queue, if this leader has one."""

    def serve(self, lasting: LastingQueue) -> Queue:
        """Make the serving half of a queue that the log has."""

    def selector_of(self, subscription: LastingSubscription) -> MessageSelector | None:
        """Give what a durable subscription wants; None: all."""

    def client_key_of(self, subscription: LastingSubscription) -> SubscriptionKey:
        """Give by what a client names a durable subscription, if this is all of it or a part."""

    def deleted(self, queue: Queue) -> None:
        """Note that a queue's deletion is applied."""

    def say_returned(self, queue: Queue, cause: ReturnCause, keys: list[int], due_ms: int) -> bool:
        """Let the log say that stored messages come back; false if it does not say so yet."""

    def expires(self, queue: Queue) -> None:
        """Note that the first of a queue's messages expires earlier than was known."""

    def rests(self, queue: Queue) -> None:
        """Note that the first of a queue's messages that rest is due earlier than it was."""

    def rouse(self, queue: Queue, due_ms: int) -> None:
        """Wake a queue at this time, or soon if that is over."""

    def discard(self, *piles: Collection[object]) -> None:
        """Let go, in steps, of what nobody can reach any more."""
