"""
Selectors that ask for a message's body, and count how often they were asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.broker.serving.consumer import NO_CLAIM, AcknowledgeMode, Claim
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.records import MessageRecord


class Wish:
    """Wants messages with one body, and perhaps only their second delivery."""

    effort = 1
    cost_bytes = 10

    def __init__(self, word: str, deliveries: int = 0, *, is_found_by_word: bool = True) -> None:
        self.word = word
        self.deliveries = deliveries
        self.condition = f"{word} {deliveries}"
        self.literal = ("word", word) if is_found_by_word else None
        self.asked_count = 0

    def selects(self, message: TransientMessage) -> bool:
        raise AssertionError("that is asked on topics only")

    def values_of(
        self, key: int, message: MessageRecord | TransientMessage, redelivered: int
    ) -> Mapping[str, object]:
        assert message.body is not None
        return Said(word=message.body.decode(), deliveries=redelivered)

    def is_true_of(self, values: Mapping[str, object]) -> bool:
        self.asked_count += 1
        return values["word"] == self.word and self.deliveries in (0, values["deliveries"])


class Ledger:
    """What all queues know, and what was let go of."""

    def __init__(self) -> None:
        self.known_count = 0
        self.discarded: list[Collection[object]] = []

    def discard(self, *piles: Collection[object]) -> None:
        self.discarded += piles


class Said(dict[str, object]):
    """What a message says."""

    def __missing__(self, name: str) -> object:
        return None


def subscribe(
    desk: Any,
    client: Any,
    wish: Wish | str | None,
    *,
    prefetch: int = 5,
    claim: Claim = NO_CLAIM,
) -> Subscription:
    """Consume what a wish wants."""
    name = f"s{len(client.subscriptions)}"
    selector = Wish(wish) if isinstance(wish, str) else wish
    consumer = Subscription(
        client, name, mode=AcknowledgeMode.INDIVIDUAL, prefetch=prefetch, selector=selector
    )
    consumer.claim = claim
    client.subscriptions[name] = consumer
    desk.broker.subscribe(consumer, desk.queue())
    return consumer
