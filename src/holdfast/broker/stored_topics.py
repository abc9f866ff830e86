"""
Topics of which messages are stored, by name: those that have durable subscriptions.

Invariants:
    A name means the topic that the leader has planned, or its end, else the log's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingTopic
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import has_wildcards
from holdfast.model.records import DeleteQueueRecord
from holdfast.model.topic_records import TopicRecord

GiveParts = Callable[[str, StoredTopic | None], StoredTopic | None]
"""Of a topic by name, and as it is if it is stored already; gives it as it is then."""


class Names(Protocol):
    """All destinations by name, as far as stored topics need them."""

    leadership: Leadership
    topics: dict[str, Topic]

    def take_number(self) -> int:
        """Take a number that nothing else has."""

    def say_came(self, place: Queue | Topic) -> None:
        """Let who listens know of a destination that is new."""

    def say_gone(self, place: Queue | Topic) -> None:
        """Let who listens know of one that is gone."""


class StoredTopics:
    """What is sent to for durable subscriptions."""

    __slots__ = ("_destinations", "_receipts", "_state", "give_parts")

    def __init__(self, destinations: Names, state: BrokerState, receipts: Receipts) -> None:
        self._destinations = destinations
        self._state = state
        self._receipts = receipts
        self.give_parts: GiveParts = lambda _name, topic: topic
        """Lets durable subscriptions of wildcards that mean a topic have parts on it."""

    def topic(self, name: str) -> StoredTopic | None:
        """
        Give the topic of this name as it is sent to, if durable subscriptions get that, else None.

        It is declared by that if only wildcards mean it so far.

        Raises:
            DestinationError: There are too many subscriptions for that.
        """
        topic, patterns = self.known(name), self._destinations.leadership.patterns
        if patterns and (topic is None or topic.parts_given != patterns.change_count):
            return self.give_parts(name, topic)
        return topic

    def at_hand(self, name: str) -> StoredTopic | None:
        """Give it as `topic` does, but where there may be no more subscriptions as it is."""
        try:
            return self.topic(name)
        except DestinationError:
            live = self._destinations.topics.get(name)
            if live is not None:
                live.note_stored(self.is_stored(name))  # So nobody remembers what it comes to.
            return self.known(name)

    @property
    def have_wildcards(self) -> bool:
        """Whether there are durable subscriptions of wildcards."""
        return bool(self._destinations.leadership.patterns)

    def lacks_parts(self, name: str, topic: StoredTopic | None) -> bool:
        """Whether some that are meant may have no part yet on a topic, stored as this."""
        patterns = self._destinations.leadership.patterns
        if topic is None:
            return bool(patterns) and patterns.concern(name)
        return bool(patterns) and topic.parts_given != patterns.change_count

    def known(self, name: str) -> StoredTopic | None:
        """Give the topic of this name if it has durable subscriptions by now, else None."""
        if not self._has_subscriptions(name):
            return None
        leadership = self._destinations.leadership
        served = leadership.stored_topics.get(name)
        return served or leadership.stored_topic(self._state.topics[name])

    def is_stored(self, name: str) -> bool:
        """Whether durable subscriptions get what is sent to a topic; asking makes nothing."""
        if self._has_subscriptions(name):
            return True
        patterns = self._destinations.leadership.patterns
        return bool(patterns) and patterns.concern(name)

    def _has_subscriptions(self, name: str) -> bool:
        leadership = self._destinations.leadership
        served = leadership.stored_topics.get(name)
        if served is not None:
            return served.subscription_count > 0
        lasting = self._state.topics.get(name)
        if lasting is None or lasting.number in leadership.leaving:
            return False
        return lasting.declared_count > 0

    def names(self) -> set[str]:
        """Give the names of those that the log has, or that are on their way; of no wildcard."""
        names = (*self._state.topics, *self._destinations.leadership.stored_topics)
        return {name for name in names if not has_wildcards(name)}

    def declare(self, name: str) -> StoredTopic:
        """Let the messages of a topic be stored from now on."""
        destinations = self._destinations
        leadership = destinations.leadership
        topic = leadership.stored_topics.get(name)
        if topic is None:
            number = destinations.take_number()
            topic = StoredTopic(LastingTopic(number, name), leadership)
            self._receipts.record(TopicRecord(number, name, topic.assigned_sequence))
            leadership.stored_topics[name] = leadership.plans[number] = topic
        live = destinations.topics.get(name)
        if live is not None:
            live.note_stored(True)
        elif not has_wildcards(name):
            destinations.say_came(topic)
        return topic

    def remove(self, topic: StoredTopic) -> None:
        """Let a topic's messages be stored no more: nobody is left who needs them later."""
        destinations = self._destinations
        leadership = destinations.leadership
        topic.delete()
        leadership.stored_topics.pop(topic.name, None)
        leadership.leaving[topic.number] = topic
        self._receipts.record(DeleteQueueRecord(topic.number))
        live = destinations.topics.get(topic.name)
        if live is not None:
            live.note_stored(self.is_stored(topic.name))  # Wildcards may mean it still.
        elif not has_wildcards(topic.name):
            destinations.say_gone(topic)
