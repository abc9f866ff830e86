"""
Destinations by name: queues, topics, and the temporary ones of connections.

A queue is declared by a record; until that is applied it is the leader's plan. A topic exists while
somebody asks for it.

Invariants:
    A name means one queue: the leader's, where it has planned one or its deletion, else the log's.
    There are never more of each kind than the settings say.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator

from holdfast.broker.flow_control import require_room
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.dispatch import next_mark
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.broker.serving.topic import IdleTopics, Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.numbering import Numbering
from holdfast.model.records import DispatchMarkRecord, QueueRecord


class Destinations:
    """What messages can be sent to and taken from."""

    __slots__ = (
        "_receipts",
        "_settings",
        "_state",
        "idle_topics",
        "next_queue_number",
        "numbering",
        "temporaries",
        "topics",
    )

    def __init__(self, settings: BrokerSettings, state: BrokerState, receipts: Receipts) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self.next_queue_number = 0
        self.numbering = Numbering()
        """Where each queue's numbers begin under this leader."""
        self.topics: dict[str, Topic] = {}
        self.idle_topics = IdleTopics()
        self.temporaries = Temporaries(settings.temporary_count_max)

    def forget_leadership(self) -> tuple[list[Queue], Collection[object]]:
        """Forget what the log does not have; gives temporary queues and topics, to be let go of."""
        queues, topics = list(self.temporaries.queues.values()), self.topics
        self.topics = {}
        self.idle_topics.clear()
        self.temporaries = Temporaries(self._settings.temporary_count_max)
        return queues, topics

    def queue(self, name: str) -> Queue:
        """
        Give the queue of this name, declaring it if it is new.

        Raises:
            DestinationError: There are too many queues already.
        """
        found = self._state.by_name.get(name)
        if found is not None and not found.is_deleted:
            return found
        require_room(len(self._state.by_name), self._settings.queue_count_max, "queues")
        queue = Queue(self.next_queue_number, name)
        queue.forget_leadership(self._settings.dispatch_mark_step_min, self.numbering)
        self.next_queue_number += 1
        queue.asked_mark = queue.newest_before + queue.mark_step
        # First: a queue that is known and not declared would lose its messages at a restart.
        self._receipts.record(
            QueueRecord(queue.number, name, queue.assigned_sequence, queue.asked_mark)
        )
        self._state.by_name[name] = self._state.plans[queue.number] = queue
        return queue

    def existing(self, name: str) -> Queue:
        """
        Give the queue of this name.

        Raises:
            DestinationError: There is no such queue.
        """
        queue = self._state.by_name.get(name)
        if queue is None or queue.is_deleted:
            raise DestinationError(f"there is no queue {name!r}")
        return queue

    def numbered(self, number: int) -> Queue:
        """Give the queue of a number, also one whose declaration is on its way."""
        return self._state.queues.get(number) or self._state.plans[number]

    def require_queues(self, count: int) -> None:
        """
        Refuse what would declare so many new queues.

        Raises:
            DestinationError: There would be too many.
        """
        if count:
            known = len(self._state.by_name)
            require_room(known + count - 1, self._settings.queue_count_max, "queues")

    def remove(self, queue: Queue) -> None:
        """Let a queue's name mean nothing any more: its deletion is on its way to the log."""
        queue.is_deleted = True
        del self._state.by_name[queue.name]
        self._state.leaving[queue.number] = queue

    def empty(self, queue: Queue) -> None:
        """Take away what the leader alone has of a queue's messages; it is let go of in steps."""
        messages, known = queue.empty()
        queue.acknowledged_total += len(messages)
        self._state.acknowledged_total += len(messages)
        self._state.discards.add_volatile(messages)
        self._state.discards.add(*known)

    def settle_transient(self, queue: Queue, key: int) -> None:
        """Note that a non-persistent message is done with, if it is still there."""
        message = queue.transients.pop(key, None)
        if message is not None:
            queue.acknowledged_total += 1
            queue.transient_bytes -= message.size
            if queue.redelivered:
                queue.redelivered.discard(message.key)
            if queue.had_by:
                queue.had_by.pop(message.key, None)
            if queue.withheld:
                queue.withheld.discard(message.key)
            self._state.acknowledged_total += 1
            self._state.volatile_bytes -= message.size + self._state.overhead

    def advance_mark(self, queue: Queue) -> None:
        """Ask for a dispatch mark further ahead."""
        mark = next_mark(queue, self._settings.dispatch_mark_step_max)
        if mark > queue.asked_mark:
            self._receipts.record(DispatchMarkRecord(queue.number, mark))
            queue.asked_mark = mark  # Now only: else nothing beyond the old mark would go out.

    def topic(self, name: str) -> Topic:
        """
        Give the topic of this name; a topic exists while somebody asks for it.

        Raises:
            DestinationError: There are too many topics with subscribers already.
        """
        topic = self.topics.get(name)
        if topic is None:
            if len(self.topics) >= self._settings.topic_count_max:
                self.idle_topics.forget_one(self.topics)
            require_room(len(self.topics), self._settings.topic_count_max, "topics")
            topic = self.topics[name] = Topic(name)
            self.idle_topics.add(topic)
        return topic

    def drop_temporary(self, owner: Hashable) -> Iterator[None]:
        """Remove the temporary destinations of a connection that is gone, in short steps."""
        for count, queue in enumerate(self.temporaries.drop(owner), 1):
            if queue is not None:
                self.empty(queue)
            if not count % self._settings.step_count_max:
                yield
