"""
Which messages of stored topics somebody needs, as the log is gone through.

A topic's messages stand in it once. Of each durable subscription is known from where on they are
its own, which it is done with, and, of those that say so, that it does not want them. A message
lives while any of them needs it.

Invariants:
    Nothing of a topic goes before all of its subscriptions are known: a log that was cleaned tells
    of them further on, and of the topic last (`broker.lasting.topics`).

Pure. Memory: 8 bytes for each live message and subscription that is done with it, and the bits of
those that not all want.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from holdfast.model.records import (
    DeleteQueueRecord,
    PurgeRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.spark.log.entry_block import Integers

Mask = npt.NDArray[np.bool_]

_UNKNOWN: Final = -1


class SubscriptionNeeds:
    """What one durable subscription needs of its topic."""

    __slots__ = ("_done", "first", "is_declared", "number", "purged", "slot", "topic")

    def __init__(self, number: int, topic: TopicNeeds) -> None:
        self.number = number
        self.topic = topic
        self.first = 0
        self.slot = _UNKNOWN
        self.is_declared = False
        self.purged = 0
        self._done: list[Integers] = []

    def done(self, sequences: list[int]) -> None:
        """Note messages that it needs no more."""
        self._done.append(np.array(sequences, dtype=np.int64))

    def needs(self, sequences: Integers) -> Mask:
        """Tell of each of these messages whether it needs it."""
        needed: Mask = sequences >= max(self.first, self.purged + 1)
        if self._done:
            needed &= ~np.isin(sequences, np.concatenate(self._done))
        skipped = self.topic.skipping(self.slot)
        if len(skipped):
            needed &= ~np.isin(sequences, skipped)
        return needed

    def forget_all_but(self, sequences: Integers) -> None:
        """Remember only of messages that live that it is done with them."""
        if self._done:
            done = np.concatenate(self._done)
            self._done = [done[np.isin(done, sequences)]]


class TopicNeeds:
    """What the subscriptions of one topic need."""

    __slots__ = ("_by_slot", "_skips", "_unknown_count", "is_whole", "number", "subscriptions")

    def __init__(self, number: int) -> None:
        self.number = number
        self.subscriptions: dict[int, SubscriptionNeeds] = {}
        self._skips: dict[int, bytes] = {}
        """By sequence: who does not want a message, a bit for each slot."""
        self._by_slot: tuple[Integers, npt.NDArray[np.uint8]] | None = None
        """The same as arrays: the sequences, and a row of bits for each; None: not made yet."""
        self.is_whole = False
        """All of its subscriptions are known."""
        self._unknown_count = 0

    def declared(self, record: TopicRecord) -> None:
        """Note how many subscriptions there are."""
        if not self.is_whole:
            known = sum(each.is_declared for each in self.subscriptions.values())
            self._unknown_count = record.subscription_count - known
            self.is_whole = self._unknown_count <= 0

    def knows_one_more(self) -> None:
        """Note that one of those that were not known has ended."""
        if self._unknown_count:
            self._unknown_count -= 1
            self.is_whole |= not self._unknown_count

    def skipped(self, sequence: int, slots: bytes) -> None:
        """Note who does not want a message."""
        self._skips[sequence] = slots
        self._by_slot = None

    def skipping(self, slot: int) -> Integers:
        """Give the messages that the subscription with this slot does not want."""
        if self._by_slot is None:
            width = max(map(len, self._skips.values()), default=0)
            bits = b"".join(slots.ljust(width, b"\0") for slots in self._skips.values())
            rows = np.frombuffer(bits, dtype=np.uint8).reshape(len(self._skips), width)
            count = len(self._skips)
            self._by_slot = np.fromiter(self._skips, dtype=np.int64, count=count), rows
        sequences, rows = self._by_slot
        if not 0 <= slot >> 3 < rows.shape[1]:
            return sequences[:0]
        wanting_not: Integers = sequences[rows[:, slot >> 3] & (1 << (slot & 7)) != 0]
        return wanting_not

    def needed(self, sequences: Integers) -> Mask:
        """Tell of each of these messages whether anybody needs it, as far as that is known."""
        if not self.is_whole:
            return np.ones(len(sequences), dtype=np.bool_)
        needed: Mask = np.zeros(len(sequences), dtype=np.bool_)
        for each in self.subscriptions.values():
            needed |= each.needs(sequences)
        return needed

    def forget_all_but(self, sequences: Integers) -> None:
        """Forget what is known of messages that nobody needs."""
        lives = set(sequences.tolist())
        self._skips = {it: slots for it, slots in self._skips.items() if it in lives}
        self._by_slot = None
        for each in self.subscriptions.values():
            each.forget_all_but(sequences)


class StoredTopics:
    """All stored topics, and their subscriptions."""

    __slots__ = ("by_number", "subscriptions")

    def __init__(self) -> None:
        self.by_number: dict[int, TopicNeeds] = {}
        self.subscriptions: dict[int, SubscriptionNeeds] = {}

    def topic(self, number: int) -> TopicNeeds:
        """Give the topic of a number."""
        found = self.by_number.get(number)
        if found is None:
            found = self.by_number[number] = TopicNeeds(number)
        return found

    def subscription(self, number: int, topic_number: int) -> SubscriptionNeeds:
        """Give the subscription of a number, of which nothing may have been told yet."""
        found = self.subscriptions.get(number)
        if found is None:
            topic = self.topic(topic_number)
            found = self.subscriptions[number] = SubscriptionNeeds(number, topic)
            topic.subscriptions[number] = found
        return found

    def declared(self, record: SubscriptionRecord) -> None:
        """Note what a subscription is; what was known of its messages stays so."""
        subscription = self.subscription(record.number, record.topic_number)
        if not subscription.is_declared:
            subscription.is_declared = True
            subscription.first, subscription.slot = record.first_sequence, record.slot

    def settled(self, record: SubscriptionAcknowledgeRecord) -> None:
        """Note what a subscription is done with."""
        self.subscription(record.queue_number, record.topic_number).done(record.sequences)

    def purged(self, record: PurgeRecord) -> None:
        """Note up to where a subscription is done with everything."""
        subscription = self.subscription(record.queue_number, record.topic_number)
        subscription.purged = max(subscription.purged, record.through_sequence)

    def deleted(self, record: DeleteQueueRecord) -> None:
        """End a subscription."""
        subscription = self.subscriptions.pop(record.queue_number, None)
        if subscription is not None:
            del subscription.topic.subscriptions[record.queue_number]
        if subscription is None or not subscription.is_declared:
            self.topic(record.topic_number).knows_one_more()
