"""
Destinations by name: queues, topics, and the temporary ones of connections.

A queue is declared by a record; until that is applied it is the leader's plan. Its serving half is
made when somebody first asks for it. A topic exists while somebody asks for it.

Invariants:
    A name means one queue: the leader's, where it has planned one or its deletion, else the log's.
    There are never more of each kind than the settings say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from holdfast.broker.flow_control import FlowControl, require_room
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.choice import Choice
from holdfast.broker.serving.dispatch import next_mark
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import LOOKED_AT, NO_SHELF, SHELF_SHIFT
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.broker.serving.topic import IdleTopics, Topic
from holdfast.broker.serving.virtual_consumers import VirtualConsumers
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.limits import VIRTUAL_CONSUMERS_MAX
from holdfast.model.numbering import Numbering
from holdfast.model.records import DispatchMarkRecord, QueueRecord, ReturnedRecord
from holdfast.model.virtual_topics import virtual_topic_of


class Destinations:
    """What messages can be sent to and taken from."""

    __slots__ = (
        "_flow",
        "_make_choice",
        "_receipts",
        "_settings",
        "_state",
        "_virtual",
        "idle_topics",
        "leadership",
        "next_queue_number",
        "temporaries",
        "topics",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        receipts: Receipts,
        flow: FlowControl,
        make_choice: Callable[[Queue], Choice],
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._flow = flow
        self._make_choice = make_choice
        self.next_queue_number = 0
        self.topics: dict[str, Topic] = {}
        self.idle_topics = IdleTopics()
        self.begin(Numbering())

    def begin(self, numbering: Numbering) -> None:
        """Begin anew, for a leadership that gives these numbers: nothing of the last is here."""
        self.leadership = Leadership(
            self._settings,
            self._flow,
            self._make_choice,
            numbering,
            producers=self._state.producers,
            say=self._say_returned,
        )
        self._state.planning = self.leadership
        self._virtual: VirtualConsumers | None = None
        """None until somebody asks: to look through all names takes a while."""
        self.temporaries = Temporaries(self._settings.temporary_count_max, self._temporary)
        self.topics = {}
        self.idle_topics.clear()

    def end(self) -> None:
        """Let go, in steps, of what the leader has: the leadership is over."""
        discards = self._flow.discards
        self.leadership.is_over = True
        discards.add_later(self.leadership.piles())
        for queue in self.temporaries.queues.values():
            discards.add_later(queue.piles())
        discards.add(self.topics)

    def _say_returned(self, record: ReturnedRecord) -> bool:
        """Let the log say what comes back, if it has reached the level; whether it has."""
        if self._state.format_level < RETURNS_LEVEL:
            return False
        self._receipts.record(record)
        return True

    @property
    def format_level(self) -> int:
        """Which records the log may hold by now, see `model.format_level`."""
        return self._state.format_level

    def _temporary(self, name: str) -> Queue:
        queue = Queue(LastingQueue(0, name), self.leadership, name)
        queue.mark_step = 0  # Nothing of it is in the log.
        return queue

    def queue(self, name: str) -> Queue:
        """
        Give the queue of this name, declaring it if it is new.

        Raises:
            DestinationError: There are too many queues already.
        """
        return self.leadership.by_name.get(name) or self._known(name) or self._declared(name)

    def existing(self, name: str) -> Queue:
        """
        Give the queue of this name.

        Raises:
            DestinationError: There is no such queue.
        """
        queue = self.leadership.by_name.get(name) or self._known(name)
        if queue is None:
            raise DestinationError(f"there is no queue {name!r}")
        return queue

    def _known(self, name: str) -> Queue | None:
        """Give a queue that the log has and this leader does not serve yet."""
        lasting = self._state.by_name.get(name)
        if lasting is None or lasting.number in self.leadership.leaving:
            return None
        return self.leadership.serve(lasting)

    def _declared(self, name: str) -> Queue:
        require_room(self.queue_count, self._settings.queue_count_max, "queues")
        self._require_virtual_room(name)
        leadership = self.leadership
        number = self.next_queue_number
        queue = Queue(LastingQueue(number, name), leadership, name)
        self.next_queue_number += 1
        queue.asked_mark = queue.newest_before + queue.mark_step
        # First: a queue that is known and not declared would lose its messages at a restart.
        record = QueueRecord(number, name, queue.assigned_sequence, queue.asked_mark)
        self._receipts.record(record)
        leadership.by_name[name] = leadership.plans[number] = queue
        leadership.names_to_come += 1
        if self._virtual is not None:
            self._virtual.add(name)
        return queue

    def _require_virtual_room(self, name: str) -> None:
        topic = virtual_topic_of(name)
        if topic is not None and not self._virtual_consumers.has_room_for(name):
            raise DestinationError(
                f"at most {VIRTUAL_CONSUMERS_MAX:,} queues may consume topic {topic!r}"
            )

    @property
    def _virtual_consumers(self) -> VirtualConsumers:
        if self._virtual is None:
            self._virtual = VirtualConsumers(self.queue_names())
        return self._virtual

    def consumers_of(self, topic: str) -> list[Queue]:
        """Give the queues that consume a topic, if it is a virtual one."""
        return [self.queue(name) for name in self._virtual_consumers.of(topic)]

    @property
    def queue_count(self) -> int:
        """How many names mean a queue now."""
        return len(self._state.by_name) + self.leadership.names_to_come

    def require_queues(self, count: int) -> None:
        """
        Refuse what would declare so many new queues.

        Raises:
            DestinationError: There would be too many.
        """
        if count:
            require_room(self.queue_count + count - 1, self._settings.queue_count_max, "queues")

    def has_queue(self, name: str) -> bool:
        """Whether the name means a queue now."""
        if name in self.leadership.by_name:
            return True
        lasting = self._state.by_name.get(name)
        return lasting is not None and lasting.number not in self.leadership.leaving

    def queue_names(self) -> list[str]:
        """Give the names that mean a queue now, temporary ones too, in no order."""
        known, leadership = self._state.by_name, self.leadership
        names = [*known, *self.temporaries.queues]
        to_come = {each.name for each in leadership.plans.values() if not each.is_deleted}
        going = {each.name for each in leadership.leaving.values()} - leadership.by_name.keys()
        if going:
            names = [name for name in names if name not in going]
        return [*names, *(name for name in to_come if name not in known)]

    def find(self, name: str) -> tuple[LastingQueue, Queue | None] | None:
        """Give both halves of a queue, also of a temporary one; None if the name means none."""
        served = self.leadership.by_name.get(name) or self.temporaries.queues.get(name)
        if served is not None:
            return served.lasting, served
        return (self._state.by_name[name], None) if self.has_queue(name) else None

    def numbered(self, number: int) -> Queue:
        """Give the queue of a number that this leader has served or planned."""
        planned = self.leadership.plans.get(number)
        if planned is not None:
            return planned
        lasting = self._state.queues[number]
        return self.leadership.half_of(lasting) or self.leadership.serve(lasting)

    def remove(self, queue: Queue) -> None:
        """Let a queue's name mean nothing any more: its deletion is on its way to the log."""
        queue.is_deleted = True
        del self.leadership.by_name[queue.name]
        self.leadership.leaving[queue.number] = queue
        self.leadership.names_to_come -= 1
        if self._virtual is not None:
            self._virtual.remove(queue.name)

    def empty(self, queue: Queue) -> None:
        """Take away what the leader alone has of a queue's messages; it is let go of in steps."""
        self._state.acknowledged_total += len(queue.transients)
        queue.empty()

    def settle_transient(self, queue: Queue, key: int) -> None:
        """Note that a non-persistent message is done with, if it is still there."""
        # As `take` does it, without a call for each message.
        transients = queue.transients
        shelf: dict[int, TransientMessage] = transients.shelves.get(key >> SHELF_SHIFT, NO_SHELF)
        message = shelf.pop(key, None)
        if message is not None:
            if len(shelf) in LOOKED_AT:
                transients.tidy(key)
            queue.lasting.acknowledged_total += 1
            queue.transient_bytes -= message.size
            queue.forget((key,))
            self._state.acknowledged_total += 1
            self._flow.volatile_bytes -= message.size + self._flow.overhead

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
